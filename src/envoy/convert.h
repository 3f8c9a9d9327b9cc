#pragma once

#include <string>
#include <vector>

#include "envoy/config.h"

namespace sluice::envoy {

// The native rules (docs/rules.md) that are closest to one of Envoy's files.
struct Converted {
  std::string yaml;
  std::vector<std::string> remarks;  // the differences: "DESCRIPTOR: WHAT"
};

Converted convert(const Domain& domain);

}  // namespace sluice::envoy
