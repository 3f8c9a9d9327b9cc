#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/limit.h"

namespace sluice {

// Which header fields report limits to a client: RateLimit and RateLimit-Policy (kDraft),
// X-RateLimit-* (kLegacy), both, or none.
enum class HeaderFields : std::uint8_t { kDraft, kLegacy, kBoth, kNone };

// A header field of a response. A plain value that borrows its texts.
struct HttpField {
  std::string_view name;
  std::string_view value;
};

// A limit, the name by which clients know it, and what was decided on it. A plain value that
// borrows its texts.
struct NamedDecision {
  // Any text. Bytes other than printable ASCII, and '%', are written as %XX.
  std::string_view name;
  Limit limit;
  Decision decision;
  // Distinguishes limits with the same name: clients see "GROUP/NAME". Empty: "NAME".
  std::string_view group = {};
};

// Returns the status of the HTTP response to a request: 200 if it is allowed, 429 if it is denied
// (404 for kGone, 409 for kConflict, 403 for kDenyRule), 503 if the store could not decide, 400 if
// the request itself is wrong (kInvalid).
int http_status(const Decision& decision) noexcept;

// Writes decisions as the header fields of an HTTP response, as the server of Sluice does:
// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11), X-RateLimit-Limit,
// X-RateLimit-Remaining and X-RateLimit-Reset, and Retry-After if the request is denied.
//
//   sluice::HttpFields fields;
//   const sluice::Decision decision = limiter.try_acquire(user, kPerUser);
//   response.set_status(sluice::http_status(decision));
//   for (const auto& [name, value] : fields.of("user", kPerUser, decision)) {
//     response.set_header(name, value);
//   }
//
// In RateLimit-Policy `q` of permits has the unit (`qu`) "concurrent-requests", and `w` is the time
// in which `q` units come back, so a bucket with a burst has a longer `w` than its period. In
// RateLimit `t` is the time in which the client can use no more than the remaining units: until the
// next unit of a bucket comes back; of any other limit until it is fully replenished. If the
// request is denied, it is at most Retry-After. X-RateLimit-Reset is the time until the limit is
// fully replenished.
//
// Times are whole seconds, rounded up: a client that waits for Retry-After is admitted. The
// tightest limit comes first, and the X-RateLimit fields are its own. A limit that was not read (a
// failure policy answered) has a policy, but no RateLimit. A list ends before it would exceed 2
// KiB.
//
// Thread-safety: one HttpFields for each thread. Ownership: owns the texts that it returns; they
// are valid until its next call. Errors: none but std::bad_alloc. Cost: some hundred instructions
// for each limit; it keeps its buffers, so it allocates nothing once they have grown.
class HttpFields {
 public:
  // Creates a writer without buffers.
  HttpFields();
  ~HttpFields();
  // Movable, not copyable.
  HttpFields(HttpFields&&) noexcept;
  HttpFields& operator=(HttpFields&&) noexcept;

  // Returns the fields of a request with one limit.
  std::span<const HttpField> of(std::string_view name, const Limit& limit, const Decision& decision,
                                HeaderFields wanted = HeaderFields::kBoth);
  // Returns the fields of a request with several limits. `decision` is that of the whole request.
  std::span<const HttpField> of(std::span<const NamedDecision> limits, const Decision& decision,
                                HeaderFields wanted = HeaderFields::kBoth);
  // Returns the same fields as complete lines: "Name: value\r\n". Cheaper.
  std::string_view lines(std::span<const NamedDecision> limits, const Decision& decision,
                         HeaderFields wanted = HeaderFields::kBoth);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
