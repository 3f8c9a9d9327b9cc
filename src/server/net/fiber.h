#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

// Fibers run code that is written as if it blocked, while the event loop continues.
namespace sluice::server::net {

// The work of a fiber. Ownership: the caller's. It must not move before done().
struct FiberJob {
  // Called on the fiber; may wait. An exception that leaves it ends the process.
  std::function<void()> run;
  // Called after run() on the loop's stack, when the fiber is free again. May destroy the job.
  std::function<void()> done = [] {};
};

class Fiber;

// Returns the fiber that is running in this thread, or null on the thread's own stack.
Fiber* current_fiber() noexcept;

// The fibers of one event loop. Each fiber keeps its stack from job to job. A guard area below each
// stack ends the process if the stack overflows.
//
// Thread-safety: one thread only. Ownership: owns the fibers; no job may be in progress when the
// pool is destroyed. Cost: about 50 ns for a job that does not wait. A stack takes memory as it is
// used, and keeps it.
class FiberPool {
 public:
  struct Options {
    std::size_t most = 512;                            // concurrent fibers; at least 1
    std::size_t stack_bytes = std::size_t{128} << 10;  // of each fiber; rounded up to pages
  };

  // Makes the first fiber. Errors: std::bad_alloc.
  explicit FiberPool(const Options& options);
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Runs the job until it waits or is done. Returns false and does nothing if no fiber is free.
  // Must not be called on a fiber.
  bool run(FiberJob& job);

 private:
  friend class FiberWait;

  Fiber* take();
  void enter(Fiber& fiber);
  void switch_to(Fiber& fiber);

  const Options options_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;   // the most recently used one is taken first
  std::vector<Fiber*> ready_;  // fibers to resume when the running fiber leaves
};

// The wait of a fiber for one event, which may happen before the wait begins:
//
//   FiberWait wait;
//   submit(command, [&] { wait.finish(); });   // perhaps at once
//   wait.wait();
//
// Constructed on a fiber. Never wait inside a catch block. Thread-safety: the fiber's thread only.
class FiberWait {
 public:
  FiberWait() noexcept : fiber_(current_fiber()) {}
  FiberWait(const FiberWait&) = delete;
  FiberWait& operator=(const FiberWait&) = delete;

  // Lets the loop run other work until finish().
  void wait();
  // Call it once, anywhere in the thread. Resumes the waiting fiber and returns when that fiber
  // waits again or is done. If it is called on another fiber, the waiting fiber resumes when that
  // fiber leaves.
  void finish();

 private:
  Fiber* fiber_;
  bool finished_ = false;
  bool waiting_ = false;
};

}  // namespace sluice::server::net
