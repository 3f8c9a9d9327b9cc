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

  void set(const Fingerprint& key, const Denial& denial) noexcept {
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
    group.slots[place].set(key, denial);
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

  Decision take_one(Store& store, const Charge& charge) noexcept;
  // Up to N charges, at least one, an answer for each.
  template <std::size_t N>
  Decision take(Store& store, std::span<const Charge> charges, std::span<Decision> each) noexcept;
  void forget(std::span<const Charge> charges) noexcept;

  // A charge that is looked up.
  struct Asked {
    Fingerprint key = {};
    DenyTable::Group* group = nullptr;
    std::uint64_t forgotten = 0;
    bool is_denied = false;
    bool may_make_room = false;  // if admitted, it may invalidate a cached denial
    Decision decision = {};      // if it is denied
  };
  // A take of several charges.
  struct Take {
    Instant at;
    std::span<Asked> asked = {};  // one for each charge
    bool is_plain = true;         // no cost beyond its capacity, no two charges on one counter
  };
  Take begin() const noexcept { return {.at = clock_.now()}; }
  // Returns whether the cache denies the take.
  bool denies(Take& take, std::span<const Charge> charges, std::span<Decision> each,
              Decision& decision) noexcept;
  // Remembers the store's answer.
  void learn(const Take& take, std::span<const Charge> charges, std::span<const Decision> each,
             const Decision& decision) noexcept;

 private:
  void look(const Charge& charge, Instant now, Asked& asked) noexcept;
  void learn(const Charge& charge, Instant now, const Asked& asked, const Decision& request,
             const Decision& own) noexcept;

  policy::SpreadCount hits_;
  const memory::FingerprintMaker fingerprint_;
  DenyTable table_;
  const Clock& clock_;
  const Duration longest_;
};

void DenyCache::Impl::look(const Charge& charge, Instant now, Asked& asked) noexcept {
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
  asked.decision = {.outcome = Outcome::kDenied,
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

Decision DenyCache::Impl::take_one(Store& store, const Charge& charge) noexcept {
  const Instant now = clock_.now();
  Asked asked;
  look(charge, now, asked);
  if (asked.is_denied && charge.cost <= charge.limit.capacity()) {
    hits_.add_one();
    return asked.decision;
  }
  const Decision decision = store.apply_one(Verb::kTake, charge, {});
  learn(charge, now, asked, decision, decision);
  return decision;
}

bool DenyCache::Impl::denies(Take& take, std::span<const Charge> charges, std::span<Decision> each,
                             Decision& decision) noexcept {
  const std::span<Asked> all = take.asked;
  bool any_denied = false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    look(charges[i], take.at, all[i]);
    any_denied |= all[i].is_denied;
    take.is_plain &= charges[i].cost <= charges[i].limit.capacity();
    for (std::size_t j = 0; j < i; ++j) take.is_plain &= all[j].key != all[i].key;
  }
  if (!any_denied || !take.is_plain) return false;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    each[i] = all[i].is_denied ? all[i].decision : not_asked(charges[i]);
  }
  combine(each, decision);
  hits_.add_one();
  return true;
}

void DenyCache::Impl::learn(const Take& take, std::span<const Charge> charges,
                            std::span<const Decision> each, const Decision& decision) noexcept {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const bool may_learn = take.is_plain || !each[i].retry_after;
    if (may_learn) learn(charges[i], take.at, take.asked[i], decision, each[i]);
  }
}

template <std::size_t N>
Decision DenyCache::Impl::take(Store& store, std::span<const Charge> charges,
                               std::span<Decision> each) noexcept {
  std::array<Asked, N> all;
  Take take = begin();
  take.asked = all;
  Decision decision;
  if (denies(take, charges, each, decision)) return decision;
  decision = store.apply(Verb::kTake, charges, {}, each);
  learn(take, charges, each, decision);
  return decision;
}

void DenyCache::Impl::forget(std::span<const Charge> charges) noexcept {
  for (const Charge& charge : charges) {
    const Fingerprint key = fingerprint_(charge);
    table_.forget(table_.group_of(key), key);
  }
}

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
  if (action.verb == Verb::kTake && !now) {
    if (charges.size() <= kFewCharges) return cache_->take<kFewCharges>(*store_, charges, each);
    return cache_->take<kMaxCharges>(*store_, charges, each);
  }
  const Decision decision = store_->apply(action, charges, now, each);
  cache_->forget(charges);
  return decision;
}

Decision DenyCacheStore::apply_one(Action action, const Charge& charge,
                                   std::optional<Instant> now) noexcept {
  if (!cache_->is_on() || is_uncached(action.verb, {&charge, 1}))
    return store_->apply_one(action, charge, now);
  if (action.verb == Verb::kTake && !now) return cache_->take_one(*store_, charge);
  const Decision decision = store_->apply_one(action, charge, now);
  cache_->forget({&charge, 1});
  return decision;
}

// A request that the cache has not answered.
class AsyncDenyCacheStore::Request final : public Completion {
 public:
  Request(DenyCache::Impl& cache, std::span<const Charge> charges, std::span<Decision> each,
          Completion& completion)
      : cache_(cache),
        charges_(charges),
        each_(each),
        completion_(completion),
        asked_(std::make_unique<DenyCache::Impl::Asked[]>(charges.size())),
        take_(cache.begin()) {
    take_.asked = {asked_.get(), charges.size()};
  }

  bool denies(Decision& decision) noexcept {
    is_take_ = true;
    return cache_.denies(take_, charges_, each_, decision);
  }
  void done(const Decision& decision) noexcept override {
    if (is_take_) {
      cache_.learn(take_, charges_, each_, decision);
    } else {
      cache_.forget(charges_);
    }
    Completion& completion = completion_;
    delete this;
    completion.done(decision);
  }

 private:
  DenyCache::Impl& cache_;
  const std::span<const Charge> charges_;
  const std::span<Decision> each_;
  Completion& completion_;
  const std::unique_ptr<DenyCache::Impl::Asked[]> asked_;
  DenyCache::Impl::Take take_;
  bool is_take_ = false;
};

void AsyncDenyCacheStore::async_apply(Action action, std::span<const Charge> charges,
                                      std::optional<Instant> now, std::span<Decision> each,
                                      Completion& completion) noexcept try {
  DenyCache::Impl& cache = *cache_.impl_;
  if (!is_usual(charges, each) || !cache.is_on() || is_uncached(action.verb, charges)) {
    return store_.async_apply(action, charges, now, each, completion);
  }
  auto request = std::make_unique<Request>(cache, charges, each, completion);
  Decision decision;
  if (action.verb == Verb::kTake && !now && request->denies(decision)) {
    request.reset();
    return completion.done(decision);
  }
  store_.async_apply(action, charges, now, each, *request.release());
} catch (const std::bad_alloc&) {
  const Decision failed = Decision::refused(Reason::kStoreError);
  std::fill(each.begin(), each.end(), failed);
  completion.done(failed);
}

}  // namespace sluice
