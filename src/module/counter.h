#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/algorithms.h"
#include "module/request.h"

namespace sluice::redis_module {

// A part of a value: bytes from an offset on.
struct Piece {
  std::size_t at = 0;
  std::string bytes;
};

// The decision about one counter, and the change of its value. Reused for later requests.
struct Outcome {
  enum class Kind : std::uint8_t {
    kDecided,
    kForeign,  // the value is not that of such a counter
    kWindow,   // the client has to send other windows of the calendar
  };

  Kind kind = Kind::kDecided;
  core::Answer answer;
  core::Ticks at = 0;  // the instant of the decision
  // What a reply contains instead of the value that was found. Logs and permits only.
  std::string reply;
  bool replaces_found = false;

  core::Change change = core::Change::kNone;
  // kWrite: the new value; or, if the value stays, its changed pieces. The key is to be kept until
  // an instant, unless it is kept that long already.
  std::string value;
  std::vector<Piece> pieces;
  core::Ticks keep_until = 0;
  bool is_kept = false;

  void clear() noexcept;
};

// Decides for one counter with the step of its algorithm. `found`: the value, empty if the key does
// not exist. Changes nothing but `outcome`. May throw std::bad_alloc.
void decide(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
            core::Ticks now, Outcome& outcome);

// The part of decide() for logs (log_decision.cc).
void decide_log(Action action, const Limit& limit, std::uint64_t cost, std::string_view found,
                core::Ticks now, Outcome& outcome);

}  // namespace sluice::redis_module
