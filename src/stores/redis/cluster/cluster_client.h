#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "stores/redis/client/backoff.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// When to connect to one server of a cluster, without I/O: with the first command for it, after a
// backoff if an attempt failed, and at once after a connection that had lasted.
class Reconnect {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Random = std::function<std::uint64_t()>;  // 64 random bits

  Reconnect(Duration first_backoff, Duration longest_backoff, Random random);

  // Whether a connection may be made now.
  bool is_due(Time now) const noexcept { return !has_link_ && now >= earliest_; }
  // When one may be made. Time::max(): there is one, or it is being made.
  Time due() const noexcept { return has_link_ ? Time::max() : earliest_; }
  // The last attempt failed or its connection did not last, and none has been ready since. Commands
  // are refused at once, because another attempt would probably fail too.
  bool is_failing() const noexcept { return is_failing_; }

  void connecting() noexcept { has_link_ = true; }
  void ready(Time now) noexcept;
  void ended(Time now);

 private:
  Backoff backoff_;
  Random random_;
  bool has_link_ = false;
  bool is_ready_ = false;
  bool is_failing_ = false;
  Time ready_at_ = {};
  Time earliest_ = Time::min();
};

// Commands that wait for a time, the earliest first, equal ones in the order of add(). Borrows
// them.
class Parked {
 public:
  bool is_empty() const noexcept { return heap_.empty(); }
  std::size_t size() const noexcept { return heap_.size(); }
  // The time of the earliest; Time::max() if there is none.
  Time due() const noexcept { return heap_.empty() ? Time::max() : heap_.front().due; }

  void add(Command& command, Time due);
  // Removes and returns the earliest if it is due; else null.
  Command* take(Time now) noexcept;

 private:
  struct Entry {
    Time due;
    std::uint64_t number;
    Command* command;
  };
  static bool is_later(const Entry& a, const Entry& b) noexcept {
    return a.due != b.due ? a.due > b.due : a.number > b.number;
  }

  std::vector<Entry> heap_;
  std::uint64_t next_number_ = 0;
};

// A client of a Redis Cluster: it connects to each master that it needs, sends commands by their
// slots, follows redirects, and keeps the map of the slots up to date.
//
// Commands wait for the first map; they are refused from when no server could be asked for it until
// one answers. A command is sent again only if the server said that it was not executed (MOVED,
// ASK, TRYAGAIN). See Client for thread-safety and ownership.
std::unique_ptr<Client> make_cluster_client(std::unique_ptr<EventLoop> loop,
                                            std::shared_ptr<const Target> target,
                                            StoreObserver* observer);

}  // namespace sluice::redis
