#pragma once

#include <string>

namespace sluice::metrics {

// Returns the value of a series as text, or "absent".
inline std::string value_of(const std::string& text, const std::string& series) {
  const auto at = ("\n" + text).find("\n" + series + " ");
  if (at == std::string::npos) return "absent";
  const auto from = at + series.size() + 1;
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace sluice::metrics
