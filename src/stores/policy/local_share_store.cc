#include <algorithm>
#include <array>
#include <cstddef>
#include <new>

#include "core/limit.h"
#include "sluice/failure_policy.h"

namespace sluice {
namespace {

std::uint64_t part_of(std::uint64_t units, std::uint32_t nodes) noexcept {
  return units == 0 ? 0 : std::max<std::uint64_t>(units / nodes, 1);
}

// Returns the spec of a limit at a share of its rate, with that capacity if it is a bucket.
LimitSpec share_of(const Limit& limit, std::uint64_t units, std::uint64_t capacity) noexcept {
  LimitSpec spec = core::spec_of(limit);
  spec.limit = units;
  if (spec.burst && units > 0) {
    spec.burst = capacity - info(limit.algorithm()).burst_excludes_first;
  }
  return spec;
}

// Charges at their shares, in memory that is not initialized.
class SharedOut {
 public:
  SharedOut(std::span<const Charge> charges, std::uint32_t nodes) noexcept : size_(charges.size()) {
    for (std::size_t i = 0; i < size_; ++i) {
      Charge* const charge = ::new (bytes_ + i * sizeof(Charge)) Charge(charges[i]);
      charge->limit = share_of(charge->limit, nodes);
      charge->rule.new_keys = nullptr;  // its memory is bounded
    }
  }
  std::span<const Charge> view() const noexcept {
    return {std::launder(reinterpret_cast<const Charge*>(bytes_)), size_};
  }

 private:
  static_assert(std::is_trivially_destructible_v<Charge>);
  alignas(Charge) std::byte bytes_[kMaxCharges * sizeof(Charge)];
  std::size_t size_;
};

}  // namespace

Limit share_of(const Limit& limit, std::uint32_t nodes) noexcept {
  if (nodes <= 1) return limit;
  const std::uint64_t units = part_of(limit.limit(), nodes);
  LimitSpec spec = share_of(limit, units, part_of(limit.capacity(), nodes));
  // Rounded down, a rate may refill the share of a very large burst too slowly to be counted; then
  // the burst is one period's.
  if (find_error(spec) != LimitError::kNone) spec = share_of(limit, units, units);
  const auto share = Limit::make(spec);
  return share ? *share : limit;
}

LocalShareStore::LocalShareStore(const LocalShareOptions& options, const Clock& clock)
    : nodes_(std::max(options.nodes, 1u)), store_(options.memory, clock) {}

Decision LocalShareStore::apply(Action action, std::span<const Charge> charges,
                                std::optional<Instant> now, std::span<Decision> each) noexcept {
  const bool is_bounded = std::any_of(charges.begin(), charges.end(), [](const Charge& charge) {
    return charge.rule.new_keys != nullptr;
  });
  if ((nodes_ == 1 && !is_bounded) || charges.size() > kMaxCharges)
    return store_.apply(action, charges, now, each);
  return store_.apply(action, SharedOut(charges, nodes_).view(), now, each);
}

Decision LocalShareStore::apply_one(Action action, const Charge& charge,
                                    std::optional<Instant> now) noexcept {
  Charge own = charge;
  own.limit = share_of(charge.limit, nodes_);
  own.rule.new_keys = nullptr;
  return store_.apply_one(action, own, now);
}

}  // namespace sluice
