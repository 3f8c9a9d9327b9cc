#pragma once

#include <chrono>

#include "replay/log_input.h"

namespace sluice::cli {

// A line on stderr with the progress of a replay, redrawn ten times per second.
//
// Not thread-safe. The destructor clears the line.
class ProgressLine {
 public:
  explicit ProgressLine(bool shown) : shown_(shown) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool shown() const noexcept { return shown_; }
  void show(const replay::Progress& progress);
  // Clears the line before other text on stderr.
  void clear();

 private:
  using SteadyClock = std::chrono::steady_clock;

  bool shown_;
  bool drawn_ = false;
  SteadyClock::time_point started_ = SteadyClock::now();
  SteadyClock::time_point next_ = started_ + std::chrono::milliseconds{200};
};

}  // namespace sluice::cli
