#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/config.h"

namespace sluice::envoy {

// Returns the configuration of one file, which must be valid.
inline Config config_of(std::string_view yaml) {
  const RuleText file{"f.yaml", yaml};
  auto config = Config::parse({&file, 1});
  if (config) return *std::move(config);
  for (const RuleError& error : config.error()) ADD_FAILURE() << error.to_string();
  return {};
}

// Returns the errors of one file, as printed.
inline std::vector<std::string> errors_of(std::string_view yaml) {
  const RuleText file{"f.yaml", yaml};
  const auto config = Config::parse({&file, 1});
  std::vector<std::string> out;
  if (config) return out;
  for (const RuleError& error : config.error()) out.push_back(error.to_string());
  return out;
}

}  // namespace sluice::envoy
