#pragma once

#include <chrono>

#include "replay/replay.h"

namespace sluice::cli {

// One line on stderr that says how far a replay is, redrawn ten times a second.
//
// Not thread-safe. The destructor leaves the line empty.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool shown() const noexcept { return shown_; }
  void show(const replay::Progress& progress);
  // Makes room for other text on stderr.
  void clear();

 private:
  using SteadyClock = std::chrono::steady_clock;

  bool shown_;
  bool drawn_ = false;
  SteadyClock::time_point started_ = SteadyClock::now();
  SteadyClock::time_point next_ = started_ + std::chrono::milliseconds{200};
};

}  // namespace sluice::cli
