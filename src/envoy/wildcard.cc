#include "envoy/wildcard.h"

namespace sluice::envoy {

// The part before the first `*` must begin the text and the part after the last must end it. The
// pieces between are searched from the left: the leftmost match leaves the most text for the rest.
bool matches_wildcard(std::string_view pattern, std::string_view text) noexcept {
  const std::size_t first = pattern.find('*');
  if (first == pattern.npos) return pattern == text;
  const std::string_view begin = pattern.substr(0, first);
  const std::string_view end = pattern.substr(pattern.rfind('*') + 1);
  if (text.size() < begin.size() + end.size()) return false;
  if (!text.starts_with(begin) || !text.ends_with(end)) return false;
  text.remove_prefix(begin.size());
  text.remove_suffix(end.size());
  pattern.remove_prefix(first);
  pattern.remove_suffix(end.size());
  while (!pattern.empty()) {
    const std::string_view piece = pattern.substr(0, pattern.find('*'));
    const std::size_t at = text.find(piece);
    if (at == text.npos) return false;
    text.remove_prefix(at + piece.size());
    pattern.remove_prefix(piece.size() < pattern.size() ? piece.size() + 1 : piece.size());
  }
  return true;
}

}  // namespace sluice::envoy
