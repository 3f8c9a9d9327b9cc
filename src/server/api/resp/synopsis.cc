#include "server/api/resp/synopsis.h"

namespace sluice::server::resp {
namespace {

// Removes the text up to the next blank outside of brackets and returns it.
std::string_view take_group(std::string_view& rest) {
  std::size_t end = 0;
  int depth = 0;
  for (; end < rest.size() && (depth > 0 || rest[end] != ' '); ++end) {
    if (rest[end] == '[') ++depth;
    if (rest[end] == ']') --depth;
  }
  const std::string_view group = rest.substr(0, end);
  rest.remove_prefix(end < rest.size() ? end + 1 : end);
  return group;
}

}  // namespace

std::vector<SynopsisPart> read_synopsis(std::string_view synopsis) {
  std::vector<SynopsisPart> parts;
  while (!synopsis.empty()) {
    std::string_view group = take_group(synopsis);
    SynopsisPart part;
    if (group.ends_with("...")) {
      part.multiple = true;
      group.remove_suffix(3);
    }
    if (group.starts_with('[') && group.ends_with(']')) {
      part.optional = true;
      group = group.substr(1, group.size() - 2);
    }
    const std::size_t blank = group.rfind(' ');
    const bool has_token = blank != group.npos;
    part.name = has_token ? group.substr(blank + 1) : group;
    // "[attribute value]..." is two arguments that are repeated together; the first is not a token.
    const std::string_view before = has_token ? group.substr(0, blank) : std::string_view();
    if (!before.empty() && before.front() >= 'A' && before.front() <= 'Z') {
      part.token = before;
    } else if (!before.empty()) {
      parts.push_back({before, {}, part.optional, part.multiple});
    }
    parts.push_back(part);
  }
  return parts;
}

}  // namespace sluice::server::resp
