#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/decision.h"

namespace sluice {

// A name in braces in a text of Reject. A number of the decision replaces it. A plain value.
struct RejectPart {
  // What replaces it.
  enum class Kind : std::uint8_t {
    kRetryAfter,  // {retry_after}: whole seconds, rounded up
    kLimit,       // {limit}: Decision::capacity
    kRemaining,   // {remaining}
    kResetAt,     // {reset_at}: RFC 3339 in UTC, rounded up to a second
    kBraces,      // {{limit}}: the name in single braces
  };
  std::size_t at = 0;  // in the text, with its braces
  std::size_t size = 0;
  Kind kind = Kind::kLimit;
  bool is_json_value = false;  // outside of the strings of a JSON text
};

// Appends the text with its parts replaced. A number that the decision does not have becomes `-`,
// or `null` as a value of JSON. Returns whether the decision has all of them. Cost: allocates
// nothing if `out` has room.
bool append_reject(std::string_view text, std::span<const RejectPart> parts,
                   const Decision& decision, Instant now, std::string& out);

// A header field of a response. A plain value.
struct RejectHeader {
  std::string name;
  std::string value;                   // in printable ASCII
  std::vector<RejectPart> parts = {};  // of `value`, in order
};

// The HTTP response of a rule that denies. A plain value.
struct Reject {
  int status = 429;                    // 403 if a rule with RuleAction::kDeny does not set it
  std::string body;                    // empty: the default body of the front end
  std::string content_type = {};       // of `body`, in printable ASCII; empty without a body
  std::vector<RejectPart> parts = {};  // of `body`, in order; see append_reject()
  // A field is left out if the decision does not have the numbers of its value.
  std::vector<RejectHeader> headers = {};
};

}  // namespace sluice
