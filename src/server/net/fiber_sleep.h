#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "sluice/clock.h"

namespace boost::asio {
class io_context;
}

namespace sluice::server::net {

class FiberSleep;

// The fibers of one event loop that sleep.
//
// Thread-safety: the loop's thread only. Ownership: borrows the loop, and outlives its fibers.
class FiberSleeps {
 public:
  explicit FiberSleeps(boost::asio::io_context& loop) noexcept : loop_(loop) {}
  FiberSleeps(const FiberSleeps&) = delete;
  FiberSleeps& operator=(const FiberSleeps&) = delete;

  // Ends all sleeps, also those that begin later. Resumes the fibers at once.
  void stop();

 private:
  friend class FiberSleep;

  boost::asio::io_context& loop_;
  bool stopped_ = false;
  std::vector<FiberSleep*> all_;
};

// The sleep of a fiber until an instant of SteadyClock, or until another thread ends it.
//
// Thread-safety: wake() from any thread; the rest in the loop's thread, sleep() on the fiber.
class FiberSleep {
 public:
  explicit FiberSleep(FiberSleeps& loop);
  ~FiberSleep();
  FiberSleep(const FiberSleep&) = delete;
  FiberSleep& operator=(const FiberSleep&) = delete;

  // Lets the loop run other work until the instant, or until wake(), which may come before. Returns
  // false after stop().
  bool sleep(Instant until);
  void wake();
  // Ends this sleep and all later ones. Like wake(), it resumes the fiber from the loop, so that
  // its caller may be in the middle of other work.
  void stop();

 private:
  friend class FiberSleeps;
  struct State;

  FiberSleeps& loop_;
  const std::shared_ptr<State> state_;
};

// Runs work that blocks, such as writing a file, in the thread of another loop, while the fiber
// sleeps. If the sleeps of the fiber's loop are stopped, the fiber runs what has not begun. Errors:
// what `work` throws.
void run_elsewhere(boost::asio::io_context& elsewhere, FiberSleeps& sleeps,
                   const std::function<void()>& work);

}  // namespace sluice::server::net
