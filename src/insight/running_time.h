#pragma once

#include <mutex>

#include "sluice/clock.h"

namespace sluice::insight {

// The time since the start. It never goes back: a step back of the clock does not change it, and it
// continues from there.
//
// Thread-safety: any member from any thread. Ownership: borrows the clock.
class RunningTime {
 public:
  explicit RunningTime(const Clock& clock) : clock_(clock), last_(clock.now()) {}
  Duration now() const {
    const std::lock_guard lock(mutex_);
    const Instant now = clock_.now();
    if (now > last_) passed_ += now - last_;
    last_ = now;
    return passed_;
  }

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;
  mutable Instant last_;
  mutable Duration passed_{0};
};

}  // namespace sluice::insight
