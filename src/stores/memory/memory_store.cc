#include "sluice/memory_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "limiter/answer.h"
#include "stores/memory/counter.h"
#include "stores/memory/snapshot.h"

namespace sluice {
namespace {

using memory::Counter;
using memory::Shard;

// A shard has room for all charges of a request, and for as many to choose a victim from.
constexpr std::size_t kMinShardKeys = 2 * kMaxCharges;
constexpr std::size_t kMinLogBytes = 4096;
constexpr std::size_t kMaxShards = 1024;
constexpr std::size_t kMinShardLogBytes = std::size_t{32} << 10;
// Requests of up to this many charges have their counters in a small stack frame.
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

bool is_valid(Action action) noexcept { return action.max_wait >= Duration{0}; }
bool is_in_range(Instant at) noexcept { return at >= kFirstInstant && at <= kLastInstant; }

}  // namespace

class MemoryStore::Impl {
 public:
  Impl(const MemoryStoreOptions& options, const Clock& clock)
      : clock_(clock),
        options_(options),
        shared_bytes_(std::max(options.max_log_bytes, kMinLogBytes) / 2),
        shards_(make_shards()) {}

  // Here and below one object is written in place and returned, because a copy member by member
  // would take as long as the decision.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> instant,
                 std::span<Decision> each) noexcept {
    Decision all;
    const Instant at = instant ? *instant : clock_.now();
    const core::Ticks now = at.time_since_epoch().count();
    if (charges.empty() || charges.size() > kMaxCharges || each.size() != charges.size() ||
        !is_in_range(at) || !is_valid(action)) {
      refuse(Reason::kInvalid, each, all);
    } else if (changes_block(action.verb)) {
      change_blocks(action, charges, now, each, all);
    } else if (charges.size() == 1) {
      decide<1>(action, charges, now, each, all);
    } else if (charges.size() <= kFewCharges) {
      decide<kFewCharges>(action, charges, now, each, all);
    } else {
      decide<kMaxCharges>(action, charges, now, each, all);
    }
    return all;
  }

  // Makes the take of most requests without another function.
  [[gnu::always_inline]] void apply_one(Action action, const Charge& charge,
                                        const std::optional<Instant>& instant,
                                        Decision& decision) noexcept {
    const Instant at = instant ? *instant : clock_.now();
    const bool is_usual = action.verb == Verb::kTake && charge.block == nullptr &&
                          !charge.gives_back && core::has_fixed_size(charge.limit) &&
                          is_in_range(at) && is_valid(action);
    const core::Ticks now = at.time_since_epoch().count();
    if (!is_usual || !apply_in_place(Verb::kTake, charge, now, decision)) {
      apply_any(action, charge, at, decision);
    }
  }

  MemoryStoreStats stats() {
    MemoryStoreStats sum;
    sum.shards = shards_.size();
    for (const auto& shard : shards_) {
      const std::lock_guard lock(shard->mutex);
      sum.keys += shard->size();
      sum.log_bytes += shard->blob_bytes();
      sum.evictions += shard->evictions() + shard->blocks.evictions();
      sum.blocks += shard->blocks.size();
      sum.freed_keys += shard->blocks.freed();
      sum.swept += shard->swept();
      sum.merged_logs += shard->merged_logs();
    }
    return sum;
  }

  std::vector<BlockedKey> blocked(std::size_t most, std::optional<Instant> now) {
    std::vector<BlockedKey> out;
    const core::Ticks at = now.value_or(clock_.now()).time_since_epoch().count();
    for (const auto& shard : shards_) {
      for (std::size_t part = 0; part < shard->blocks.parts(); ++part) {
        const std::lock_guard lock(shard->mutex);
        shard->blocks.list(part, at, most, out);
      }
    }
    return out;
  }

  MemorySnapshot save(const std::string& path, std::optional<Instant> now) {
    const std::lock_guard lock(save_mutex_);  // two would write the same temporary file
    const Instant at = now.value_or(clock_.now());
    detail::ReplacementFile file(path);
    memory::SnapshotWriter writer(file, fingerprint_.secret(), stats().keys,
                                  at.time_since_epoch().count());
    for (const auto& shard : shards_) writer.add(*shard);
    writer.end();
    file.replace();
    return {writer.counters(), writer.blocks(), 0, file.bytes(), at};
  }

  MemorySnapshot load(const std::string& path, std::optional<Instant> now) {
    memory::SnapshotReader reader(path);
    Shards shards = make_shards();
    reader.read(shards, now.value_or(clock_.now()).time_since_epoch().count());
    shards_.swap(shards);
    fingerprint_ = memory::FingerprintMaker(reader.start().secret);
    return {reader.end().counters, reader.end().blocks, reader.dropped() + stats().evictions,
            reader.bytes(), Instant{Duration{reader.start().saved}}};
  }

 private:
  using Shards = std::vector<std::unique_ptr<Shard>>;

  Shards make_shards() {
    const std::size_t count = shard_count(options_);
    const std::size_t max_keys = std::max(options_.max_keys / count, kMinShardKeys);
    const std::size_t own_bytes = std::max(options_.max_log_bytes, kMinLogBytes) / 2 / count;
    Shards shards;
    shards.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      shards.push_back(std::make_unique<Shard>(max_keys, own_bytes, shared_bytes_));
    }
    return shards;
  }

  Shard& shard_of(const memory::Fingerprint& key) noexcept {
    return *shards_[key.high & (shards_.size() - 1)];
  }

  void begin(Counter& c, const Charge& charge, core::Ticks now) noexcept {
    const memory::Fingerprint key = fingerprint_(charge);
    c.begin(key, shard_of(key), charge, now);
  }

  void apply_to_one(Action action, const Charge& charge, core::Ticks now,
                    Decision& decision) noexcept {
    if (!verb_fits(action.verb, charge)) {
      decision = Decision::refused(Reason::kInvalid);
      return;
    }
    if (holds_permits(charge.limit.algorithm()) && charge.block == nullptr &&
        change_permit_in_place(action, charge, now, decision)) {
      return;
    }
    Counter c;
    begin(c, charge, now);
    const std::lock_guard lock(c.shard()->mutex);
    const Reason failed = memory::carry_out(action, {&c, 1});
    if (failed == Reason::kOk) {
      c.answer(decision);
    } else {
      decision = Decision::refused(failed);
    }
  }

  // Not inlined, so that the path of other limits is short.
  [[gnu::noinline]] bool change_permit_in_place(Action action, const Charge& charge,
                                                core::Ticks now, Decision& decision) noexcept {
    if (action.verb != Verb::kTake && !changes_permit(action.verb)) return false;
    const memory::Fingerprint key = fingerprint_(charge);
    return memory::change_permit(shard_of(key), key, action, charge, now, decision);
  }

  // Writes the blocks of all keys, and looks at their counters.
  [[gnu::noinline]] void change_blocks(Action action, std::span<const Charge> charges,
                                       core::Ticks now, std::span<Decision> each,
                                       Decision& all) noexcept {
    const auto fits = [&](const Charge& charge) {
      return verb_fits(action.verb, charge) && block_fits(action, charge);
    };
    if (!std::all_of(charges.begin(), charges.end(), fits)) {
      return refuse(Reason::kInvalid, each, all);
    }
    for (std::size_t i = 0; i < charges.size(); ++i) {
      Counter c;
      Charge looked = charges[i];
      looked.cost = 0;
      begin(c, looked, now);
      const std::lock_guard lock(c.shard()->mutex);
      if (!c.change_block(action)) return refuse(Reason::kStoreError, each, all);
      static_cast<void>(memory::carry_out(Verb::kPeek, {&c, 1}));
      c.answer(each[i]);
    }
    combine(each, all);
  }

  // Has the verbs of most requests as constants.
  [[gnu::noinline]] void apply_any(Action action, const Charge& charge, Instant at,
                                   Decision& decision) noexcept {
    switch (action.verb) {
      case Verb::kTake: return apply_as<Verb::kTake>(action.max_wait, charge, at, decision);
      case Verb::kCharge: return apply_as<Verb::kCharge>(action.max_wait, charge, at, decision);
      case Verb::kTakeAtMost:
        return apply_as<Verb::kTakeAtMost>(action.max_wait, charge, at, decision);
      case Verb::kReserve: return apply_as<Verb::kReserve>(action.max_wait, charge, at, decision);
      default: return apply_other(action, charge, at, decision);
    }
  }

  template <Verb TheVerb>
  [[gnu::noinline]] void apply_as(Duration max_wait, const Charge& charge, Instant at,
                                  Decision& decision) noexcept {
    const Action action{TheVerb, max_wait};
    const core::Ticks now = at.time_since_epoch().count();
    if (!is_in_range(at) || !is_valid(action)) {
      decision = Decision::refused(Reason::kInvalid);
    } else if (!decide_one_in_place(action, charge, now, decision)) {
      apply_to_one(action, charge, now, decision);
    }
  }

  [[gnu::noinline]] void apply_other(Action action, const Charge& charge, Instant at,
                                     Decision& decision) noexcept {
    if (!is_in_range(at) || !is_valid(action)) {
      decision = Decision::refused(Reason::kInvalid);
    } else if (changes_block(action.verb)) {
      change_blocks(action, {&charge, 1}, at.time_since_epoch().count(), {&decision, 1}, decision);
    } else {
      apply_to_one(action, charge, at.time_since_epoch().count(), decision);
    }
  }

  // Applies what takes or counts units to a counter of fixed size. Returns false, with nothing
  // changed, if the counter is missing.
  [[gnu::always_inline]] bool apply_in_place(Action action, const Charge& charge, core::Ticks now,
                                             Decision& decision) noexcept {
    memory::Fingerprint key;
    fingerprint_.write(charge, key);
    std::uint32_t expiry = 0;
    memory::Slot* const slot = shard_of(key).take(key, false, expiry);
    if (slot == nullptr) return false;
    memory::apply(*slot, expiry, action, charge, now, decision);
    return true;
  }

  // decide_in_place() for one charge, without the loops.
  [[gnu::always_inline]] bool decide_one_in_place(Action action, const Charge& charge,
                                                  core::Ticks now, Decision& decision) noexcept {
    if (!memory::InPlace::serves(charge.limit) || charge.gives_back) return false;
    if (core::has_fixed_size(charge.limit) && charge.block == nullptr) {
      return apply_in_place(action, charge, now, decision);
    }
    memory::InPlace counter;
    fingerprint_.write(charge, counter.key);
    counter.shard = &shard_of(counter.key);
    if (charge.block != nullptr) [[unlikely]]
      return decide_blocking(action, charge, now, counter, decision);
    if (!counter.look(action, charge, now)) return false;
    counter.finish(charge, decision);
    return true;
  }

  // decide_one_in_place() for a charge with a block.
  [[gnu::noinline]] static bool decide_blocking(Action action, const Charge& charge,
                                                core::Ticks now, memory::InPlace& counter,
                                                Decision& decision) noexcept {
    const std::lock_guard lock(counter.shard->mutex);
    if (!counter.look(action, charge, now)) return false;
    if (counter.needs_block(charge)) {
      counter.leave();
      return false;
    }
    counter.finish(charge, decision);
    return true;
  }

  // Serves most requests: charges on different counters that all exist. Looks each counter up once
  // and writes it where it was found. Returns false, with nothing changed, for any other request.
  template <std::size_t N>
  [[gnu::always_inline]] bool decide_in_place(Action action, std::span<const Charge> charges,
                                              core::Ticks now, std::span<Decision> each,
                                              Decision& all) noexcept {
    std::array<memory::InPlace, N> counters;
    const std::span used(counters.data(), N == 1 ? 1 : charges.size());
    bool has_blocks = false;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!memory::InPlace::serves(charges[i].limit) || charges[i].gives_back) return false;
      has_blocks |= charges[i].block != nullptr;
      memory::Fingerprint& key = used[i].key;
      fingerprint_.write(charges[i], key);
      for (std::size_t j = 0; j < i; ++j) {
        if (used[j].key == key) return false;
      }
      used[i].shard = &shard_of(key);
    }
    // A thread that holds a counter does not wait for another one: it gives up instead.
    const memory::Locks<N> locks(
        used.first(has_blocks ? used.size() : 0), [&](const memory::InPlace& c) {
          return charges[static_cast<std::size_t>(&c - used.data())].block ? c.shard : nullptr;
        });
    bool all_admit = true;
    std::size_t held = 0;
    for (; held < used.size(); ++held) {
      if (!used[held].look(action, charges[held], now, held > 0)) break;
      if (used[held].needs_block(charges[held])) {
        used[held].leave();
        break;
      }
      all_admit &= used[held].admits();
    }
    if (held < used.size()) {
      while (held > 0) used[--held].leave();
      return false;
    }
    if (!all_admit) {
      finish_untaken(charges, used, now, each, all);
      return true;
    }
    for (std::size_t i = 0; i < used.size(); ++i) used[i].finish(charges[i], each[i]);
    memory::combine_admitted(charges, used, all);
    return true;
  }

  [[gnu::noinline]] static void finish_untaken(std::span<const Charge> charges,
                                               std::span<memory::InPlace> counters, core::Ticks now,
                                               std::span<Decision> each, Decision& all) noexcept {
    for (std::size_t i = 0; i < counters.size(); ++i) {
      counters[i].finish_untaken(charges[i], now, each[i]);
    }
    combine(each, all);
  }

  template <std::size_t N>
  void decide(Action action, std::span<const Charge> charges, core::Ticks now,
              std::span<Decision> each, Decision& all) noexcept {
    if (action.verb == Verb::kTake) {
      if (decide_in_place<N>(Verb::kTake, charges, now, each, all)) return;
      return decide_in_steps<N>(Verb::kTake, charges, now, each, all);
    }
    const bool is_usual = action.verb == Verb::kReserve || action.verb == Verb::kCharge;
    if (is_usual && decide_others_in_place<N>(action, charges, now, each, all)) return;
    decide_in_steps<N>(action, charges, now, each, all);
  }

  // Not inlined, so that the path of a take is short.
  template <std::size_t N>
  [[gnu::noinline]] bool decide_others_in_place(Action action, std::span<const Charge> charges,
                                                core::Ticks now, std::span<Decision> each,
                                                Decision& all) noexcept {
    return decide_in_place<N>(action, charges, now, each, all);
  }

  template <std::size_t N>
  void decide_in_steps(Action action, std::span<const Charge> charges, core::Ticks now,
                       std::span<Decision> each, Decision& all) noexcept {
    std::array<Counter, N> counters;
    std::array<std::uint8_t, N> counter_of;
    std::size_t count = 0;
    for (std::size_t i = 0; i < charges.size(); ++i) {
      if (!verb_fits(action.verb, charges[i])) return refuse(Reason::kInvalid, each, all);
      begin(counters[count], charges[i], now);
      std::size_t same = 0;
      while (!(counters[same].key() == counters[count].key())) ++same;
      counter_of[i] = static_cast<std::uint8_t>(same);
      if (same == count) {
        ++count;
      } else if (!counters[same].agrees_with(charges[i])) {
        return refuse(Reason::kInvalid, each, all);
      } else {
        counters[same].add(charges[i]);
      }
    }
    const std::span used(counters.data(), count);
    Reason failed = Reason::kOk;
    {
      const memory::Locks<N> locks(used, [](const Counter& c) { return c.shard(); });
      failed = memory::carry_out(action, used);
    }
    if (failed != Reason::kOk) refuse(failed, each, all);
    if (failed == Reason::kStoreFull) {
      for (std::size_t i = 0; i < charges.size(); ++i) {
        if (!used[counter_of[i]].is_refused()) each[i] = Decision{};
      }
    }
    if (failed != Reason::kOk) return;
    for (std::size_t i = 0; i < charges.size(); ++i) used[counter_of[i]].answer(each[i]);
    action.verb == Verb::kRelease ? combine_released(each, all) : combine(each, all);
  }

  const Clock& clock_;
  const MemoryStoreOptions options_;
  memory::FingerprintMaker fingerprint_;
  memory::SharedBytes shared_bytes_;
  Shards shards_;
  std::mutex save_mutex_;
};

MemoryStore::MemoryStore(const MemoryStoreOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
MemoryStore::~MemoryStore() = default;

Decision MemoryStore::apply(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  return impl_->apply(action, charges, now, each);
}

Decision MemoryStore::apply_one(Action action, const Charge& charge,
                                std::optional<Instant> now) noexcept {
  Decision decision;
  impl_->apply_one(action, charge, now, decision);
  return decision;
}

Expected<MemorySnapshot> MemoryStore::save(const std::string& path,
                                           std::optional<Instant> now) const try {
  return impl_->save(path, now);
} catch (const std::exception& error) {
  return Unexpected{std::string(error.what())};
}

Expected<MemorySnapshot> MemoryStore::load(const std::string& path,
                                           std::optional<Instant> now) try {
  return impl_->load(path, now);
} catch (const std::exception& error) {
  return Unexpected{path + ": " + error.what()};
}

MemoryStoreStats MemoryStore::stats() const { return impl_->stats(); }
std::vector<BlockedKey> MemoryStore::blocked(std::size_t most, std::optional<Instant> now) const {
  return impl_->blocked(most, now);
}

}  // namespace sluice
