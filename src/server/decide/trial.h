#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/request_target.h"
#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// How many requests a server takes at most for one POST /v1/try.
inline constexpr std::uint64_t kMostTried = 1000;

// A request as a person writes it: "POST /login ip=192.0.2.1". A method, a path with its query, and
// attributes as NAME=VALUE. The path and the host are those that a gateway's request would have.
class WrittenRequest final : public AttributeSource {
 public:
  // Reads the words, or the words of a single text. Errors: "WHAT; EXPECTED".
  static Expected<WrittenRequest> read(const std::vector<std::string>& words);

  std::optional<std::string_view> find(std::string_view name) const override;
  const std::map<std::string, std::string>& values() const noexcept { return values_; }

 private:
  std::string add_word(const std::string& word);
  std::string add(const std::string& name, std::string value);

  std::map<std::string, std::string> values_;
  std::string target_;
  mutable base::Buffers buffers_;
};

// Explain a decision in lines, for people.

// Whether a rule reads the attribute, or every request has it.
bool is_read(const RuleSet& rules, std::string_view attribute);
// The attributes of the request that no rule reads.
std::string explain_unread(const RuleSet& rules, const WrittenRequest& request);
// Which rules match, and why the others do not.
std::string explain_rules(const RuleSet& rules, const WrittenRequest& request);
// The limits that apply, with their keys, numbers and overrides, and those that do not. `overrides`
// may be null.
std::string explain_limits(const RuleSet& rules, const WrittenRequest& request,
                           const RuleAnswer& answer, const Overrides* overrides = nullptr);
// The decision of one request: "denied  limited, again after 40 s; address 0 of 2 left".
std::string explain_decision(const RuleAnswer& answer);
// What /v1/auth answers.
std::string explain_response(const RuleAnswer& answer, const Clock& clock);

std::string in_seconds(Duration time);  // "1.500 s", rounded up

}  // namespace sluice::server
