#include "stores/policy/lease_table.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

namespace sluice {
namespace {

using policy::LeaseCounter;

// Returns the ticks in which this many units of the limit drain.
Duration time_of(const Limit& limit, std::uint64_t units) noexcept {
  const core::Rate rate = core::LimitAccess::rate(limit);
  if (rate.units == 0) return Duration{0};
  const std::uint64_t part = rate.ticks % rate.units * units;
  return Duration{static_cast<std::int64_t>(rate.ticks / rate.units * units +
                                            detail::ceil_div(part, rate.units))};
}

// Returns when the units of a take leave the store's window at the earliest. Buckets have none.
Instant window_end(const Limit& limit, Instant asked_at, const Decision& said) noexcept {
  switch (limit.state_kind()) {
    case StateKind::kBucket: return Instant::max();
    case StateKind::kWindow: return asked_at + said.reset_after;
    default: return asked_at + limit.period();
  }
}

}  // namespace

Leases::Impl::Impl(const LeaseOptions& options, const Clock& clock)
    : nodes_(std::max(options.nodes, 1U)),
      share_(options.share > 0 ? std::min(options.share, 1.0)
                               : 1.0 / (4.0 * static_cast<double>(nodes_))),
      clock_(clock),
      names_(std::max<std::size_t>((options.max_keys + kGroup - 1) / kGroup, 1)),
      groups_(names_.size()) {}

LeaseCounter* Leases::Impl::find(std::size_t group, const memory::Fingerprint& key) noexcept {
  const auto& keys = names_[group].keys;
  for (std::size_t i = 0; i < kGroup; ++i) {
    if (keys[i] != name_of(key)) continue;
    Counter& counter = groups_[group].counters[i];
    if (counter.key == key) return &counter;
  }
  return nullptr;
}

// Returns null at the first request. At the second, replaces the oldest counter without a lease; if
// all have one, returns null.
LeaseCounter* Leases::Impl::find_or_make(std::size_t group, const memory::Fingerprint& key,
                                         const Limit& limit, Instant now) noexcept {
  if (Counter* const found = find(group, key)) return found;
  Names& names = names_[group];
  std::uint32_t& seen = names.seen[key.high % kGroup];
  if (std::exchange(seen, name_of(key)) != name_of(key)) return nullptr;
  Group& counters = groups_[group];
  for (std::size_t tries = 0; tries < kGroup; ++tries) {
    const std::size_t i = counters.oldest;
    Counter& counter = counters.counters[i];
    counters.oldest = (i + 1) % kGroup;
    if (counter.name != nullptr || counter.is_queued || counter.is_asking) continue;
    counter.begin(key, limit, now);
    names.keys[i] = name_of(key);
    return &counter;
  }
  return nullptr;
}

std::uint32_t Leases::Impl::most_of(const Limit& limit) const noexcept {
  return std::max(static_cast<std::uint32_t>(static_cast<double>(limit.capacity()) * share_), 1U);
}

Decision Leases::Impl::local_answer(const Counter& counter, const Charge& charge, Instant now,
                                    std::uint32_t before) noexcept {
  const Duration since = now - counter.asked_at;
  const std::uint64_t left = std::uint64_t{counter.remaining} + counter.units;
  Decision answer{.reason = Reason::kLease,
                  .capacity = charge.limit.capacity(),
                  .remaining = static_cast<std::uint32_t>(
                      std::min<std::uint64_t>(left, charge.limit.capacity())),
                  .reset_after = std::max(counter.reset_after - since, Duration{0})};
  if (counter.delay >= Duration{0}) {
    const Duration ahead = time_of(charge.limit, counter.batch - std::min(before, counter.batch));
    answer.delay = std::max(counter.delay + ahead - since, Duration{0});
  }
  return answer;
}

bool Leases::Impl::take(const Charge& charge, Instant now, Part& part, Decision& answer) noexcept {
  if (!part.is_leased) return false;
  const std::size_t group = index_of(part.key);
  const std::lock_guard lock(lock_of(group));
  Counter* const counter = find(group, part.key);
  part.is_tracked = counter != nullptr;
  if (counter == nullptr || !counter->holds(now) || counter->units < charge.cost) return false;
  if (!counter->has_numbers_of(charge.limit)) return false;
  const std::uint32_t before = counter->units;
  part.generation = counter->generation;
  part.in_hand = static_cast<std::uint32_t>(charge.cost);
  counter->units -= part.in_hand;
  counter->use(charge.cost, now);
  answer = local_answer(*counter, charge, now, before);
  return true;
}

void Leases::Impl::put_back(const Charge& charge, Instant now, Part& part) noexcept {
  const std::size_t group = index_of(part.key);
  const std::lock_guard lock(lock_of(group));
  Counter* const counter = find(group, part.key);
  const std::uint32_t units = std::exchange(part.in_hand, 0);
  if (counter == nullptr || counter->generation != part.generation || !counter->holds(now)) return;
  counter->units += units;
  counter->used -= std::min(counter->used, charge.cost);
}

std::uint32_t Leases::Impl::begin_batch(const Charge& charge, Instant now, Part& part) noexcept {
  if (!part.is_tracked) return 0;
  const std::size_t group = index_of(part.key);
  const std::lock_guard lock(lock_of(group));
  Counter* const counter = find(group, part.key);
  if (counter == nullptr || counter->is_asking || counter->is_unable) return 0;
  if (!counter->has_numbers_of(charge.limit)) {
    change_numbers(*counter, charge, now);
    return 0;
  }
  const std::uint64_t expected = counter->expected(now) + charge.cost;
  const auto batch =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(expected, most_of(charge.limit)));
  const bool is_busy = expected >= kBusy * charge.cost && batch > charge.cost;
  if (!is_busy || counter->remaining < nodes_ * batch) return 0;
  if (counter->units >= charge.cost && counter->holds(now)) return 0;   // just put back
  if (!counter->holds(now)) return_early(*counter, charge.limit, now);  // not collected yet
  part.generation = counter->generation;
  part.resets = counter->resets;
  part.in_hand = counter->holds(now) ? std::exchange(counter->units, 0) : 0;
  counter->is_asking = true;
  return batch;
}

bool Leases::Impl::end_batch(const Charge& charge, Instant asked_at, Part& part,
                             Decision& said) noexcept {
  const std::size_t group = index_of(part.key);
  const std::lock_guard lock(lock_of(group));
  Counter* const counter = find(group, part.key);
  if (counter == nullptr) return false;
  counter->is_asking = false;
  const bool is_same = counter->resets == part.resets;
  std::uint64_t units = std::exchange(part.in_hand, 0);
  if (counter->generation != part.generation || !counter->holds(now())) units = 0;
  if (said.reason != Reason::kOk) {
    counter->units += static_cast<std::uint32_t>(units);
    // After a failure, only exact requests until the store says how much is left.
    const std::uint64_t left = said.reason == Reason::kLimited ? said.remaining : 0;
    counter->remaining = static_cast<std::uint32_t>(left);
    counter->is_unable = said.reason == Reason::kInvalid;
    return false;
  }
  ++batches_;
  taken_ += said.taken;
  units += said.taken;
  counter->remaining = static_cast<std::uint32_t>(said.remaining);
  const bool is_enough = units >= charge.cost;
  if (is_enough) {
    units -= charge.cost;
    counter->use(charge.cost, asked_at);
  }
  // After a reset it is unknown whether they were taken before it; then they are not used.
  if (is_same) hold(group, *counter, charge, asked_at, units, said);
  if (is_enough) {
    part.in_hand = static_cast<std::uint32_t>(charge.cost);
    part.generation = counter->generation;
  }
  const std::uint64_t left = said.remaining + counter->units;
  said.remaining = std::min(left, charge.limit.capacity());
  said.taken = 0;
  return is_enough;
}

void Leases::Impl::learn(const Charge& charge, Instant asked_at, const Part& part,
                         const Decision& said, bool was_admitted) noexcept {
  if (!part.is_leased) return;
  const std::size_t group = index_of(part.key);
  const std::lock_guard lock(lock_of(group));
  Counter* const counter = find_or_make(group, part.key, charge.limit, asked_at);
  if (counter == nullptr) return;
  if (!counter->has_numbers_of(charge.limit)) change_numbers(*counter, charge, asked_at);
  if (said.reason == Reason::kOk || said.reason == Reason::kLimited) {
    counter->remaining = static_cast<std::uint32_t>(said.remaining);
  } else if (said.reason == Reason::kBlocked) {
    end_lease(*counter);
    ++counter->resets;
  }
  if (was_admitted && said.reason == Reason::kOk) counter->use(charge.cost, asked_at);
}

void Leases::Impl::drop(const Charge& charge) noexcept {
  const memory::Fingerprint key = fingerprint_(charge);
  const std::size_t group = index_of(key);
  const std::lock_guard lock(lock_of(group));
  if (Counter* const counter = find(group, key)) {
    end_lease(*counter);
    ++counter->resets;
    counter->remaining = 0;
  }
}

// Ends the lease under the old numbers. Its units are given back under the new ones, because a
// counter has the numbers of the latest request.
void Leases::Impl::change_numbers(Counter& counter, const Charge& charge, Instant now) noexcept {
  return_early(counter, charge.limit, now);
  counter.adopt(charge.limit);
  ++counter.resets;
  counter.remaining = 0;
  counter.is_unable = false;
}

void Leases::Impl::return_early(Counter& counter, const Limit& limit, Instant now) noexcept {
  auto rest = rest_of(counter, now);
  if (rest == nullptr) return;
  rest->charge.limit = limit;
  try {
    const std::lock_guard lock(ends_mutex_);
    rests_.push_back(std::move(rest));
    update_next_end();
  } catch (const std::bad_alloc&) {  // they stay taken
  }
}

void Leases::Impl::hold(std::size_t group, Counter& counter, const Charge& charge, Instant asked_at,
                        std::uint64_t units, const Decision& said) noexcept {
  const Instant ends_before =
      counter.holds(asked_at) && counter.units > 0 ? counter.end : Instant::max();
  if (ends_before == Instant::max()) counter.units = 0;
  counter.window_end = window_end(charge.limit, asked_at, said);
  counter.end = std::min({asked_at + counter.lease(), counter.window_end, ends_before});
  try {
    if (counter.name == nullptr) {
      counter.name = std::make_unique<policy::LeaseName>(charge);
      ++held_;
    }
    if (!counter.is_queued) queue(group, counter);
  } catch (const std::bad_alloc&) {
    return end_lease(counter);  // the units stay taken
  }
  counter.units += static_cast<std::uint32_t>(units);
  counter.batch = counter.units + static_cast<std::uint32_t>(charge.cost);
  counter.asked_at = asked_at;
  counter.reset_after = said.reset_after;
  counter.delay = said.delay.value_or(Duration{-1});
  ++counter.generation;
}

void Leases::Impl::end_lease(Counter& counter) noexcept {
  ++counter.generation;
  counter.units = 0;
  if (counter.name == nullptr) return;
  counter.name.reset();
  --held_;
}

// Ends the lease and returns the units that the store can take back. A window that ends soon may
// have ended when the store is asked; then it would take them back from the next one.
std::unique_ptr<policy::LeaseName> Leases::Impl::rest_of(Counter& counter, Instant now) noexcept {
  std::unique_ptr<policy::LeaseName> rest;
  if (counter.name != nullptr && counter.units > 0 && counter.window_end - now > counter.lease()) {
    rest = std::move(counter.name);
    rest->charge.cost = counter.units;
    --held_;
  }
  end_lease(counter);
  return rest;
}

void Leases::Impl::queue(std::size_t group, Counter& counter) {
  const std::lock_guard lock(ends_mutex_);
  const auto index = &counter - groups_[group].counters.data();
  ends_.push_back(
      {counter.end, static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(index)});
  std::push_heap(ends_.begin(), ends_.end(), std::greater<>());
  counter.is_queued = true;
  update_next_end();
}

void Leases::Impl::update_next_end() noexcept {
  std::int64_t next = ends_.empty() ? kNever : ends_.front().at.time_since_epoch().count();
  if (!rests_.empty()) next = 0;
  const std::int64_t before = next_end_.exchange(next);
  if (next < before) ends_earlier_.notify_all();
}

void Leases::Impl::collect(std::vector<std::unique_ptr<policy::LeaseName>>& out, bool all) {
  const Instant now = clock_.now();
  std::vector<End> due;
  {
    const std::lock_guard lock(ends_mutex_);
    out.reserve(out.size() + rests_.size() + ends_.size());
    due.reserve(ends_.size());
    for (auto& rest : rests_) out.push_back(std::move(rest));
    rests_.clear();
    while (!ends_.empty() && (all || ends_.front().at <= now)) {
      due.push_back(ends_.front());
      std::pop_heap(ends_.begin(), ends_.end(), std::greater<>());
      ends_.pop_back();
    }
    update_next_end();
  }
  for (const End& end : due) {
    const std::lock_guard lock(lock_of(end.group));
    Counter& counter = groups_[end.group].counters[end.index];
    counter.is_queued = false;
    if (counter.holds(now) && !all) {
      queue(end.group, counter);
    } else if (auto rest = rest_of(counter, now)) {
      out.push_back(std::move(rest));
    }
  }
}

bool Leases::Impl::await_end(const bool& stops) noexcept {
  std::unique_lock lock(ends_mutex_);
  while (!stops) {
    const auto next = next_end();
    const Instant now = clock_.now();
    if (!next) {
      ends_earlier_.wait(lock);
    } else if (*next > now) {
      ends_earlier_.wait_for(lock, *next - now);
    } else {
      return true;
    }
  }
  return false;
}

void Leases::Impl::stop(bool& stops) noexcept {
  const std::lock_guard lock(ends_mutex_);
  stops = true;
  ends_earlier_.notify_all();
}

std::optional<Instant> Leases::Impl::next_end() const noexcept {
  const std::int64_t next = next_end_.load();
  if (next == kNever) return std::nullopt;
  return Instant{Duration{next}};
}

LeaseStats Leases::Impl::stats() const noexcept {
  return {.local = local_.get(),
          .batches = batches_.load(std::memory_order_relaxed),
          .taken = taken_.load(std::memory_order_relaxed),
          .given_back = given_back_.load(std::memory_order_relaxed),
          .held = held_.load(std::memory_order_relaxed)};
}

Leases::Leases(const LeaseOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
Leases::~Leases() = default;
LeaseStats Leases::stats() const noexcept { return impl_->stats(); }
std::optional<Instant> Leases::next_end() const noexcept { return impl_->next_end(); }

}  // namespace sluice
