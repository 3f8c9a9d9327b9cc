#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::server {

// The state of Envoy's files.
struct EnvoyStatus {
  std::vector<std::string> sources;  // files and directories, as configured
  std::size_t domains = 0;
  std::size_t limits = 0;
  std::uint64_t reloads = 0;           // reloads that changed the active files
  std::uint64_t failures = 0;          // reloads that were refused
  std::vector<RuleError> last_errors;  // of the latest reading; empty if it succeeded
};

}  // namespace sluice::server
