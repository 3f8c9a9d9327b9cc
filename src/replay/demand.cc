#include "replay/demand.h"

#include <algorithm>
#include <utility>

namespace sluice::replay {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

Need Demand::add(std::uint32_t key, std::uint64_t units, Instant at) {
  const auto now = static_cast<std::uint64_t>(at.time_since_epoch().count());
  if (const std::uint64_t window = now / period_; window != window_) advance(window);
  std::uint32_t& used = current_[key];
  used = static_cast<std::uint32_t>(std::min<std::uint64_t>(used + units, kMostUnits));
  std::uint64_t sliding = used;
  if (const auto before = previous_.find(key); before != previous_.end()) {
    // The share of the previous window that is still inside the sliding one, rounded up.
    const Wide inside = Wide{before->second} * (period_ - now % period_);
    sliding += static_cast<std::uint64_t>((inside + period_ - 1) / period_);
  }
  return {{used, sliding, fill_bucket(key, units, now)}};
}

void Demand::advance(std::uint64_t window) {
  if (window == window_ + 1) {
    std::swap(previous_, current_);
  } else {
    previous_.clear();
  }
  current_.clear();
  window_ = window;
}

// Returns the burst that the request needs.
std::uint64_t Demand::fill_bucket(std::uint32_t key, std::uint64_t units, std::uint64_t at) {
  if (!std::exchange(began_, true)) first_ = at;
  const std::uint64_t drained = (at - first_) * rate_;
  if (levels_.size() >= most_levels_) drop_full_buckets(drained);
  std::uint64_t& level = levels_[key];
  constexpr Wide kMost = Wide{1} << 62;  // what has drained is below 2^63
  const std::uint64_t before = std::max(level, drained) - drained;
  const Wide after = std::min(before + Wide{std::min(units, kMostUnits)} * period_, kMost);
  level = drained + static_cast<std::uint64_t>(after);
  return static_cast<std::uint64_t>((after + period_ - 1) / period_);
}

void Demand::drop_full_buckets(std::uint64_t drained) {
  boost::unordered::erase_if(levels_,
                             [drained](const auto& bucket) { return bucket.second <= drained; });
  most_levels_ = std::max<std::size_t>(1024, levels_.size() + levels_.size() / 2);
}

}  // namespace sluice::replay
