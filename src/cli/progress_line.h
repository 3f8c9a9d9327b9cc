#pragma once

#include <chrono>
#include <string>

#include "replay/log_input.h"

namespace sluice::cli {

// A line on stderr with the progress of reading logs, redrawn ten times per second: the share of
// the log, the rate, and the time until its end if it is a file.
//
// Not thread-safe. The destructor clears the line.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const replay::Progress& progress);
  // Clears the line before other text on stderr.
  void clear();

 private:
  using SteadyClock = std::chrono::steady_clock;

  bool drawn_ = false;
  SteadyClock::time_point started_ = SteadyClock::now();
  std::string log_;  // the log being read, and since when
  SteadyClock::time_point log_started_ = started_;
  SteadyClock::time_point next_ = started_ + std::chrono::milliseconds{200};
};

}  // namespace sluice::cli
