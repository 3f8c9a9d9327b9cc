#include "base/request_target.h"

#include <algorithm>
#include <cstddef>

#include "base/quoted.h"

namespace sluice::base {
namespace {

constexpr bool is_scheme_byte(char c) noexcept { return is_letter_or("+-.", c); }

// Removes "http://host" from "http://host/path". Leaves "/path" and targets without a scheme
// unchanged.
void remove_authority(std::string_view& target) noexcept {
  if (target.empty() || !is_letter(target.front())) return;
  const auto* const scheme_end = std::find_if_not(target.begin(), target.end(), is_scheme_byte);
  const auto scheme = static_cast<std::size_t>(scheme_end - target.begin());
  constexpr std::string_view kMark = "://";
  if (!target.substr(scheme).starts_with(kMark)) return;
  target.remove_prefix(scheme + kMark.size());
  target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
}

// Returns whether a path is already in normal form, as nearly all are.
bool is_normal(std::string_view path) noexcept {
  char before = 0;
  for (const char c : path) {
    if (c == '%' || (before == '/' && (c == '/' || c == '.'))) return false;
    before = c;
  }
  return path.starts_with('/');
}

// Resolves segments in place. The output always ends with the slash before the next segment, so it
// is never longer than the input read so far.
std::size_t resolve(std::string& path) noexcept {
  std::size_t written = 1;
  std::size_t read = 1;
  while (read < path.size()) {
    const std::size_t slash = std::min(path.find('/', read), path.size());
    const std::string_view segment(path.data() + read, slash - read);
    if (segment == "..") {
      if (written > 1) written = path.rfind('/', written - 2) + 1;
    } else if (!segment.empty() && segment != ".") {
      std::copy(segment.begin(), segment.end(),
                path.begin() + static_cast<std::ptrdiff_t>(written));
      written += segment.size();
      if (slash < path.size()) path[written++] = '/';
    }
    read = slash + 1;
  }
  return written;
}

char take_query_byte(std::string_view& rest) noexcept {
  if (rest.front() != '+') return take_decoded(rest);
  rest.remove_prefix(1);
  return ' ';
}

bool decodes_to(std::string_view encoded, std::string_view plain) noexcept {
  for (const char c : plain) {
    if (encoded.empty() || take_query_byte(encoded) != c) return false;
  }
  return encoded.empty();
}

}  // namespace

RequestTarget split_target(std::string_view target) noexcept {
  target = target.substr(0, target.find('#'));
  remove_authority(target);
  const std::size_t mark = target.find('?');
  if (mark == target.npos) return {target, {}};
  return {target.substr(0, mark), target.substr(mark + 1)};
}

std::string_view normalized_path(std::string_view sent, std::string& buffer) {
  if (is_normal(sent)) return sent;
  buffer.assign(1, '/');
  while (!sent.empty()) buffer.push_back(take_decoded(sent));
  buffer.resize(resolve(buffer));
  return buffer;
}

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
  for (char& c : buffer) c = lower(c);
  return buffer;
}

std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers) {
  while (!query.empty()) {
    std::string_view encoded = take_until(query, '&');
    if (encoded.empty() || !decodes_to(take_until(encoded, '='), name)) continue;
    if (encoded.find_first_of("%+") == encoded.npos) return encoded;
    std::string& decoded = buffers.next();
    while (!encoded.empty()) decoded.push_back(take_query_byte(encoded));
    return decoded;
  }
  return std::nullopt;
}

}  // namespace sluice::base
