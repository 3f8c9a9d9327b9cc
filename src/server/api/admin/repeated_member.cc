#include "server/api/admin/repeated_member.h"

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

namespace sluice::server {
namespace {

// Removes the string at the front, and returns it with its quotes.
std::string_view take_string(std::string_view& json) {
  std::size_t end = 1;
  while (json[end] != '"') end += json[end] == '\\' ? 2 : 1;
  const std::string_view text = json.substr(0, end + 1);
  json.remove_prefix(end + 1);
  return text;
}

std::string text_of_quoted(std::string_view quoted) {
  if (quoted.find('\\') != quoted.npos) return std::string(boost::json::parse(quoted).as_string());
  return std::string(quoted.substr(1, quoted.size() - 2));
}

bool is_name(std::string_view rest) {
  const std::size_t next = rest.find_first_not_of(" \t\r\n");
  return next != rest.npos && rest[next] == ':';
}

}  // namespace

std::optional<std::string> find_repeated_member(std::string_view json) {
  std::vector<std::string> names;  // of the objects around this byte
  std::vector<std::size_t> open;   // for each of these objects, the first of its names
  for (;;) {
    json.remove_prefix(std::min(json.find_first_of("\"{}"), json.size()));
    if (json.empty()) return std::nullopt;
    if (json.front() == '"') {
      const std::string_view text = take_string(json);
      if (!is_name(json)) continue;
      std::string name = text_of_quoted(text);
      const auto first = names.begin() + static_cast<std::ptrdiff_t>(open.back());
      if (std::find(first, names.end(), name) != names.end()) return name;
      names.push_back(std::move(name));
      continue;
    }
    if (json.front() == '{') {
      open.push_back(names.size());
    } else {
      names.resize(open.back());
      open.pop_back();
    }
    json.remove_prefix(1);
  }
}

}  // namespace sluice::server
