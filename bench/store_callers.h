#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "bench/workload.h"
#include "sluice/limiter.h"

namespace sluice::bench {

inline constexpr std::size_t kCallers = 64;
inline constexpr std::size_t kKeys = 1000;

inline const std::vector<std::string>& keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (std::size_t i = 0; i < kKeys; ++i) {
      char key[kKeyBytes];
      write_key(key, i);
      made.emplace_back(key, sizeof(key));
    }
    return made;
  }();
  return all;
}

// The processor time of the callers.
struct Cost {
  double ns = 0;
  std::size_t asked = 0;

  double us_each() const { return ns / 1000 / static_cast<double>(asked); }
};

inline double process_cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

// Threads that use one limiter; each waits for every answer.
class Callers {
 public:
  Callers(Store& store, const Limit& limit, std::size_t key_count)
      : limiter_(store), limit_(limit), key_count_(key_count) {
    for (std::size_t i = 0; i < kCallers; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~Callers() {
    count_ = 0;
    gate_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;

  void operator()(std::size_t first, std::size_t count) {
    first_ = first;
    count_ = count;
    next_ = 0;
    cost.ns -= process_cpu_ns();
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    cost.ns += process_cpu_ns();
    cost.asked += count;
  }

  std::uint64_t undecided() const { return undecided_; }

  Cost cost;

 private:
  void serve() {
    for (;;) {
      gate_.arrive_and_wait();
      if (count_ == 0) return;
      ask();
      gate_.arrive_and_wait();
    }
  }
  void ask() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      const std::string& key = keys()[((first_ + i) * 0x9E37'79B9u >> 8) % key_count_];
      const Decision decision = limiter_.try_acquire(key, limit_);
      const bool is_one = decision.reason == Reason::kOk || decision.reason == Reason::kLimited ||
                          decision.reason == Reason::kDenyCache;
      if (!is_one) ++undecided_;
    }
  }

  Limiter limiter_;
  Limit limit_;
  std::size_t key_count_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> undecided_{0};
  std::barrier<> gate_{kCallers + 1};
  std::vector<std::thread> threads_;
};

}  // namespace sluice::bench
