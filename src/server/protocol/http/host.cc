#include "server/protocol/http/host.h"

#include <algorithm>

namespace sluice::server {
namespace {

constexpr bool is_upper(char c) noexcept { return c >= 'A' && c <= 'Z'; }

}  // namespace

std::string_view host_name(std::string_view authority, std::string& buffer) {
  std::string_view name = authority;
  const std::size_t bracket = name.starts_with('[') ? name.find(']') : name.npos;
  if (bracket != name.npos) {
    name = name.substr(1, bracket - 1);
  } else {
    name = name.substr(0, name.find(':'));
    if (name.ends_with('.')) name.remove_suffix(1);
  }
  if (std::none_of(name.begin(), name.end(), is_upper)) return name;
  buffer.assign(name);
  for (char& c : buffer) {
    if (is_upper(c)) c = static_cast<char>(c | 0x20);
  }
  return buffer;
}

}  // namespace sluice::server
