// Reports to AddressSanitizer or ThreadSanitizer, if one is compiled in, that a thread switches to
// another stack.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define SLUICE_FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define SLUICE_FIBER_TSAN 1
#endif
#include "server/net/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/preallocated.hpp>
#include <cassert>
#include <cstddef>
#include <new>
#include <utility>

#if defined(SLUICE_FIBER_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(SLUICE_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
namespace sluice::server::net {

// The sanitizer's state of one fiber. The functions own_*() are called on the fiber's stack, the
// others on the stack that enters it. Cost: nothing without a sanitizer.
#if defined(SLUICE_FIBER_ASAN)

class SwitchNotes {
 public:
  SwitchNotes(const void* stack, std::size_t size) : stack_(stack), size_(size) {}
  ~SwitchNotes() { forget(); }
  SwitchNotes(const SwitchNotes&) = delete;
  SwitchNotes& operator=(const SwitchNotes&) = delete;

  void before_enter() { __sanitizer_start_switch_fiber(&outer_, stack_, size_); }
  void after_enter() { __sanitizer_finish_switch_fiber(outer_, nullptr, nullptr); }
  void own_arrival() { __sanitizer_finish_switch_fiber(own_, &outer_stack_, &outer_size_); }
  void own_leave() { __sanitizer_start_switch_fiber(&own_, outer_stack_, outer_size_); }
  void own_end() { own_leave(); }  // its own frames are still in use: see forget()

 private:
  // Releases what the sanitizer keeps for the fiber's frames, when it has no more frames. It
  // reports another switch to the fiber without making one.
  __attribute__((no_sanitize_address, noinline)) void forget() {
    __sanitizer_start_switch_fiber(&outer_, stack_, size_);
    __sanitizer_finish_switch_fiber(own_, &outer_stack_, &outer_size_);
    __sanitizer_start_switch_fiber(nullptr, outer_stack_, outer_size_);
    __sanitizer_finish_switch_fiber(outer_, nullptr, nullptr);
  }

  const void* stack_;
  std::size_t size_;
  const void* outer_stack_ = nullptr;
  std::size_t outer_size_ = 0;
  void* outer_ = nullptr;
  void* own_ = nullptr;
};

#elif defined(SLUICE_FIBER_TSAN)

class SwitchNotes {
 public:
  SwitchNotes(const void*, std::size_t) : own_(__tsan_create_fiber(0)) {}
  ~SwitchNotes() { __tsan_destroy_fiber(own_); }
  SwitchNotes(const SwitchNotes&) = delete;
  SwitchNotes& operator=(const SwitchNotes&) = delete;

  // Both switches are made by the caller of the fiber and inline, because the sanitizer counts the
  // functions that have not returned, for each fiber.
  [[gnu::always_inline]] void before_enter() {
    outer_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own_, 0);
  }
  [[gnu::always_inline]] void after_enter() { __tsan_switch_to_fiber(outer_, 0); }
  void own_arrival() {}
  void own_leave() {}
  void own_end() {}

 private:
  void* own_;
  void* outer_ = nullptr;
};

#else

class SwitchNotes {
 public:
  SwitchNotes(const void*, std::size_t) {}
  void before_enter() {}
  void after_enter() {}
  void own_arrival() {}
  void own_leave() {}
  void own_end() {}
};

#endif

namespace {

namespace context = boost::context;

// The fiber of each thread. Only current_fiber() may read it, because no code may keep its address
// across a wait. NOLINTNEXTLINE(*-avoid-non-const-global-variables)
thread_local constinit Fiber* t_current = nullptr;

// Larger than any frame, because a function need not touch its whole frame.
constexpr std::size_t kGuardBytes = std::size_t{64} << 10;

// The memory of a stack, above a guard area that nothing may touch.
class Stack {
 public:
  explicit Stack(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    bytes_ = (bytes + page - 1) / page * page + kGuardBytes;
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    guard_ = static_cast<std::byte*>(memory);
    bottom_ = guard_ + kGuardBytes;
    if (::mprotect(guard_, kGuardBytes, PROT_NONE) != 0) {
      ::munmap(guard_, bytes_);
      throw std::bad_alloc();
    }
  }
  ~Stack() { ::munmap(guard_, bytes_); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::byte* bottom() const { return bottom_; }
  std::size_t size() const { return bytes_ - static_cast<std::size_t>(bottom_ - guard_); }
  std::byte* top() const { return bottom_ + size(); }

 private:
  std::byte* guard_ = nullptr;
  std::byte* bottom_ = nullptr;
  std::size_t bytes_ = 0;
};

// Does not free the stack: the fiber owns it, and it outlives the code that runs on it.
struct KeepsStack {
  void deallocate(context::stack_context&) noexcept {}
};

}  // namespace

Fiber* current_fiber() noexcept { return t_current; }

// A stack that runs one job after the other.
class Fiber {
 public:
  Fiber(FiberPool& of, std::size_t stack_bytes)
      : pool(of), stack_(stack_bytes), notes_(stack_.bottom(), stack_.size()) {
    context::stack_context place;
    place.sp = stack_.top();
    place.size = stack_.size();
    notes_.before_enter();  // the constructor below switches to the fiber for a moment
    inside_ = context::fiber(std::allocator_arg, context::preallocated(place.sp, place.size, place),
                             KeepsStack{},
                             [this](context::fiber&& outside) { return live(std::move(outside)); });
    notes_.own_arrival();
    notes_.own_leave();
    notes_.after_enter();
  }
  // The fiber must not have a job.
  ~Fiber() {
    job = nullptr;
    enter();  // ends the fiber
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber until it leaves or its job is done.
  void enter() {
    t_current = this;
    notes_.before_enter();
    inside_ = std::move(inside_).resume();
    notes_.after_enter();
    t_current = nullptr;
  }
  // Called on the fiber: switches back to the caller of enter(), until the next enter().
  void leave() {
    notes_.own_leave();
    outside_ = std::move(outside_).resume();
    notes_.own_arrival();
  }

  FiberPool& pool;
  FiberJob* job = nullptr;
  bool done = false;

 private:
  context::fiber live(context::fiber&& outside) noexcept {
    outside_ = std::move(outside);
    notes_.own_arrival();
    while (job != nullptr) {
      job->run();
      done = true;
      leave();
    }
    notes_.own_end();
    return std::move(outside_);
  }

  Stack stack_;
  SwitchNotes notes_;
  context::fiber inside_;   // valid while the fiber is not running
  context::fiber outside_;  // valid while the fiber is running
};

FiberPool::FiberPool(const Options& options) : options_(options) {
  all_.push_back(std::make_unique<Fiber>(*this, options_.stack_bytes));
  free_.push_back(all_.back().get());
}

FiberPool::~FiberPool() {
  assert(free_.size() == all_.size());
  // A fiber that still has a job is not freed, because the event that it waits for may still come.
  for (std::unique_ptr<Fiber>& fiber : all_) {
    if (fiber->job == nullptr) continue;
    const Fiber* const kept = fiber.release();
    static_cast<void>(kept);
  }
}

// Returns a fiber without a job, or null if none is free and there is no memory for another.
Fiber* FiberPool::take() {
  if (!free_.empty()) {
    Fiber* const fiber = free_.back();
    free_.pop_back();
    return fiber;
  }
  if (all_.size() >= options_.most) return nullptr;
  try {
    all_.reserve(all_.size() + 1);
    free_.reserve(all_.size() + 1);
    ready_.reserve(all_.size() + 1);
    all_.push_back(std::make_unique<Fiber>(*this, options_.stack_bytes));
    return all_.back().get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool FiberPool::run(FiberJob& job) {
  assert(current_fiber() == nullptr);
  Fiber* const fiber = take();
  if (fiber == nullptr) return false;
  fiber->job = &job;
  enter(*fiber);
  return true;
}

void FiberPool::enter(Fiber& fiber) {
  if (current_fiber() != nullptr) return ready_.push_back(&fiber);
  switch_to(fiber);
  while (!ready_.empty()) {
    Fiber* const next = ready_.front();
    ready_.erase(ready_.begin());
    switch_to(*next);
  }
}

void FiberPool::switch_to(Fiber& fiber) {
  fiber.enter();
  if (!std::exchange(fiber.done, false)) return;
  FiberJob& job = *std::exchange(fiber.job, nullptr);
  free_.push_back(&fiber);
  job.done();
}

void FiberWait::wait() {
  if (finished_) return;
  waiting_ = true;
  fiber_->leave();
}

void FiberWait::finish() {
  finished_ = true;
  if (!waiting_) return;
  fiber_->pool.enter(*fiber_);  // this FiberWait may be gone afterwards
}

}  // namespace sluice::server::net
