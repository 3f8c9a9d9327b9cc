#include "server/protocol/http/fields.h"

#include <algorithm>

namespace sluice::server {

bool same_letters(std::string_view sent, std::string_view lower_case_name) noexcept {
  return std::equal(sent.begin(), sent.end(), lower_case_name.begin(), [](char c, char lower) {
    return c == lower || (c >= 'A' && c <= 'Z' && (c | 0x20) == lower);
  });
}

std::optional<std::string_view> find_header(std::span<const http::Field> fields,
                                            std::string_view lower_case_name, Buffers& buffers) {
  const std::string_view* first = nullptr;
  std::string* joined = nullptr;
  for (const http::Field& field : fields) {
    if (!has_name(field, lower_case_name)) continue;
    if (first == nullptr) {
      first = &field.value;
      continue;
    }
    if (joined == nullptr) {
      joined = &buffers.next();
      joined->append(*first);
    }
    joined->append(lower_case_name == "cookie" ? "; " : ", ").append(field.value);
  }
  if (joined != nullptr) return *joined;
  return first != nullptr ? std::optional(*first) : std::nullopt;
}

std::optional<std::string_view> find_cookie(std::span<const http::Field> fields,
                                            std::string_view name) noexcept {
  for (const http::Field& field : fields) {
    if (!has_name(field, "cookie")) continue;
    std::string_view rest = field.value;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      const std::string_view pair = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const std::size_t equals = pair.find('=');
      if (equals == pair.npos || trimmed(pair.substr(0, equals)) != name) continue;
      return trimmed(pair.substr(equals + 1));
    }
  }
  return std::nullopt;
}

std::string_view bearer_token(std::string_view authorization) noexcept {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  if (scheme.size() != kScheme.size() || !same_letters(scheme, kScheme)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return text.substr(text.size());
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace sluice::server
