#pragma once

#include <cstdint>
#include <string>

#include "sluice/limit.h"

namespace sluice {

enum class OnMissing : std::uint8_t { kSkip, kDeny };  // when a key's attribute is absent

// One limit of a rule. `name` is the file's, or "RULE/INDEX" where it gives none.
struct RuleLimit {
  std::string name;
  std::string key;  // the template as written; empty: one counter for all
  Limit limit;
  OnMissing on_missing = OnMissing::kSkip;
};

}  // namespace sluice
