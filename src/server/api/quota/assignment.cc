#include "server/api/quota/quota_service.h"

#include <algorithm>
#include <limits>

namespace sluice::server {
namespace {

using Wide = unsigned __int128;
constexpr std::uint64_t kSecond = 1'000'000;  // ticks

// The ticks of a time; none if it is negative.
std::uint64_t ticks(Duration time) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

// Returns the requests of a part in each second, times quota::kWhole; rounded down.
Wide rate_of(const QuotaPart& part) noexcept {
  if (part.cost == 0) return ~Wide{0};
  return Wide{part.share} * part.limit.limit() * kSecond / ticks(part.limit.period()) / part.cost;
}

}  // namespace

Assignment assign(std::span<const QuotaPart> parts, Duration every) {
  constexpr Duration kLongest = std::chrono::seconds{5};
  const QuotaPart* strictest = nullptr;
  Wide rate = ~Wide{0};
  for (const QuotaPart& part : parts) {
    if (const Wide own = rate_of(part); strictest == nullptr || own < rate) {
      strictest = &part;
      rate = own;
    }
  }
  if (rate == 0) return {.kind = Assignment::Kind::kDenyAll};
  // So that three thirds are the whole, and never more than that.
  rate = std::min(rate + (rate >> 20),
                  std::max(rate, rate_of({quota::kWhole, strictest->limit, strictest->cost})));
  constexpr Wide kWhole = quota::kWhole;
  constexpr Wide kMostTokens = std::numeric_limits<std::uint32_t>::max();
  constexpr Wide kMostSeconds = 1'000'000'000;
  const auto in_seconds = [](Duration time) {
    return static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(time).count());
  };
  const Duration longest = std::max(every, kLongest);
  const Wide shortest = in_seconds(std::clamp(strictest->limit.period(), every, longest));
  // One token, if there is less than one in the times below.
  Wide tokens = 1;
  Wide seconds = std::clamp<Wide>((kWhole + rate - 1) / rate, shortest, kMostSeconds);
  // Less than one request in 50 is lost to whole tokens, if 10 s are enough for that.
  bool is_close = false;
  for (Wide time = shortest; !is_close && time <= std::max<Wide>(shortest, 10); ++time) {
    const Wide whole = std::min(rate * time / kWhole, kMostTokens);
    if (whole * seconds > tokens * time) {
      tokens = whole;
      seconds = time;
    }
    is_close = whole * kWhole * 50 >= rate * time * 49;
  }
  return {.kind = Assignment::Kind::kTokens,
          .tokens = static_cast<std::uint32_t>(tokens),
          .interval = std::chrono::seconds(static_cast<std::int64_t>(seconds))};
}

std::uint64_t share_of(const Limit& limit, std::uint64_t units, Duration time) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  const std::uint64_t during = ticks(time);
  if (units == 0) return 0;
  if (during == 0 || limit.limit() == 0) return kMost;
  // In two steps, because the product has more than 128 bits: whole units of a period first.
  const Wide product = Wide{units} * ticks(limit.period());
  if (product / during >= Wide{limit.limit()} << 10) return kMost;
  const Wide of_period =
      product / during * quota::kWhole + product % during * quota::kWhole / during;
  return static_cast<std::uint64_t>(of_period / limit.limit());
}

std::uint64_t units_in(const Limit& limit, std::uint64_t share, Duration time, Wide* left) {
  const Wide whole = Wide{ticks(limit.period())} * quota::kWhole;
  const Wide all = (left != nullptr ? *left : 0) + Wide{share} * limit.limit() * ticks(time);
  if (left != nullptr) *left = all % whole;
  return static_cast<std::uint64_t>(all / whole);
}

}  // namespace sluice::server
