#include "sluice/memory_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <thread>
#include <vector>

#include "limiter/combine.h"
#include "stores/memory/counter.h"

namespace sluice {
namespace {

using memory::Counter;
using memory::Shard;

// A shard has room for all charges of a request, and for as many to choose a victim from.
constexpr std::size_t kMinShardKeys = 2 * kMaxCharges;
constexpr std::size_t kMinLogBytes = 4096;
constexpr std::size_t kMaxShards = 1024;
// Requests of up to so many charges keep their counters in a small frame.
constexpr std::size_t kFewCharges = 4;

std::size_t shard_count(const MemoryStoreOptions& options) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::size_t shards = options.shards != 0 ? options.shards : threads * 16;
  // A few thousand keys a shard, or the bound would bite early where chance crowds one of them.
  if (options.shards == 0) shards = std::min(shards, options.max_keys / 4096 + 1);
  shards = std::min({shards, options.max_keys / kMinShardKeys, kMaxShards});
  return std::bit_ceil(std::max<std::size_t>(shards, 1));
}

Decision invalid(std::span<Decision> each) noexcept {
  const Decision answer{.outcome = Outcome::kDenied, .reason = Reason::kInvalid};
  std::fill(each.begin(), each.end(), answer);
  return answer;
}

Decision failed(std::span<Decision> each) noexcept {
  const Decision answer{.outcome = Outcome::kDenied, .reason = Reason::kStoreError};
  std::fill(each.begin(), each.end(), answer);
  return answer;
}

// Locks of the shards of one request, each once and in their order, so that two requests never
// wait for each other.
template <std::size_t N>
class Locks {
 public:
  explicit Locks(std::span<Counter> counters) noexcept {
    for (const Counter& c : counters) shards_[count_++] = c.shard;
    std::sort(shards_.begin(), shards_.begin() + count_);
    count_ = static_cast<std::size_t>(std::unique(shards_.begin(), shards_.begin() + count_) -
                                      shards_.begin());
    for (std::size_t i = 0; i < count_; ++i) shards_[i]->mutex.lock();
  }
  ~Locks() {
    for (std::size_t i = count_; i > 0; --i) shards_[i - 1]->mutex.unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  std::array<Shard*, N> shards_;
  std::size_t count_ = 0;
};

bool all_admitted(std::span<const Counter> counters) noexcept {
  return std::all_of(counters.begin(), counters.end(),
                     [](const Counter& c) { return c.quote.admitted; });
}

// Makes every write certain; throws or answers false where one is not.
bool prepare_writes(std::span<Counter> counters) {
  for (Counter& c : counters) {
    if (c.cost > 0 && c.slot != nullptr) c.pin();
  }
  for (Counter& c : counters) {
    if (c.cost > 0 && c.slot == nullptr) c.insert();
  }
  for (Counter& c : counters) {
    if (c.cost == 0) continue;
    c.find();
    if (!c.make_window()) return false;
  }
  return true;
}

// As prepare_writes(), or leaves everything as it was and answers false.
bool prepare_or_undo(std::span<Counter> counters) noexcept {
  try {
    if (prepare_writes(counters)) return true;
  } catch (const std::bad_alloc&) {
    // Told by the answer.
  }
  for (Counter& c : counters) c.unpin();
  return false;
}

bool take_all(std::span<Counter> counters) noexcept {
  if (!all_admitted(counters)) {
    for (Counter& c : counters) c.describe_untaken();
    return true;
  }
  if (!prepare_or_undo(counters)) return false;
  for (Counter& c : counters) {
    if (c.cost > 0) c.write();
  }
  return true;
}

void carry_out(Verb verb, Counter& c) {
  c.find();
  switch (verb) {
    case Verb::kTake:
    case Verb::kPeek: return c.look();
    case Verb::kRefund: return c.give_back();
    case Verb::kReset: return c.forget();
  }
}

// False where the store is out of memory; then nothing was taken.
bool carry_out(Verb verb, std::span<Counter> counters) noexcept {
  try {
    for (Counter& c : counters) carry_out(verb, c);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (verb == Verb::kTake) return take_all(counters);
  if (verb == Verb::kPeek && !all_admitted(counters)) {
    for (Counter& c : counters) c.describe_untaken();
  }
  return true;
}

}  // namespace

class MemoryStore::Impl {
 public:
  Impl(const MemoryStoreOptions& options, const Clock& clock)
      : clock_(clock),
        shared_bytes_(std::max(options.max_log_bytes, kMinLogBytes) / 2) {
    const std::size_t count = shard_count(options);
    const std::size_t max_keys = std::max(options.max_keys / count, kMinShardKeys);
    const std::size_t own_bytes = std::max(options.max_log_bytes, kMinLogBytes) / 2 / count;
    shards_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      shards_.push_back(std::make_unique<Shard>(max_keys, own_bytes, shared_bytes_));
    }
  }

  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> instant,
                 std::span<Decision> each) noexcept {
    if (charges.empty() || charges.size() > kMaxCharges || each.size() != charges.size()) {
      return invalid(each);
    }
    const Instant at = instant ? *instant : clock_.now();
    if (at < kFirstInstant || at > kLastInstant) return invalid(each);
    const core::Ticks now = at.time_since_epoch().count();
    if (charges.size() == 1) return decide_one(verb, charges.front(), now, each);
    return charges.size() <= kFewCharges ? decide<kFewCharges>(verb, charges, now, each)
                                         : decide<kMaxCharges>(verb, charges, now, each);
  }

  MemoryStoreStats stats() {
    MemoryStoreStats sum;
    for (const auto& shard : shards_) {
      const std::lock_guard lock(shard->mutex);
      sum.keys += shard->size();
      sum.log_bytes += shard->blob_bytes();
      sum.evictions += shard->evictions();
      sum.swept += shard->swept();
    }
    return sum;
  }

 private:
  void begin(Counter& c, const Charge& charge, core::Ticks now) noexcept {
    c.key = fingerprint_(charge.key, charge.limit.algorithm());
    c.shard = shards_[c.key.high & (shards_.size() - 1)].get();
    c.limit = &charge.limit;
    c.cost = charge.cost;
    c.now = now;
  }

  // One charge: one lock, no sorting; what there is to write is written where it was found.
  Decision decide_one(Verb verb, const Charge& charge, core::Ticks now,
                      std::span<Decision> each) noexcept {
    Counter c;
    begin(c, charge, now);
    const std::lock_guard lock(c.shard->mutex);
    if (verb != Verb::kTake) {
      if (!carry_out(verb, {&c, 1})) return failed(each);
      return each.front() = c.decision();
    }
    c.find();
    c.look();
    if (c.quote.admitted && c.cost > 0) {
      const bool in_place = c.slot != nullptr && core::has_fixed_size(charge.limit.algorithm());
      if (!in_place && !prepare_or_undo({&c, 1})) return failed(each);
      c.write();
    }
    return each.front() = c.decision();
  }

  template <std::size_t N>
  Decision decide(Verb verb, std::span<const Charge> charges, core::Ticks now,
                  std::span<Decision> each) noexcept {
    std::array<Counter, N> counters;
    std::array<std::uint8_t, N> counter_of;
    std::size_t count = 0;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      begin(counters[count], charges[i], now);
      std::size_t same = 0;
      while (!(counters[same].key == counters[count].key)) ++same;
      counter_of[i] = static_cast<std::uint8_t>(same);
      if (same == count) {
        ++count;
      } else if (*counters[same].limit != charges[i].limit) {
        return invalid(each);
      } else {
        add(counters[same].cost, charges[i].cost);
      }
    }
    const std::span used(counters.data(), count);
    {
      const Locks<N> locks(used);
      if (!carry_out(verb, used)) return failed(each);
    }
    for (std::size_t i = 0; i < charges.size(); ++i) each[i] = used[counter_of[i]].decision();
    return combine(each);
  }

  // A sum beyond all limits stays beyond them.
  static void add(std::uint64_t& sum, std::uint64_t cost) noexcept {
    if (__builtin_add_overflow(sum, cost, &sum)) sum = ~std::uint64_t{0};
  }

  const Clock& clock_;
  const memory::FingerprintMaker fingerprint_;
  memory::SharedBytes shared_bytes_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

MemoryStore::MemoryStore(const MemoryStoreOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
MemoryStore::~MemoryStore() = default;

Decision MemoryStore::apply(Verb verb, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  return impl_->apply(verb, charges, now, each);
}

MemoryStoreStats MemoryStore::stats() const { return impl_->stats(); }

}  // namespace sluice
