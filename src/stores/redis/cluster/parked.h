#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

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

}  // namespace sluice::redis
