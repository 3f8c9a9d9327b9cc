#pragma once

#include <string>
#include <vector>

#include "envoy/config.h"

namespace sluice::envoy {

// Native rules (docs/rules.md) as near to one of Envoy's files as they can be.
struct Converted {
  std::string yaml;
  std::vector<std::string> remarks;  // what they do otherwise: "DESCRIPTOR: WHAT"
};

Converted convert(const Domain& domain);

}  // namespace sluice::envoy
