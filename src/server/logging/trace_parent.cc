#include "server/logging/trace_parent.h"

#include <algorithm>
#include <cstddef>

namespace sluice::server {
namespace {

// Only lower-case digits are valid.
bool is_hex(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_id(std::string_view text) noexcept {
  return is_hex(text) && text.find_first_not_of('0') != text.npos;
}

}  // namespace

std::optional<TraceParent> TraceParent::parse(std::string_view text) noexcept {
  constexpr std::size_t kTrace = 3, kSpan = 36, kFlags = 53, kSize = 55;
  if (text.size() < kSize) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const bool is_longer = text.size() > kSize;
  if (!is_hex(version) || version == "ff") return std::nullopt;
  if (is_longer && (version == "00" || text[kSize] != '-')) return std::nullopt;
  for (const std::size_t dash : {kTrace - 1, kSpan - 1, kFlags - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  const TraceParent trace{text.substr(kTrace, 32), text.substr(kSpan, 16)};
  if (!is_id(trace.trace_id) || !is_id(trace.span_id) || !is_hex(text.substr(kFlags, 2))) {
    return std::nullopt;
  }
  return trace;
}

}  // namespace sluice::server
