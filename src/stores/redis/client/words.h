#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sluice::redis {

// Returns a server's text for logs: shortened, without control characters, and without the
// arguments that an error about an unknown command repeats, which may contain a password.
inline std::string shown(std::string_view said) {
  constexpr std::size_t kMost = 200;
  std::string out(said.substr(0, said.find(", with args beginning with")));
  out.resize(std::min(out.size(), kMost));
  std::replace_if(
      out.begin(), out.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

}  // namespace sluice::redis
