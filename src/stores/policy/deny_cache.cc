// Remembers denials of the store until the first instant at which it could allow, and answers
// requests of the same key and cost from memory until then. Synchronous and asynchronous stores
// share the table.

#include "stores/policy/deny_cache.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <new>

#include "limiter/answer.h"
#include "sluice/deny_cache.h"
#include "stores/policy/async_policies.h"
#include "stores/policy/spread_count.h"

namespace sluice::policy {
namespace {

using memory::Fingerprint;

constexpr std::size_t kWays = 7;
constexpr std::size_t kNowhere = kWays;
constexpr std::uint64_t kMostGroups = std::uint64_t{1} << 32;
// How often a group is read again if it is being written; then its denials are ignored.
constexpr int kTries = 4;

// Acquire and release, so that the number of a group is read and written around its words.
class Word {
 public:
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_acquire); }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct Slot {
  Word high;
  Word units;
  Word rest;
  Word cost_and_remaining;
  Word denied_at;
  Word retry_after;
  Word reset_after;

  void write(const Fingerprint& key, const Denial& denial) noexcept {
    high.set(key.high);
    units.set(denial.numbers.units);
    rest.set(denial.numbers.rest);
    cost_and_remaining.set(std::uint64_t{denial.cost} << 32 | denial.remaining);
    denied_at.set(static_cast<std::uint64_t>(denial.denied_at.time_since_epoch().count()));
    retry_after.set(static_cast<std::uint64_t>(denial.retry_after.count()));
    reset_after.set(static_cast<std::uint64_t>(denial.reset_after.count()));
  }
  Denial denial() const noexcept {
    const auto ticks = [](const Word& word) {
      return Duration{static_cast<Duration::rep>(word.get())};
    };
    const std::uint64_t both = cost_and_remaining.get();
    return {.numbers = {units.get(), rest.get()},
            .denied_at = Instant{ticks(denied_at)},
            .retry_after = ticks(retry_after),
            .reset_after = ticks(reset_after),
            .cost = static_cast<std::uint32_t>(both >> 32),
            .remaining = static_cast<std::uint32_t>(both)};
  }
  std::uint64_t ends() const noexcept { return denied_at.get() + retry_after.get(); }
};

// Returns the period, or the number of the calendar with bit 60 set.
std::uint64_t period_of(const Limit& limit) noexcept {
  if (limit.calendar() == nullptr) return static_cast<std::uint64_t>(limit.period().count());
  return std::uint64_t{1} << 60 | limit.calendar()->number();
}

}  // namespace

struct alignas(64) DenyTable::Group {
  std::atomic<std::uint64_t> number{0};
  std::array<Word, kWays> low;  // half of each slot's key; 0: free
  std::array<Slot, kWays> slots;
  Word forgotten;

  std::size_t place_of(const Fingerprint& key) const noexcept {
    for (std::size_t i = 0; i < kWays; ++i) {
      if (low[i].get() == key.low && slots[i].high.get() == key.high) return i;
    }
    return kNowhere;
  }
  // Returns a free slot, or the one that ends first.
  std::size_t place_for_another() const noexcept {
    std::size_t best = 0;
    for (std::size_t i = 0; i < kWays; ++i) {
      if (low[i].get() == 0) return i;
      if (slots[i].ends() < slots[best].ends()) best = i;
    }
    return best;
  }
  // Under the lock.
  template <typename Change>
  void write(Change change) noexcept {
    const std::uint64_t before = number.load(std::memory_order_relaxed);
    number.store(before + 1, std::memory_order_relaxed);
    change();
    number.store(before + 2, std::memory_order_release);
  }
};

PackedNumbers PackedNumbers::of(const Limit& limit) noexcept {
  static_assert(kMaxPeriod.count() < std::int64_t{1} << 45);
  static_assert(kMaxSlices < 1u << 11);
  return {.units = std::uint64_t{limit.limit()} << 32 | limit.capacity(),
          .rest = period_of(limit) | std::uint64_t{limit.slices()} << 45 |
                  static_cast<std::uint64_t>(limit.align()) << 56 |
                  static_cast<std::uint64_t>(limit.weighting()) << 57 |
                  static_cast<std::uint64_t>(limit.mode()) << 58 |
                  static_cast<std::uint64_t>(limit.refill()) << 59};
}

DenyTable::DenyTable(std::size_t max_keys)
    : groups_count_(std::clamp<std::uint64_t>((max_keys + kWays - 1) / kWays, 1, kMostGroups)),
      groups_(std::make_unique<Group[]>(groups_count_)) {
  static_assert(sizeof(Group) == 512);
}

DenyTable::~DenyTable() = default;

DenyTable::Group& DenyTable::group_of(const Fingerprint& key) noexcept {
  return groups_[((key.high >> 32) * groups_count_) >> 32];
}

std::mutex& DenyTable::lock_of(const Group& group) noexcept {
  return locks_[static_cast<std::size_t>(&group - groups_.get()) % kLocks];
}

std::optional<Denial> DenyTable::find(const Group& group, const Fingerprint& key) noexcept {
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = group.number.load(std::memory_order_acquire);
    const std::size_t place = group.place_of(key);
    if (place == kNowhere) return std::nullopt;
    const Denial denial = group.slots[place].denial();
    const bool is_whole = before % 2 == 0 && group.number.load(std::memory_order_relaxed) == before;
    if (is_whole) return denial;
  }
  return std::nullopt;
}

std::uint64_t DenyTable::forgotten(const Group& group) noexcept { return group.forgotten.get(); }

void DenyTable::put(Group& group, std::uint64_t forgotten_before, const Fingerprint& key,
                    const Denial& denial) noexcept {
  const std::lock_guard lock(lock_of(group));
  if (group.forgotten.get() != forgotten_before) return;
  std::size_t place = group.place_of(key);
  if (place == kNowhere) place = group.place_for_another();
  group.write([&] {
    group.low[place].set(key.low);
    group.slots[place].write(key, denial);
  });
}

void DenyTable::forget(Group& group, const Fingerprint& key) noexcept {
  const std::lock_guard lock(lock_of(group));
  group.forgotten.set(group.forgotten.get() + 1);
  const std::size_t place = group.place_of(key);
  if (place != kNowhere) group.write([&] { group.low[place].set(0); });
}

}  // namespace sluice::policy

namespace sluice {
namespace {

using memory::Fingerprint;
using policy::Denial;
using policy::DenyTable;
using policy::PackedNumbers;

// Requests of up to this many charges need only a small stack frame.
constexpr std::size_t kFewCharges = 4;

// Returns whether a limit has denied, so that nothing was taken.
constexpr bool is_denial(const Decision& decision) noexcept {
  return decision.reason == Reason::kLimited || decision.reason == Reason::kNever ||
         decision.reason == Reason::kBlocked || decision.reason == Reason::kConflict ||
         decision.reason == Reason::kTooManyHolds;
}

// Returns whether the store would deny such a charge again and count nothing. A permit can be
// released and a hold settled at any time, and a denial may count for a block.
constexpr bool is_repeatable(const Charge& charge, Reason reason) noexcept {
  if (holds_amounts(charge.limit.algorithm())) return false;
  if (reason == Reason::kBlocked) return true;
  return reason == Reason::kLimited && charge.block == nullptr &&
         !holds_permits(charge.limit.algorithm());
}

Decision not_asked(const Charge& charge) noexcept {
  return {.reason = Reason::kDenyCache, .capacity = charge.limit.capacity()};
}

}  // namespace

class DenyCache::Impl {
 public:
  Impl(const DenyCacheOptions& options, const Clock& clock)
      : table_(options.max_keys), clock_(clock), longest_(options.longest) {}

  bool is_on() const noexcept { return longest_ > Duration{0}; }
  std::uint64_t hits() const noexcept { return hits_.get(); }

  Instant now() const noexcept { return clock_.now(); }

  // A charge that is looked up.
  struct Asked {
    Fingerprint key = {};
    DenyTable::Group* group = nullptr;
    std::uint64_t forgotten = 0;
    bool is_denied = false;
    bool may_make_room = false;  // if admitted, it may invalidate a cached denial
  };
  // A request of up to N charges, at least one, with an answer for each.
  template <std::size_t N>
  class Request;

 private:
  // Writes the answer if the charge is denied.
  void look(const Charge& charge, Instant now, Asked& asked, Decision& answer) noexcept;
  void learn(const Charge& charge, Instant now, const Asked& asked, const Decision& request,
             const Decision& own) noexcept;
  void forget(const Charge& charge) noexcept;

  policy::SpreadCount hits_;
  const memory::FingerprintMaker fingerprint_;
  DenyTable table_;
  const Clock& clock_;
  const Duration longest_;
};

void DenyCache::Impl::look(const Charge& charge, Instant now, Asked& asked,
                           Decision& answer) noexcept {
  fingerprint_.write(charge, asked.key);
  asked.group = &table_.group_of(asked.key);
  asked.forgotten = DenyTable::forgotten(*asked.group);
  const std::optional<Denial> denial = DenyTable::find(*asked.group, asked.key);
  if (!denial) return;
  const Duration since = now - denial->denied_at;
  if (since >= std::min(denial->retry_after, longest_)) return;
  const bool is_of_limit = denial->numbers == PackedNumbers::of(charge.limit);
  asked.may_make_room = !is_of_limit || charge.limit.state_kind() == StateKind::kLogAndSummaries;
  // Another thread may have read the clock later and stored its denial earlier.
  if (!is_of_limit || charge.cost < denial->cost || since < Duration{0}) return;
  asked.is_denied = true;
  answer = {.outcome = Outcome::kDenied,
            .reason = charge.block != nullptr ? Reason::kBlocked : Reason::kDenyCache,
            .capacity = charge.limit.capacity(),
            .remaining = denial->remaining,
            .reset_after = std::max(denial->reset_after - since, Duration{0}),
            .retry_after = denial->retry_after - since};
}

// `now` is from before the request to the store, so that no wait ends too late.
void DenyCache::Impl::learn(const Charge& charge, Instant now, const Asked& asked,
                            const Decision& request, const Decision& own) noexcept {
  if (own.retry_after && is_repeatable(charge, own.reason)) {
    const Denial denial{.numbers = PackedNumbers::of(charge.limit),
                        .denied_at = now,
                        .retry_after = *own.retry_after,
                        .reset_after = own.reset_after,
                        .cost = static_cast<std::uint32_t>(charge.cost),
                        .remaining = static_cast<std::uint32_t>(own.remaining)};
    table_.put(*asked.group, asked.forgotten, asked.key, denial);
  } else if (asked.may_make_room && !is_denial(request)) {
    table_.forget(*asked.group, asked.key);
  }
}

void DenyCache::Impl::forget(const Charge& charge) noexcept {
  const Fingerprint key = fingerprint_(charge);
  table_.forget(table_.group_of(key), key);
}

template <std::size_t N>
class DenyCache::Impl::Request {
 public:
  Request(Impl& cache, Action action, std::span<const Charge> charges, std::optional<Instant> now,
          std::span<Decision> each) noexcept
      : cache_(cache), action_(action), charges_(charges), now_(now), each_(each) {}

  // Returns whether the cache denies it.
  bool begin() noexcept {
    if (!is_take()) return false;
    at_ = cache_.now();
    bool any_denied = false;
    bool may_count = false;  // for a block; a request that a block denies does not
    bool is_blocked = false;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      cache_.look(charges_[i], at_, all_[i], each_[i]);
      any_denied |= all_[i].is_denied;
      may_count |= charges_[i].block != nullptr && charges_[i].cost > 0;
      is_blocked |= charges_[i].block != nullptr && all_[i].is_denied;
      is_plain_ &= charges_[i].cost <= charges_[i].limit.capacity();
      for (std::size_t j = 0; j < i; ++j) is_plain_ &= all_[j].key != all_[i].key;
    }
    if (!any_denied || !is_plain_ || (may_count && !is_blocked)) return false;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      if (!all_[i].is_denied) each_[i] = not_asked(charges_[i]);
    }
    decision_ = each_.front();
    if (each_.size() > 1) decision_ = combine(each_);
    cache_.hits_.add_one();
    return true;
  }
  // Remembers the store's answer.
  bool answer(const Decision& said) noexcept {
    decision_ = said;
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      if (!is_take()) {
        cache_.forget(charges_[i]);
      } else if (is_plain_ || !each_[i].retry_after) {
        cache_.learn(charges_[i], at_, all_[i], said, each_[i]);
      }
    }
    return true;
  }

  Action action() const noexcept { return action_; }
  std::span<const Charge> asked() const noexcept { return charges_; }
  std::optional<Instant> now() const noexcept { return now_; }
  std::span<Decision> answers() const noexcept { return each_; }
  const Decision& decision() const noexcept { return decision_; }

 private:
  bool is_take() const noexcept { return action_.verb == Verb::kTake && !now_; }

  Impl& cache_;
  const Action action_;
  const std::span<const Charge> charges_;
  const std::optional<Instant> now_;
  const std::span<Decision> each_;
  Decision decision_;
  Instant at_{};
  bool is_plain_ = true;  // no cost beyond its capacity, no two charges on one counter
  std::array<Asked, N> all_;
};

DenyCache::DenyCache(const DenyCacheOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
DenyCache::~DenyCache() = default;

std::uint64_t DenyCache::hits() const noexcept { return impl_->hits(); }

namespace {

// Neither answers from the cache nor gives back what a cached denial depends on.
bool is_uncached(Verb verb, std::span<const Charge> charges) noexcept {
  if (verb == Verb::kCharge) {
    return std::none_of(charges.begin(), charges.end(), std::mem_fn(&Charge::gives_back));
  }
  return verb != Verb::kTake && verb != Verb::kRefund && verb != Verb::kReset &&
         !changes_block(verb);
}

bool is_usual(std::span<const Charge> charges, std::span<const Decision> each) noexcept {
  return !charges.empty() && charges.size() <= kMaxCharges && each.size() == charges.size();
}

}  // namespace

DenyCacheStore::DenyCacheStore(Store& store, DenyCache& cache) noexcept
    : store_(&store), cache_(cache.impl_.get()) {}

Decision DenyCacheStore::apply(Action action, std::span<const Charge> charges,
                               std::optional<Instant> now, std::span<Decision> each) noexcept {
  if (!is_usual(charges, each) || !cache_->is_on() || is_uncached(action.verb, charges)) {
    return store_->apply(action, charges, now, each);
  }
  const auto ask = [&](auto request) {
    if (!request.begin()) request.answer(store_->apply(action, charges, now, each));
    return request.decision();
  };
  using Impl = DenyCache::Impl;
  if (charges.size() > kFewCharges) {
    return ask(Impl::Request<kMaxCharges>(*cache_, action, charges, now, each));
  }
  return ask(Impl::Request<kFewCharges>(*cache_, action, charges, now, each));
}

Decision DenyCacheStore::apply_one(Action action, const Charge& charge,
                                   std::optional<Instant> now) noexcept {
  if (!cache_->is_on() || is_uncached(action.verb, {&charge, 1}))
    return store_->apply_one(action, charge, now);
  Decision each;
  DenyCache::Impl::Request<1> request(*cache_, action, {&charge, 1}, now, {&each, 1});
  if (!request.begin()) {
    each = store_->apply_one(action, charge, now);
    request.answer(each);
  }
  return each;
}

void AsyncDenyCacheStore::async_apply(Action action, std::span<const Charge> charges,
                                      std::optional<Instant> now, std::span<Decision> each,
                                      Completion& completion) noexcept {
  DenyCache::Impl& cache = *cache_.impl_;
  if (!is_usual(charges, each) || !cache.is_on() || is_uncached(action.verb, charges)) {
    return store_.async_apply(action, charges, now, each, completion);
  }
  const auto start = [&]<std::size_t N>() {
    auto* const request = new (std::nothrow) policy::AsyncQuestion<DenyCache::Impl::Request<N>>(
        store_, completion, cache, action, charges, now, each);
    if (request != nullptr) request->start();
    return request != nullptr;
  };
  const bool is_few = charges.size() <= kFewCharges;
  if (is_few ? start.operator()<kFewCharges>() : start.operator()<kMaxCharges>()) return;
  const Decision failed = Decision::refused(Reason::kStoreError);
  std::fill(each.begin(), each.end(), failed);
  completion.done(failed);
}

}  // namespace sluice
