#pragma once

#include <cstddef>
#include <memory>
#include <vector>

// Code that is written as if it could block, and lets its event loop go on while it waits.
namespace sluice::server::net {

// What a fiber does. Ownership: the caller's; stays where it is until done().
class FiberJob {
 public:
  virtual ~FiberJob() = default;
  // On the fiber; may wait. An exception that leaves it ends the process.
  virtual void run() = 0;
  // After run(), on the stack of the loop, with the fiber free again. May destroy the job.
  virtual void done() = 0;
};

class Fiber;

// The fiber that is running in this thread; null on the thread's own stack.
Fiber* current_fiber() noexcept;

// The fibers of one event loop: stacks of their own, kept from job to job, with memory below
// them that ends the process rather than let them grow into something else.
//
// Thread-safety: one thread only. Ownership: owns the fibers; none is under way when it is
// destroyed. Cost: some 50 ns for a job that does not wait. A stack takes memory as it is used, and
// keeps it.
class FiberPool {
 public:
  struct Options {
    std::size_t most = 512;                            // fibers at once; at least 1
    std::size_t stack_bytes = std::size_t{128} << 10;  // of each; rounded up to pages
  };

  // Makes the first fiber. Errors: std::bad_alloc.
  explicit FiberPool(const Options& options);
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  // Runs the job until it waits or is done; false, and does nothing, where no fiber is free. Not to
  // be called on a fiber.
  bool run(FiberJob& job);

 private:
  friend class FiberWait;

  Fiber* take();
  void enter(Fiber& fiber);
  void switch_to(Fiber& fiber);

  const Options options_;
  std::vector<std::unique_ptr<Fiber>> all_;
  std::vector<Fiber*> free_;   // the one that was used last is the next
  std::vector<Fiber*> ready_;  // to go on once the fiber that is running lets go
};

// A fiber's wait for one thing, which may be there before it waits:
//
//   FiberWait wait;
//   submit(command, [&] { wait.finish(); });   // perhaps at once
//   wait.wait();
//
// Made on a fiber. Never wait inside of a catch block. Thread-safety: the fiber's thread only.
class FiberWait {
 public:
  FiberWait() noexcept : fiber_(current_fiber()) {}
  FiberWait(const FiberWait&) = delete;
  FiberWait& operator=(const FiberWait&) = delete;

  // Lets the loop go on until finish().
  void wait();
  // Once; from anywhere in the thread. Goes on with a fiber that waits, and returns when that waits
  // again or is done; called on another fiber, it leaves that to the moment when this one lets go.
  void finish();

 private:
  Fiber* fiber_;
  bool finished_ = false;
  bool waiting_ = false;
};

}  // namespace sluice::server::net
