#include "sluice/memory_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "limiter/combine.h"
#include "stores/memory/in_place.h"
#include "stores/memory/request.h"

namespace sluice {
namespace {

using memory::Counter;
using memory::Shard;

// A shard has room for all charges of a request, and for as many to choose a victim from.
constexpr std::size_t kMinShardKeys = 2 * kMaxCharges;
constexpr std::size_t kMinLogBytes = 4096;
constexpr std::size_t kMaxShards = 1024;
constexpr std::size_t kMinShardLogBytes = std::size_t{32} << 10;
// Requests of up to so many charges have their counters in a small stack frame.
constexpr std::size_t kFewCharges = 4;

std::size_t shard_count(const MemoryStoreOptions& options) {
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::size_t shards = options.shards != 0 ? options.shards : threads * 4;
  // A few thousand keys a shard, or the bound would bite early where chance crowds one of them.
  if (options.shards == 0) shards = std::min(shards, options.max_keys / 4096 + 1);
  const std::size_t most = std::max<std::size_t>(
      std::min(options.max_keys / kMinShardKeys, options.max_log_bytes / kMinShardLogBytes), 1);
  return std::min(std::bit_ceil(std::min(shards, kMaxShards)), std::bit_floor(most));
}

void refuse(Reason reason, std::span<Decision> each, Decision& all) noexcept {
  all = Decision::refused(reason);
  std::fill(each.begin(), each.end(), all);
}

bool is_in_range(Instant at) noexcept { return at >= kFirstInstant && at <= kLastInstant; }

}  // namespace

class MemoryStore::Impl {
 public:
  Impl(const MemoryStoreOptions& options, const Clock& clock)
      : clock_(clock), shared_bytes_(std::max(options.max_log_bytes, kMinLogBytes) / 2) {
    const std::size_t count = shard_count(options);
    const std::size_t max_keys = std::max(options.max_keys / count, kMinShardKeys);
    const std::size_t own_bytes = std::max(options.max_log_bytes, kMinLogBytes) / 2 / count;
    shards_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      shards_.push_back(std::make_unique<Shard>(max_keys, own_bytes, shared_bytes_));
    }
  }

  // Here and below one object is written in place and returned, because a copy member by member
  // would take as long as the decision.
  Decision apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> instant,
                 std::span<Decision> each) noexcept {
    Decision all;
    const Instant at = instant ? *instant : clock_.now();
    const core::Ticks now = at.time_since_epoch().count();
    if (charges.empty() || charges.size() > kMaxCharges || each.size() != charges.size() ||
        !is_in_range(at)) {
      refuse(Reason::kInvalid, each, all);
    } else if (charges.size() == 1) {
      decide<1>(verb, charges, now, each, all);
    } else if (charges.size() <= kFewCharges) {
      decide<kFewCharges>(verb, charges, now, each, all);
    } else {
      decide<kMaxCharges>(verb, charges, now, each, all);
    }
    return all;
  }

  Decision apply_one(Verb verb, const Charge& charge, std::optional<Instant> instant) noexcept {
    Decision decision;
    const Instant at = instant ? *instant : clock_.now();
    const core::Ticks now = at.time_since_epoch().count();
    if (!is_in_range(at)) {
      decision = Decision::refused(Reason::kInvalid);
    } else if (verb != Verb::kTake || !take_one_in_place(charge, now, decision)) {
      apply_to_one(verb, charge, now, decision);
    }
    return decision;
  }

  MemoryStoreStats stats() {
    MemoryStoreStats sum;
    sum.shards = shards_.size();
    for (const auto& shard : shards_) {
      const std::lock_guard lock(shard->mutex);
      sum.keys += shard->size();
      sum.log_bytes += shard->blob_bytes();
      sum.evictions += shard->evictions();
      sum.swept += shard->swept();
      sum.merged_logs += shard->merged_logs();
    }
    return sum;
  }

 private:
  Shard& shard_of(const memory::Fingerprint& key) noexcept {
    return *shards_[key.high & (shards_.size() - 1)];
  }

  void begin(Counter& c, const Charge& charge, core::Ticks now) noexcept {
    const memory::Fingerprint key = fingerprint_(charge);
    c.begin(key, shard_of(key), charge, now);
  }

  void apply_to_one(Verb verb, const Charge& charge, core::Ticks now, Decision& decision) noexcept {
    Counter c;
    begin(c, charge, now);
    const std::lock_guard lock(c.shard()->mutex);
    const Reason failed = memory::carry_out(verb, {&c, 1});
    if (failed == Reason::kOk) {
      c.answer(decision);
    } else {
      decision = Decision::refused(failed);
    }
  }

  // take_in_place() for one charge, without the loops.
  bool take_one_in_place(const Charge& charge, core::Ticks now, Decision& decision) noexcept {
    if (!memory::InPlace::serves(charge.limit)) return false;
    memory::InPlace counter;
    const memory::Fingerprint key = fingerprint_(charge);
    counter.begin(key, shard_of(key));
    const std::lock_guard lock(counter.shard->mutex);
    if (!counter.look(charge, now)) return false;
    counter.finish(charge, now, counter.admits(), decision);
    return true;
  }

  // Serves most requests: charges on different counters that all exist. Looks each counter up once
  // and writes it where it was found. Returns false, with nothing changed, for any other request.
  template <std::size_t N>
  bool take_in_place(std::span<const Charge> charges, core::Ticks now,
                     std::span<Decision> each) noexcept {
    std::array<memory::InPlace, N> counters;
    const std::span used(counters.data(), N == 1 ? 1 : charges.size());
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!memory::InPlace::serves(charges[i].limit)) return false;
      memory::Fingerprint& key = used[i].key;
      fingerprint_.write(charges[i], key);
      for (std::size_t j = 0; j < i; ++j) {
        if (used[j].key == key) return false;
      }
      used[i].shard = &shard_of(key);
    }
    const memory::Locks<N> locks(used, [](const memory::InPlace& c) { return c.shard; });
    bool all_admit = true;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i].look(charges[i], now)) return false;
      all_admit &= used[i].admits();
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      used[i].finish(charges[i], now, all_admit, each[i]);
    }
    return true;
  }

  template <std::size_t N>
  void decide(Verb verb, std::span<const Charge> charges, core::Ticks now, std::span<Decision> each,
              Decision& all) noexcept {
    if (verb == Verb::kTake && take_in_place<N>(charges, now, each)) return combine(each, all);
    std::array<Counter, N> counters;
    std::array<std::uint8_t, N> counter_of;
    std::size_t count = 0;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      begin(counters[count], charges[i], now);
      std::size_t same = 0;
      while (!(counters[same].key() == counters[count].key())) ++same;
      counter_of[i] = static_cast<std::uint8_t>(same);
      if (same == count) {
        ++count;
      } else if (counters[same].limit() != charges[i].limit) {
        return refuse(Reason::kInvalid, each, all);
      } else {
        counters[same].add(charges[i].cost);
      }
    }
    const std::span used(counters.data(), count);
    Reason failed = Reason::kOk;
    {
      const memory::Locks<N> locks(used, [](const Counter& c) { return c.shard(); });
      failed = memory::carry_out(verb, used);
    }
    if (failed != Reason::kOk) refuse(failed, each, all);
    if (failed == Reason::kStoreFull) {
      for (std::size_t i = 0; i < charges.size(); ++i) {
        if (!used[counter_of[i]].is_refused()) each[i] = Decision{};
      }
    }
    if (failed != Reason::kOk) return;
    for (std::size_t i = 0; i < charges.size(); ++i) used[counter_of[i]].answer(each[i]);
    combine(each, all);
  }

  const Clock& clock_;
  const memory::FingerprintMaker fingerprint_;
  memory::SharedBytes shared_bytes_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

MemoryStore::MemoryStore(const MemoryStoreOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
MemoryStore::~MemoryStore() = default;

Decision MemoryStore::apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                            std::span<Decision> each) noexcept {
  return impl_->apply(verb, charges, now, each);
}

Decision MemoryStore::apply_one(Verb verb, const Charge& charge,
                                std::optional<Instant> now) noexcept {
  return impl_->apply_one(verb, charge, now);
}

MemoryStoreStats MemoryStore::stats() const { return impl_->stats(); }

}  // namespace sluice
