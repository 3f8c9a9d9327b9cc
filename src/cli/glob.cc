#include "cli/glob.h"

#include <utility>

namespace sluice::cli {
namespace {

// One element of a pattern, and the rest of the pattern.
struct Element {
  std::string_view text;  // "a", "\a", "?", "*", "[...]"
  std::string_view rest;
};

// Reads the first element of a pattern that is not empty. An unterminated class ends with the
// pattern.
Element first_of(std::string_view pattern) noexcept {
  std::size_t size = 1;
  if (pattern[0] == '\\' && pattern.size() > 1) size = 2;
  if (pattern[0] == '[') {
    while (size < pattern.size() && pattern[size] != ']') {
      size += pattern[size] == '\\' && size + 1 < pattern.size() ? 2U : 1U;
    }
    size += size < pattern.size() ? 1U : 0U;
  }
  return {pattern.substr(0, size), pattern.substr(size)};
}

// Removes the first byte of a class.
unsigned char take_byte(std::string_view& members) noexcept {
  if (members.size() > 1 && members[0] == '\\') members.remove_prefix(1);
  const auto byte = static_cast<unsigned char>(members[0]);
  members.remove_prefix(1);
  return byte;
}

bool in_class(std::string_view members, unsigned char byte) noexcept {
  members.remove_prefix(1);
  if (members.ends_with(']')) members.remove_suffix(1);
  const bool negated = members.starts_with('^');
  if (negated) members.remove_prefix(1);
  bool found = false;
  while (!members.empty()) {
    unsigned char low = take_byte(members);
    unsigned char high = low;
    if (members.size() > 1 && members[0] == '-') {
      members.remove_prefix(1);
      high = take_byte(members);
    }
    if (low > high) std::swap(low, high);
    found |= low <= byte && byte <= high;
  }
  return found != negated;
}

bool matches_byte(std::string_view element, char c) noexcept {
  if (element == "?") return true;
  if (element[0] == '[') return in_class(element, static_cast<unsigned char>(c));
  return element.back() == c;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view text) noexcept {
  // Where to continue if the text after the last star does not match: that star matches one byte
  // more.
  std::string_view behind_star;
  std::string_view retry;
  bool starred = false;
  for (;;) {
    if (pattern.empty() && text.empty()) return true;
    const Element element = pattern.empty() ? Element{} : first_of(pattern);
    if (element.text == "*") {
      starred = true;
      behind_star = pattern = element.rest;
      retry = text;
    } else if (!element.text.empty() && !text.empty() && matches_byte(element.text, text[0])) {
      pattern = element.rest;
      text.remove_prefix(1);
    } else {
      if (!starred || retry.empty()) return false;
      retry.remove_prefix(1);
      text = retry;
      pattern = behind_star;
    }
  }
}

bool is_literal(std::string_view pattern) noexcept {
  while (!pattern.empty()) {
    const Element element = first_of(pattern);
    if (element.text == "*" || element.text == "?" || element.text[0] == '[') return false;
    pattern = element.rest;
  }
  return true;
}

std::string as_glob(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace sluice::cli
