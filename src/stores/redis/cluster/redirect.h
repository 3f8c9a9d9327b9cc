#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// What an error of a cluster's server says of where its command belongs.
struct Redirect {
  enum class Kind : std::uint8_t {
    kNone,      // nothing: an error like any other
    kMoved,     // the slot is served at `address` from now on
    kAsk,       // this once, ask at `address`, by ASKING
    kTryAgain,  // the slot is just moving, and not all of the keys are in one place
    kStale,     // the server is not what the map says: not ready, replica, or no part of it
  };
  Kind kind = Kind::kNone;
  std::uint16_t slot = 0;
  ServerAddress address = {};
};

// `from`: the server that answered; a redirect that names no host means the same one.
Redirect read_redirect(std::string_view error, const ServerAddress& from);

// A command that a server has refused with an error, having done nothing.
struct Refused {
  std::string_view error;
  const ServerAddress& from;
  std::uint8_t redirects = 0;  // that it has followed until now
  Time deadline = {};
};

// What becomes of it.
struct Step {
  enum class Kind : std::uint8_t {
    kEnd,    // the error is its answer
    kSend,   // to `address`
    kPause,  // until `until`; then to whom the map says
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
// Until a command is sent again that was told TRYAGAIN.
inline constexpr std::chrono::milliseconds kPause{5};

// Follows MOVED and ASK, pauses at TRYAGAIN, and ends what has been redirected too often or has no
// time left.
Step next_step(const Refused& command, Time now);

}  // namespace sluice::redis
