#include "server/protocol/http/fields.h"

#include <algorithm>
#include <array>

namespace sluice::server {
namespace {

constexpr auto kLowerCase = [] {
  std::array<char, 256> lower{};
  for (std::size_t c = 0; c < lower.size(); ++c) {
    lower[c] = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  }
  return lower;
}();

// Passes the elements of all X-Forwarded-For fields from right to left, without empty ones, until
// `take` returns false.
template <typename Take>
void pass_hops(std::span<const http::Field> fields, Take take) noexcept {
  for (std::size_t i = fields.size(); i-- > 0;) {
    if (!has_name(fields[i], "x-forwarded-for")) continue;
    std::string_view left = fields[i].value;
    for (bool more = true; more;) {
      const std::size_t comma = left.rfind(',');
      more = comma != left.npos;
      const std::string_view hop = trimmed(more ? left.substr(comma + 1) : left);
      if (!hop.empty() && !take(hop)) return;
      if (more) left = left.substr(0, comma);
    }
  }
}

// Returns the value of X-Real-IP if there is exactly one. With several fields nobody knows which is
// right.
std::string_view real_ip(std::span<const http::Field> fields) noexcept {
  std::string_view found;
  for (const http::Field& field : fields) {
    if (!has_name(field, "x-real-ip")) continue;
    if (!found.empty()) return {};
    found = field.value;
  }
  return trimmed(found);
}

}  // namespace

std::string_view client_address(const http::Request& request, const TrustedProxies& trusted,
                                base::AddressText& buffer) noexcept {
  if (!trusted.contains(request.peer)) return request.peer;
  std::string_view known;
  bool forwarded = false;
  pass_hops(request.fields, [&](std::string_view hop) {
    forwarded = true;
    const auto address = IpAddress::parse(without_port(hop));
    if (!address) return false;
    known = without_port(hop);
    return trusted.contains(*address);
  });
  if (!forwarded) {
    const std::string_view only = without_port(real_ip(request.fields));
    if (IpAddress::parse(only)) known = only;
  }
  if (known.empty()) return request.peer;
  if (known.find(':') == known.npos) return known;  // IPv4 has no other spelling
  buffer = base::network_of(known, {}).value_or(base::AddressText{});
  return buffer.view();
}

bool same_letters(std::string_view sent, std::string_view lower_case_name) noexcept {
  return std::equal(sent.begin(), sent.end(), lower_case_name.begin(), [](char c, char lower) {
    return kLowerCase[static_cast<unsigned char>(c)] == lower;
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
      const std::string_view pair = base::take_until(rest, ';');
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

}  // namespace sluice::server
