#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::server {

// How Envoy's files are.
struct EnvoyStatus {
  std::vector<std::string> sources;  // files, and directories of them, as they were given
  std::size_t domains = 0;
  std::size_t limits = 0;
  std::uint64_t reloads = 0;           // that changed what is in force
  std::uint64_t failures = 0;          // that were refused; what was in force stayed
  std::vector<RuleError> last_errors;  // of the newest reading; empty where it went well
};

}  // namespace sluice::server
