#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/rule_limit.h"
#include "sluice/store.h"

namespace sluice {

enum class RuleMode : std::uint8_t { kEnforce, kShadow };
// Which header fields tell a client its limits: RateLimit and RateLimit-Policy, X-RateLimit-*, ...
enum class HeaderFields : std::uint8_t { kDraft, kLegacy, kBoth, kNone };

// What a rule answers in the place of the default when it denies.
struct Reject {
  int status = 429;
  std::string body;               // empty: the door's own
  std::string content_type = {};  // of `body`; printable ASCII; empty where there is no body
};

// One rule of a file, in file order.
struct Rule {
  std::string name;
  std::vector<RuleLimit> limits;
  RuleMode mode = RuleMode::kEnforce;
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  bool continues = false;  // `continue: true`: the rules after it are tried too
  Reject reject;
  HeaderFields headers = HeaderFields::kBoth;
  std::string domain = {};  // that of its file
  std::string tag = {};     // the template as written; empty: none (Charge::tag)
};

}  // namespace sluice
