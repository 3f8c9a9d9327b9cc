#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// What an error of a cluster server says about the place of its command.
struct Redirect {
  enum class Kind : std::uint8_t {
    kNone,      // nothing: another error
    kMoved,     // the slot is served at `address` from now on
    kAsk,       // send this command once to `address`, after ASKING
    kTryAgain,  // the slot is moving, and the keys are not all on one server
    kStale,     // the map is wrong about the server: it is not ready, a replica, or has left
  };
  Kind kind = Kind::kNone;
  std::uint16_t slot = 0;
  ServerAddress address = {};
};

// `from`: the server that answered; a redirect without a host means the same one.
Redirect read_redirect(std::string_view error, const ServerAddress& from);

// A command that a server has refused with an error, without executing it.
struct Refused {
  std::string_view error;
  const ServerAddress& from;
  std::uint8_t redirects = 0;  // that it has followed
  Time deadline = {};
};

// What to do with it.
struct Step {
  enum class Kind : std::uint8_t {
    kEnd,    // the error is its answer
    kSend,   // to `address`
    kPause,  // until `until`; then send it by the map
  };
  Kind kind = Kind::kEnd;
  ServerAddress address = {};  // also of `moved`
  bool asking = false;
  Time until = {};
  std::uint8_t redirects = 0;
  std::optional<std::uint16_t> moved = {};  // the slot that is served at `address` from now on
  bool refresh = false;                     // the map is out of date
};

inline constexpr std::uint8_t kMostRedirects = 5;
// The wait before a command is sent again after TRYAGAIN.
inline constexpr std::chrono::milliseconds kPause{5};

// Follows MOVED and ASK, pauses at TRYAGAIN, and ends a command that was redirected too often or
// has no time left.
Step next_step(const Refused& command, Time now);

}  // namespace sluice::redis
