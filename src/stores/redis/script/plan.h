#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/client/command.h"

namespace sluice::redis {

// How requests become script calls.
struct PlanOptions {
  std::string_view prefix;  // of every key
  bool by_slot = false;     // a cluster: one call for the counters of each slot
  std::uint64_t stated_expiry_ms = 86'400'000;
};

// One request on its way to Redis and back, without I/O: its counters (charges on one counter count
// together), the script call for those of each slot, and what the replies say.
//
//   begin() -> write() each part -> read() each part's reply -> [write_undo() where another part
//   denied or failed] -> answer()
//
// Keeps its buffers from one request to the next. Ownership: borrows the charges until answer().
class Plan {
 public:
  // False: the request is kInvalid.
  bool begin(const PlanOptions& options, Verb verb, std::span<const Charge> charges,
             std::optional<Instant> now);

  // How many script calls: one, but in a cluster. At most kMaxCharges.
  std::size_t parts() const noexcept;
  // Fills in script, elements, tail and slot. Clears what was there.
  void write(std::size_t part, Command& command) const;

  enum class Read : std::uint8_t {
    kAllowed,   // this part admits (and has taken, for a take)
    kDenied,    // it does not; nothing was taken
    kMalformed  // not a reply of our script
  };
  Read read(std::size_t part, const redisReply& reply);

  // The call that gives back exactly what an allowed take of this part has taken, and never more
  // than is still there of it: after it nothing is admitted that would not have been without both.
  // Its reply is ignored.
  void write_undo(std::size_t part, Command& command) const;

  // After a read() of every part: the answer to each charge and to the request. Parts that
  // admitted while another denied are answered as untouched.
  void answer(std::span<Decision> each, Decision& all) const;

  // Whether an error reply's text says that a key holds something that is not ours.
  static bool is_foreign_value(std::string_view error) noexcept;
};

// All scripts, for loading them ahead.
std::span<const Script> scripts() noexcept;

}  // namespace sluice::redis
