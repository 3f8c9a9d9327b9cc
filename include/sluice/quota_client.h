#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace sluice {

// What a bucket decides while it has no assignment: before the first one arrives, and after the
// last one has ended.
enum class QuotaFallback : std::uint8_t { kAllow, kDeny };

// A part of a limit that a quota service has assigned to this process. Decides without a request:
// the client reports the demand, and the service changes the assignment.
//
// Thread-safety: try_take() and the const members from any thread. Ownership: its client's. Cost of
// try_take(): one read of the clock and two atomic operations; no lock and no allocation, except
// for the first use after a time without use, which wakes the client's thread. Buckets share no
// cache line.
class alignas(64) QuotaBucket {
 public:
  QuotaBucket(const QuotaBucket&) = delete;
  QuotaBucket& operator=(const QuotaBucket&) = delete;

  // Takes units, all or none. Returns whether it took them. More units than the assignment admits
  // at once are always denied.
  bool try_take(std::uint32_t units = 1) noexcept;

  // Units that were taken and denied since the client was made.
  std::uint64_t allowed() const noexcept { return allowed_.load(std::memory_order_relaxed); }
  std::uint64_t denied() const noexcept { return denied_.load(std::memory_order_relaxed); }
  // Whether an assignment is in force.
  bool is_assigned() const noexcept;

 private:
  friend class QuotaClient;
  enum class Kind : std::uint8_t { kAllowAll, kDenyAll, kTokens };
  // All times are nanoseconds of the steady clock.
  struct Assignment {
    Kind kind = Kind::kAllowAll;
    std::int64_t interval = 0;   // in which one unit comes back
    std::int64_t tolerance = 0;  // in which a bucket that is empty becomes full
    std::int64_t until = 0;      // it ends then
  };

  static std::int64_t steady_now() noexcept {
    using std::chrono::steady_clock, std::chrono::nanoseconds;
    return nanoseconds(steady_clock::now().time_since_epoch()).count();
  }
  QuotaBucket(QuotaFallback fallback, std::function<void()> on_first_use)
      : fallback_(fallback), on_first_use_(std::move(on_first_use)) {}
  void assign(const Assignment& assignment) noexcept;  // by one thread only
  Assignment assignment() const noexcept;
  void keep_tokens(const Assignment& before, const Assignment& now) noexcept;
  bool take_tokens(const Assignment& of, std::uint32_t units, std::int64_t now) noexcept;

  // The assignment. `version_` is odd while it is written.
  std::atomic<std::uint32_t> version_{0};
  std::atomic<Kind> kind_{Kind::kAllowAll};
  std::atomic<std::int64_t> interval_{0}, tolerance_{0}, until_{0};
  const QuotaFallback fallback_;
  std::atomic<bool> is_reported_{false};
  const std::function<void()> on_first_use_;
  alignas(64) std::atomic<std::int64_t> full_at_{0};  // the bucket is full from then on
  std::atomic<std::uint64_t> allowed_{0}, denied_{0};
};

}  // namespace sluice
