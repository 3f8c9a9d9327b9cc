#pragma once

#include <atomic>
#include <thread>

#if defined(__GLIBC__)
#include <sys/single_threaded.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace sluice::memory {

// A lock for the few nanoseconds of a decision. It spins, and yields the processor if that takes
// long, for instance if its holder was interrupted. In ./dev bench, two threads on one hot key have
// over half of one thread's throughput; with std::mutex, which lets them sleep, they have a
// quarter.
class Lock {
 public:
  void lock() noexcept {
    if (is_alone()) {
      held_.store(true, std::memory_order_relaxed);
      return;
    }
    while (held_.exchange(true, std::memory_order_acquire)) wait();
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kLooksBeforeYield = 64;

  // A process with one thread needs no lock; std::mutex does the same.
  static bool is_alone() noexcept {
#if defined(__GLIBC__)
    return __libc_single_threaded != 0;
#else
    return false;
#endif
  }

  void wait() const noexcept {
    int pauses = 1;
    for (int looks = 0; held_.load(std::memory_order_relaxed); ++looks) {
      if (looks >= kLooksBeforeYield) {
        std::this_thread::yield();
        continue;
      }
      for (int i = 0; i < pauses; ++i) pause();
      if (pauses < 32) pauses *= 2;
    }
  }

  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }

  std::atomic<bool> held_{false};
};

}  // namespace sluice::memory
