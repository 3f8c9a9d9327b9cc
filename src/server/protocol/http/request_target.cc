#include "server/protocol/http/request_target.h"

#include <algorithm>
#include <cstddef>

namespace sluice::server {
namespace {

char take_query_byte(std::string_view& rest) noexcept {
  if (rest.front() != '+') return base::take_decoded(rest);
  rest.remove_prefix(1);
  return ' ';
}

bool decodes_to(std::string_view encoded, std::string_view plain) noexcept {
  for (const char c : plain) {
    if (encoded.empty() || take_query_byte(encoded) != c) return false;
  }
  return encoded.empty();
}

std::string_view decoded(std::string_view encoded, Buffers& buffers) {
  if (encoded.find_first_of("%+") == encoded.npos) return encoded;
  std::string& out = buffers.next();
  while (!encoded.empty()) out.push_back(take_query_byte(encoded));
  return out;
}

}  // namespace

std::optional<std::string_view> find_query(std::string_view query, std::string_view name,
                                           Buffers& buffers) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    if (pair.empty() || !decodes_to(pair.substr(0, equals), name)) continue;
    return decoded(pair.substr(std::min(equals + 1, pair.size())), buffers);
  }
  return std::nullopt;
}

}  // namespace sluice::server
