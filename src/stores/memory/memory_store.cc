#include "sluice/memory_store.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
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
// Requests of up to this many charges are decided in place.
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

  // Here and below a decision is made in the memory of the caller, because a copy member by member
  // would take as long as the decision, and clearing it a tenth of that.
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> instant,
                 std::span<Decision> each) noexcept {
    const Instant at = instant ? *instant : clock_.now();
    const core::Ticks now = at.time_since_epoch().count();
    Reason failed = Reason::kInvalid;
    const Decision* tightest = nullptr;
    if (charges.empty() || charges.size() > kMaxCharges || each.size() != charges.size() ||
        !is_in_range(at) || !is_valid(action)) {
      std::fill(each.begin(), each.end(), Decision::refused(failed));
    } else if (decide_few_in_place(action, charges, now, each, tightest)) {
      // Of a take that all limits admit, combine() would say no more.
      if (tightest != nullptr) {
        return {.capacity = tightest->capacity,
                .remaining = tightest->remaining,
                .reset_after = tightest->reset_after};
      }
      failed = Reason::kOk;
    } else {
      failed = decide_in_steps(action, charges, now, each);
    }
    if (failed != Reason::kOk) return Decision::refused(failed);
    return action.verb == Verb::kRelease ? combine_released(each) : combine(each);
  }

  // Makes the take of most requests without another function.
  [[gnu::always_inline]] Decision apply_one(Action action, const Charge& charge,
                                            const std::optional<Instant>& instant) noexcept {
    const bool is_usual =
        action.verb == Verb::kTake && charge.block == nullptr && !charge.gives_back &&
        is_valid(action) &&
        (core::has_fixed_size(charge.limit) || charge.limit.state_kind() == StateKind::kSlices);
    memory::Fingerprint key;
    // Before the clock: a processor that reads its counter begins little else until it has done so,
    // but it makes the hash while it still waits for the request before.
    if (is_usual) fingerprint_.write(charge, key);
    const Instant at = instant ? *instant : clock_.now();
    const core::Ticks now = at.time_since_epoch().count();
    if (is_usual && is_in_range(at)) {
      std::uint32_t expiry = 0;
      if (memory::Slot* const slot = shard_of(key).take(key, false, expiry)) [[likely]] {
        if (!core::has_fixed_size(charge.limit)) return take_slices(*slot, expiry, charge, now);
        return memory::InPlace::take(*slot, expiry, Verb::kTake, charge, now);
      }
    }
    return apply_any(action, charge, at);
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
    if (!is_in_range(at))
      throw std::out_of_range("the time is out of range; expected 1970 to 2112");
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
      shards.push_back(
          std::make_unique<Shard>(max_keys, own_bytes, shared_bytes_, options_.ledger));
    }
    return shards;
  }

  Shard& shard_of(const memory::Fingerprint& key) noexcept {
    return *shards_[key.high & (shards_.size() - 1)];
  }

  // Decides a sliding counter that is held. Takes 2.6 times as long as a map; in apply_any() 3.3.
  [[gnu::noinline]] Decision take_slices(memory::Slot& slot, std::uint32_t expiry,
                                         const Charge& charge, core::Ticks now) noexcept {
    core::Step<core::NextSlices> step;
    if (memory::InPlace::take_slices(slot, expiry, charge, now, step)) {
      return core::decision_of(charge.limit, step.answer);
    }
    memory::InPlace counter;
    counter.slot = &slot;
    counter.expiry = expiry;
    return take_held(counter, Verb::kTake, charge, now);
  }
  // Leaves the counter.
  [[gnu::noinline]] Decision take_held(memory::InPlace& counter, Action action,
                                       const Charge& charge, core::Ticks now) noexcept {
    if (counter.look(action, charge, now)) return counter.finish(charge);
    counter.leave();
    return decide_in_steps(action, charge, now);
  }

  // All requests of one charge that apply_one() does not decide itself.
  [[gnu::noinline]] Decision apply_any(Action action, const Charge& charge, Instant at) noexcept {
    const core::Ticks now = at.time_since_epoch().count();
    if (!is_in_range(at) || !is_valid(action)) return Decision::refused(Reason::kInvalid);
    const bool is_recorded =
        options_.ledger != nullptr && charge.limit.state_kind() == StateKind::kBudget;
    if (memory::InPlace::serves(action, charge) && !is_recorded) {
      memory::InPlace counter;
      fingerprint_.write(charge, counter.key);
      if (counter.find(shard_of(counter.key))) {
        if (core::has_fixed_size(charge.limit)) {
          return memory::InPlace::take(*counter.slot, counter.expiry, action, charge, now);
        }
        return take_held(counter, action, charge, now);
      }
    }
    return decide_in_steps(action, charge, now);
  }
  [[gnu::noinline]] Decision decide_in_steps(Action action, const Charge& charge,
                                             core::Ticks now) noexcept {
    Decision decision;
    static_cast<void>(decide_in_steps(action, {&charge, 1}, now, {&decision, 1}));
    return decision;
  }

  // Serves most requests: a few charges on different counters that all exist. Looks each counter up
  // once and writes it where it was found. Returns false, with nothing changed, for any other
  // request. Sets `tightest` if take_all() served it.
  bool decide_few_in_place(Action action, std::span<const Charge> charges, core::Ticks now,
                           std::span<Decision> each, const Decision*& tightest) noexcept {
    if (charges.size() > kFewCharges || action.verb == Verb::kTakeAtMost) return false;
    std::array<memory::InPlace, kFewCharges> counters;
    const std::span used(counters.data(), charges.size());
    bool is_usual = action.verb == Verb::kTake;
    for (std::size_t i = 0; i < used.size(); ++i) {
      const StateKind kind = charges[i].limit.state_kind();
      is_usual = is_usual && core::has_fixed_size(charges[i].limit);
      if (kind == StateKind::kPermits || kind == StateKind::kBudget ||
          !memory::InPlace::serves(action, charges[i])) {
        return false;
      }
      memory::Fingerprint& key = used[i].key;
      fingerprint_.write(charges[i], key);
      for (std::size_t j = 0; j < i; ++j) {
        if (used[j].key == key) return false;
      }
    }
    // All are held before one is decided: a lock waits for what comes before it, so that the
    // processor would make no two decisions at the same time. A thread that holds a counter does
    // not wait for another one: it gives up instead.
    std::size_t held = 0;
    while (held < used.size() && used[held].find(shard_of(used[held].key), held > 0)) ++held;
    bool is_decided = held == used.size();
    if (is_decided && is_usual) {
      tightest = take_all(charges, now, used, each);
      if (tightest != nullptr) return true;
    }
    bool all_admit = true;
    for (std::size_t i = 0; i < held && is_decided; ++i) {
      is_decided = used[i].look(action, charges[i], now);
      all_admit = all_admit && is_decided && used[i].admits();
    }
    if (!is_decided) {
      while (held > 0) used[--held].leave();
      return false;
    }
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!all_admit) used[i].untake(charges[i], now);
      ::new (static_cast<void*>(&each[i])) Decision(used[i].finish(charges[i]));
    }
    return true;
  }

  // Takes from held counters of fixed size that all admit their costs, in short code, as most
  // requests do. It keeps the next states and the decisions, not the answers, and writes nothing
  // before the last counter has admitted. Returns the tightest decision; or null, with all counters
  // still held, for any other request. Three limits take 1,420 instructions; without this 1,820.
  static const Decision* take_all(std::span<const Charge> charges, core::Ticks now,
                                  std::span<memory::InPlace> counters,
                                  std::span<Decision> each) noexcept {
    const Decision* tightest = each.data();
    std::array<std::uint32_t, kFewCharges> expiries;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      core::Step<core::State> step;
      const Charge& charge = charges[i];
      if (!core::take_quickly(Verb::kTake, charge.limit, counters[i].slot->state.state(), now,
                              charge.cost, step) ||
          !step.answer.admitted) {
        return nullptr;
      }
      counters[i].step.next = step.next;
      expiries[i] = memory::PackedState::expiry_of(step.forgotten());
      ::new (static_cast<void*>(&each[i])) Decision(core::decision_of(charge.limit, step.answer));
      if (each[i].remaining < tightest->remaining) tightest = &each[i];
    }
    for (std::size_t i = 0; i < counters.size(); ++i) {
      counters[i].slot->state.set_state(counters[i].step.next);
      counters[i].slot->state.leave(expiries[i]);
    }
    return tightest;
  }

  // Serves all requests, under the locks of the shards. Returns why there is no decision, or kOk.
  Reason decide_in_steps(Action action, std::span<const Charge> charges, core::Ticks now,
                         std::span<Decision> each) noexcept {
    // Counters are made as they are needed, because most requests have few.
    alignas(Counter) std::array<std::byte, kMaxCharges * sizeof(Counter)> memory;
    auto* const counters = reinterpret_cast<Counter*>(memory.data());
    std::array<std::uint8_t, kMaxCharges> counter_of;
    std::size_t count = 0;
    Reason failed = Reason::kOk;
    for (std::size_t i = 0; i < charges.size() && failed == Reason::kOk; ++i) {
      const Charge& charge = charges[i];
      const memory::Fingerprint key = fingerprint_(charge);
      new (&counters[count]) Counter(key, shard_of(key), charge, now);
      std::size_t same = 0;
      while (!(counters[same].key() == key)) ++same;
      counter_of[i] = static_cast<std::uint8_t>(same);
      const bool is_first = same == count;
      const bool agrees = (is_first || counters[same].agrees_with(charge)) &&
                          row_agrees(action, charges, i, std::span<const Counter>(counters, count),
                                     same, i > 0 ? counter_of[i - 1] : std::size_t{0});
      if (!agrees || !verb_fits(action, charge) || !block_fits(action, charge)) {
        failed = Reason::kInvalid;
      } else if (is_first) {
        ++count;
      } else {
        counters[same].add(charge);
      }
    }
    if (failed == Reason::kOk) failed = memory::carry_out(action, {counters, count});
    for (std::size_t i = 0; i < charges.size(); ++i) {
      const bool is_refused = failed != Reason::kStoreFull || counters[counter_of[i]].is_refused();
      if (failed == Reason::kOk) {
        counters[counter_of[i]].answer(each[i]);
      } else {
        each[i] = is_refused ? Decision::refused(failed) : Decision{};
      }
    }
    return failed;
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
  return impl_->apply_one(action, charge, now);
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
