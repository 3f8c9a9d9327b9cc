#pragma once

#include <cstddef>

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

}  // namespace sluice::server::net
