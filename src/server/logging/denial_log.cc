#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "server/logging/log.h"
#include "server/logging/log_line.h"

namespace sluice::server {
namespace {

constexpr std::size_t kLongestKey = 1024;
constexpr std::size_t kSlots = 16;

class CoarseClock final : public Clock {
 public:
  Instant now() const noexcept override {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return Instant{std::chrono::seconds{now.tv_sec}};
  }
};

// A count that many threads add to: each mostly to a slot of its own, so that they do not wait for
// one another's cache line.
class SpreadCount {
 public:
  void add_one() noexcept { slot().fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t take() noexcept {
    std::uint64_t sum = 0;
    for (Slot& one : slots_) sum += one.count.exchange(0, std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> count{0};
  };
  std::atomic<std::uint64_t>& slot() noexcept {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    const auto thread = std::uint64_t{pthread_self()} * kGolden;
    return slots_[thread >> (64 - std::bit_width(kSlots - 1))].count;
  }

  std::array<Slot, kSlots> slots_;
};

// At most so many in each second of a clock.
class PerSecond {
 public:
  explicit PerSecond(std::uint32_t most) : most_(most) {}

  bool admit(std::int64_t second) noexcept {
    const auto now = static_cast<std::uint64_t>(second) << 32;
    auto state = state_.load(std::memory_order_relaxed);
    for (;;) {
      const bool same = state >> 32 == now >> 32;
      if (same && static_cast<std::uint32_t>(state) >= most_) return false;
      const auto next = same ? state + 1 : now + 1;
      if (state_.compare_exchange_weak(state, next, std::memory_order_relaxed)) return true;
    }
  }

 private:
  std::uint32_t most_;
  std::atomic<std::uint64_t> state_{~std::uint64_t{0} << 32};  // the second, and how many in it
};

// Of the limits that denied the one with the longest wait; null where something else did.
const LimitAnswer* longest_wait(const RuleAnswer& answer) noexcept {
  const auto wait = [](const LimitAnswer& of) {
    return of.decision.retry_after.value_or(Duration::max());
  };
  const LimitAnswer* longest = nullptr;
  for (const LimitAnswer& of : answer.limits) {
    if (of.decision.allowed() || of.rule->mode == RuleMode::kShadow) continue;
    if (longest == nullptr || wait(of) > wait(*longest)) longest = &of;
  }
  return longest;
}

std::int64_t milliseconds_up(Duration wait) noexcept {
  return std::chrono::ceil<std::chrono::milliseconds>(wait).count();
}

}  // namespace

class DenialLog::Impl {
 public:
  Impl(Log& log, const Clock* clock)
      : log_(log),
        clock_(clock != nullptr ? *clock : coarse_clock_),
        per_second_(log.options().denials_per_second),
        wanted_(log.options().denials_per_second > 0 && log.options().level <= LogLevel::kInfo) {
    if (getentropy(secret_.data(), secret_.size()) != 0) {
      throw std::system_error(errno, std::generic_category(), "no randomness to hash keys with");
    }
  }

  void write(const RuleAnswer& answer) {
    if (admits(answer.decision)) write_line(answer);
  }
  void write(std::string_view key, const Decision& decision) {
    if (!admits(decision)) return;
    std::vector<LogField> fields;
    const std::string told = told_key(key);
    if (!told.empty()) fields.emplace_back("key", told);
    write_fields(fields, decision.reason, decision.retry_after);
  }

 private:
  // Whether it is to be written now.
  bool admits(const Decision& decision) noexcept {
    if (!wanted_ || decision.allowed()) return false;
    const auto now = std::chrono::floor<std::chrono::seconds>(clock_.now());
    if (per_second_.admit(now.time_since_epoch().count())) return true;
    suppressed_.add_one();
    return false;
  }
  void write_line(const RuleAnswer& answer);
  void write_fields(std::vector<LogField>& fields, Reason reason, std::optional<Duration> wait);
  std::string told_key(std::string_view key) const;

  Log& log_;
  CoarseClock coarse_clock_;
  const Clock& clock_;
  PerSecond per_second_;
  const bool wanted_;
  SpreadCount suppressed_;
  std::array<unsigned char, XXH3_SECRET_SIZE_MIN> secret_{};
};

// Empty where keys are not told.
std::string DenialLog::Impl::told_key(std::string_view key) const {
  if (log_.options().keys == LogKeys::kNone) return {};
  if (log_.options().keys == LogKeys::kPlain) return cut(key, kLongestKey);
  const XXH64_hash_t hash =
      XXH3_64bits_withSecret(key.data(), key.size(), secret_.data(), secret_.size());
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(hash));
  return hex.data();
}

void DenialLog::Impl::write_line(const RuleAnswer& answer) {
  const LimitAnswer* limit = longest_wait(answer);
  const Rule* rule = limit != nullptr ? limit->rule : answer.rule;
  const auto wait = limit != nullptr ? limit->decision.retry_after : answer.decision.retry_after;
  const std::string key = limit != nullptr && !limit->label.empty() ? told_key(limit->label) : "";
  std::vector<LogField> fields;
  if (rule != nullptr) fields.emplace_back("rule", rule->name);
  if (limit != nullptr) fields.emplace_back("limit", limit->limit->name);
  if (!key.empty()) fields.emplace_back("key", key);
  write_fields(fields, answer.decision.reason, wait);
}

void DenialLog::Impl::write_fields(std::vector<LogField>& fields, Reason reason,
                                   std::optional<Duration> wait) {
  const std::uint64_t suppressed = suppressed_.take();
  fields.emplace_back("reason", to_string(reason));
  if (wait) fields.emplace_back("retry_after_ms", milliseconds_up(*wait));
  if (suppressed > 0) fields.emplace_back("suppressed", suppressed);
  log_.write_all(LogLevel::kInfo, "denied", fields);
}

DenialLog::DenialLog(Log& log, const Clock* clock) : impl_(std::make_unique<Impl>(log, clock)) {}

DenialLog::~DenialLog() = default;

void DenialLog::write(const RuleAnswer& answer) noexcept {
  try {
    impl_->write(answer);
  } catch (...) {  // out of memory: a line less
  }
}

void DenialLog::write(std::string_view key, const Decision& decision) noexcept {
  try {
    impl_->write(key, decision);
  } catch (...) {  // likewise
  }
}

}  // namespace sluice::server
