#include "server/protocol/http/client_address.h"

#include "server/protocol/http/fields.h"

namespace sluice::server {
namespace {

// Walks all X-Forwarded-For fields from right to left.
class Hops {
 public:
  explicit Hops(std::span<const http::Field> fields) : left_(fields) {}

  // Returns the next element that is not empty, or an empty text at the end.
  std::string_view next() noexcept {
    while (more_ || find_field()) {
      const std::size_t comma = value_.rfind(',');
      const std::string_view hop =
          trimmed(comma == value_.npos ? value_ : value_.substr(comma + 1));
      more_ = comma != value_.npos;
      value_ = more_ ? value_.substr(0, comma) : std::string_view();
      if (!hop.empty()) return hop;
    }
    return {};
  }

 private:
  bool find_field() noexcept {
    while (!left_.empty()) {
      const http::Field& field = left_.back();
      left_ = left_.first(left_.size() - 1);
      if (!has_name(field, "x-forwarded-for")) continue;
      value_ = field.value;
      return more_ = true;
    }
    return false;
  }

  std::span<const http::Field> left_;  // fields that are not read yet
  std::string_view value_;             // the unread part of the current field
  bool more_ = false;                  // the current field has an unread part
};

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
                                rules::AddressText& buffer) noexcept {
  if (!trusted.contains(request.peer)) return request.peer;
  std::string_view known;
  bool forwarded = false;
  Hops hops(request.fields);
  for (std::string_view hop = hops.next(); !hop.empty(); hop = hops.next()) {
    forwarded = true;
    const auto address = IpAddress::parse(without_port(hop));
    if (!address) break;
    known = without_port(hop);
    if (!trusted.contains(*address)) break;
  }
  if (!forwarded) {
    const std::string_view only = without_port(real_ip(request.fields));
    if (IpAddress::parse(only)) known = only;
  }
  if (known.empty()) return request.peer;
  if (known.find(':') == known.npos) return known;  // IPv4 has no other spelling
  buffer = rules::network_of(known, {}).value_or(rules::AddressText{});
  return buffer.view();
}

}  // namespace sluice::server
