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

// A process with one thread needs no lock; std::mutex does the same.
inline bool is_alone() noexcept {
#if defined(__GLIBC__)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

// The waits of a lock for the few nanoseconds of a decision. It spins, and yields the processor if
// that takes long, for instance if the holder was interrupted.
class Spin {
 public:
  // Returns false from the first yield on.
  bool wait() noexcept {
    if (looks_ >= kLooksBeforeYield) {
      std::this_thread::yield();
      return false;
    }
    ++looks_;
    for (int i = 0; i < pauses_; ++i) pause();
    if (pauses_ < kMostPauses) pauses_ *= 2;
    return true;
  }

 private:
  // Each look takes the cache line from the holder, so looks are rare: while one thread waits, the
  // other one makes several decisions.
  static constexpr int kFirstPauses = 8;
  static constexpr int kMostPauses = 64;
  static constexpr int kLooksBeforeYield = 24;

  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }

  int looks_ = 0;
  int pauses_ = kFirstPauses;
};

// The lock of a shard.
class Lock {
 public:
  void lock() noexcept {
    if (is_alone()) {
      held_.store(true, std::memory_order_relaxed);
      return;
    }
    while (held_.exchange(true, std::memory_order_acquire)) {
      for (Spin spin; held_.load(std::memory_order_relaxed);) spin.wait();
    }
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace sluice::memory
