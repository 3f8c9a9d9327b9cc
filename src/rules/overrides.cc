#include "sluice/overrides.h"

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "rules/override_table.h"

namespace sluice {
namespace {

constexpr std::size_t kShards = 256;

struct alignas(64) Shard {
  mutable std::mutex mutex;
  rules::OverrideTable table;
};

Instant system_now() noexcept { return SystemClock().now(); }

}  // namespace

class Overrides::Impl {
 public:
  explicit Impl(std::size_t bound) : most(bound) {}

  struct Place {
    Shard& shard;
    std::uint32_t hash;
  };
  Place place_of(std::string_view counter) {
    const std::size_t hash = std::hash<std::string_view>()(counter);
    return {shards[(hash >> 32) % kShards], static_cast<std::uint32_t>(hash)};
  }
  const std::size_t most;
  std::atomic<std::size_t> size{0};
  std::array<Shard, kShards> shards;
};

Overrides::Overrides(std::size_t most) : impl_(std::make_unique<Impl>(most)) {}
Overrides::~Overrides() = default;

Expected<bool> Overrides::set(std::string_view counter, const Override& given) {
  if (counter.size() > kLongestKey) {
    return Unexpected{"the key has " + std::to_string(counter.size()) +
                      " bytes; expected at most " + std::to_string(kLongestKey)};
  }
  const auto [shard, hash] = impl_->place_of(counter);
  const std::lock_guard lock(shard.mutex);
  const bool is_full = impl_->size >= impl_->most || shard.table.is_full();
  if (is_full && !shard.table.find(counter, hash)) {
    return Unexpected{"there are " + std::to_string(impl_->most) +
                      " overrides, as many as there may be; expected fewer"};
  }
  const bool is_new = shard.table.set(counter, hash, given);
  if (is_new) ++impl_->size;
  return is_new;
}

bool Overrides::unset(std::string_view counter) {
  const auto [shard, hash] = impl_->place_of(counter);
  const std::lock_guard lock(shard.mutex);
  const bool was_there = shard.table.unset(counter, hash);
  if (was_there) --impl_->size;
  return was_there;
}

void Overrides::clear() {
  for (Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    impl_->size -= shard.table.size();
    shard.table = {};
  }
}

void Overrides::replace(Overrides&& next) {
  for (std::size_t i = 0; i < kShards; ++i) {
    rules::OverrideTable old = std::exchange(next.impl_->shards[i].table, {});
    Shard& shard = impl_->shards[i];
    const std::lock_guard lock(shard.mutex);
    impl_->size += old.size() - shard.table.size();
    std::swap(shard.table, old);
  }
  next.impl_->size = 0;
}

std::optional<Override> Overrides::find(std::string_view counter,
                                        std::optional<Instant> now) const {
  if (impl_->size.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const auto [shard, hash] = impl_->place_of(counter);
  std::optional<Override> found;
  {
    const std::lock_guard lock(shard.mutex);
    found = shard.table.find(counter, hash);
  }
  if (found && found->until && *found->until <= now.value_or(system_now())) found.reset();
  return found;
}

Overrides::Page Overrides::list(std::uint64_t from, std::size_t most,
                                std::string_view prefix) const {
  Page page;
  auto at = static_cast<std::uint32_t>(from);
  for (std::uint64_t i = from >> 32; i < kShards; ++i) {
    const Shard& shard = impl_->shards[i];
    const std::lock_guard lock(shard.mutex);
    at = shard.table.list(at, most, prefix, page.entries);
    if (at == 0 && page.entries.size() < most) continue;
    if (at == 0) ++i;
    if (i < kShards) page.next = i << 32 | at;
    break;
  }
  return page;
}

std::size_t Overrides::drop_ended(Instant now) {
  std::size_t dropped = 0;
  for (Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    dropped += shard.table.drop_ended(now);
  }
  impl_->size -= dropped;
  return dropped;
}

std::size_t Overrides::size() const noexcept { return impl_->size; }

std::size_t Overrides::most() const noexcept { return impl_->most; }

std::size_t Overrides::bytes() const {
  std::size_t bytes = sizeof(Impl);
  for (const Shard& shard : impl_->shards) {
    const std::lock_guard lock(shard.mutex);
    bytes += shard.table.bytes();
  }
  return bytes;
}

}  // namespace sluice
