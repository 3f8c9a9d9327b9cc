#include "limiter/http_fields.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/step.h"
#include "limiter/answer.h"
#include "limiter/reason_report.h"
#include "sluice/http_fields.h"

namespace sluice {
namespace {

// Rounded up, so that waiting this long is always enough.
std::uint64_t seconds(Duration duration) noexcept {
  const auto ticks = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
  return (ticks + 999'999) / 1'000'000;
}
// Structured fields have integers of up to 15 digits.
static_assert(kMaxWait.count() / 1'000'000 < 1'000'000'000'000'000);
constexpr std::uint64_t kMostInteger = 999'999'999'999'999;
static_assert(kMaxUnits <= kMostInteger);

constexpr std::size_t kMostListBytes = 2048;

// Returns the time in which the capacity comes back: the period, unless a burst makes it longer or
// shorter.
Duration window(const Limit& limit) noexcept {
  const std::uint64_t capacity = limit.capacity();
  if (capacity == limit.limit() || limit.limit() == 0) return limit.period();
  if (limit.refill() == Refill::kInterval) {
    return limit.period() * core::ceil_div<Duration::rep>(capacity, limit.limit());
  }
  const auto period = static_cast<std::uint64_t>(limit.period().count());
  return Duration{
      static_cast<Duration::rep>(core::ceil_mul_div(capacity, period, 0, limit.limit()))};
}

// Rounded up, and never 0: a client does not try again at once.
std::uint64_t retry_seconds(Duration wait) noexcept {
  return std::max<std::uint64_t>(seconds(wait), 1);
}

// Returns the time in which no more than the remaining units can be used. A bucket gets its next
// unit back then. Of the other algorithms a decision does not say when the next unit comes back:
// until they are full again (an untouched one: a period), but no later than a denied request would
// pass.
Duration effective_window(const Limit& limit, const Decision& decision) noexcept {
  const Duration latest = std::min(decision.retry_after.value_or(Duration::max()),
                                   std::max(decision.reset_after, Duration{1}));
  const bool is_untouched = decision.reset_after <= Duration{0};
  if (limit.state_kind() != StateKind::kBucket || decision.reason == Reason::kBlocked) {
    return is_untouched ? window(limit) : latest;
  }
  const bool in_steps = limit.refill() == Refill::kInterval;
  const auto period = static_cast<std::uint64_t>(limit.period().count());
  if (is_untouched) {
    return in_steps ? limit.period()
                    : Duration{static_cast<Duration::rep>(core::ceil_div(period, limit.limit()))};
  }
  // What the bucket lacks, except for the next unit, comes back between then and reset_after.
  const std::uint64_t capacity = limit.capacity();
  const std::uint64_t lacks = capacity - std::min(decision.remaining, capacity);
  const std::uint64_t more = std::max<std::uint64_t>(lacks, 1) - 1;
  const std::uint64_t later =
      in_steps ? more / limit.limit() * period : core::floor_mul_div(more, period, limit.limit());
  const Duration next = decision.reset_after - Duration{static_cast<Duration::rep>(later)};
  return std::clamp(next, Duration{1}, std::max(latest, Duration{1}));
}

}  // namespace

int http_status(const Decision& decision) noexcept {
  return decision.allowed() ? 200 : report_of(decision.reason).http;
}

void put_policy_name(TextBuffer& out, std::string_view name, std::string_view group) {
  out.put('"');
  if (group.empty()) {
    out.put_field_text(name);
  } else {
    // With the slash escaped in both parts, only one pair of names makes this text.
    out.put_field_text(group, '/');
    out.put('/');
    out.put_field_text(name, '/');
  }
  out.put('"');
}

bool has_reset(const Limit& limit, const Decision& decision) noexcept {
  const bool is_forever = decision.reason == Reason::kBlocked && !decision.retry_after;
  const bool renews = limit.period() != kNeverEnds || decision.reset_after > Duration{0};
  return !is_forever && renews && limit.limit() > 0 && is_ever_full(limit, decision);
}

class HttpFields::Impl {
 public:
  std::string_view write(std::span<const NamedDecision> limits, const Decision& decision,
                         HeaderFields wanted);
  // Returns what was written.
  std::span<const HttpField> split();

 private:
  void sort(std::span<const NamedDecision> limits);
  void end_list(std::size_t start, std::size_t first);
  void put_policies(std::span<const NamedDecision> limits);
  void put_limits(std::span<const NamedDecision> limits, const Decision& request);
  void put_legacy(const NamedDecision& tightest);

  TextBuffer text_;
  std::vector<std::uint32_t> order_;  // indexes of the limits, tightest first
  std::vector<HttpField> fields_;
};

// There are few limits, so insertion is fast.
void HttpFields::Impl::sort(std::span<const NamedDecision> limits) {
  order_.clear();
  for (std::uint32_t i = 0; i < limits.size(); ++i) {
    order_.push_back(i);
    for (std::size_t at = i; at > 0; --at) {
      if (!tighter(limits[i].decision, limits[order_[at - 1]].decision)) break;
      std::swap(order_[at], order_[at - 1]);
    }
  }
}

// Ends a field whose list begins at `first`; one without members is left out.
void HttpFields::Impl::end_list(std::size_t start, std::size_t first) {
  if (text_.size() == first) {
    text_.shorten(start);
  } else {
    text_.put("\r\n");
  }
}

void HttpFields::Impl::put_policies(std::span<const NamedDecision> limits) {
  const std::size_t start = text_.size();
  text_.put("RateLimit-Policy: ");
  const std::size_t first = text_.size();
  for (const std::uint32_t i : order_) {
    const std::size_t before = text_.size();
    if (before > first) text_.put(", ");
    put_policy_name(text_, limits[i].name, limits[i].group);
    text_.put(";q=");
    text_.put_number(std::min(limits[i].limit.capacity(), kMostInteger));
    if (holds_permits(limits[i].limit.algorithm())) text_.put(";qu=\"concurrent-requests\"");
    if (limits[i].limit.period() != kNeverEnds) {
      text_.put(";w=");
      text_.put_number(seconds(window(limits[i].limit)));
    }
    if (text_.size() - first > kMostListBytes) {
      text_.shorten(before);
      break;
    }
  }
  end_list(start, first);
}

// Retry-After does not point before the end of `t`, as the draft demands: in a denial `t` is at
// most that time.
void HttpFields::Impl::put_limits(std::span<const NamedDecision> limits, const Decision& request) {
  const bool retries = !request.allowed() && request.retry_after;
  const std::uint64_t latest = retries ? retry_seconds(*request.retry_after) : UINT64_MAX;
  const std::size_t start = text_.size();
  text_.put("RateLimit: ");
  const std::size_t first = text_.size();
  for (const std::uint32_t i : order_) {
    const Decision& decision = limits[i].decision;
    if (!has_numbers(decision)) continue;
    const std::size_t before = text_.size();
    if (before > first) text_.put(", ");
    put_policy_name(text_, limits[i].name, limits[i].group);
    text_.put(";r=");
    text_.put_number(std::min(decision.remaining, kMostInteger));
    if (has_reset(limits[i].limit, decision)) {
      text_.put(";t=");
      text_.put_number(std::min(seconds(effective_window(limits[i].limit, decision)), latest));
    }
    if (text_.size() - first > kMostListBytes) {
      text_.shorten(before);
      break;
    }
  }
  end_list(start, first);
}

void HttpFields::Impl::put_legacy(const NamedDecision& tightest) {
  text_.put("X-RateLimit-Limit: ");
  text_.put_number(tightest.limit.capacity());
  text_.put("\r\nX-RateLimit-Remaining: ");
  text_.put_number(tightest.decision.remaining);
  if (has_reset(tightest.limit, tightest.decision)) {
    text_.put("\r\nX-RateLimit-Reset: ");
    text_.put_number(seconds(tightest.decision.reset_after));
  }
  text_.put("\r\n");
}

std::string_view HttpFields::Impl::write(std::span<const NamedDecision> limits,
                                         const Decision& decision, HeaderFields wanted) {
  text_.clear();
  sort(limits);
  if (!limits.empty()) {
    if (wanted == HeaderFields::kDraft || wanted == HeaderFields::kBoth) {
      put_policies(limits);
      put_limits(limits, decision);
    }
    const NamedDecision& tightest = limits[order_.front()];
    if ((wanted == HeaderFields::kLegacy || wanted == HeaderFields::kBoth) &&
        has_numbers(tightest.decision)) {
      put_legacy(tightest);
    }
  }
  if (!decision.allowed() && decision.retry_after) {
    text_.put("Retry-After: ");
    text_.put_number(retry_seconds(*decision.retry_after));
    text_.put("\r\n");
  }
  return text_.view();
}

std::span<const HttpField> HttpFields::Impl::split() {
  fields_.clear();
  std::string_view rest = text_.view();
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::size_t end = rest.find('\r', colon);
    fields_.push_back({rest.substr(0, colon), rest.substr(colon + 2, end - colon - 2)});
    rest.remove_prefix(end + 2);
  }
  return fields_;
}

HttpFields::HttpFields() : impl_(std::make_unique<Impl>()) {}
HttpFields::~HttpFields() = default;
HttpFields::HttpFields(HttpFields&&) noexcept = default;
HttpFields& HttpFields::operator=(HttpFields&&) noexcept = default;

std::span<const HttpField> HttpFields::of(std::string_view name, const Limit& limit,
                                          const Decision& decision, HeaderFields wanted) {
  const NamedDecision one{name, limit, decision};
  return of({&one, 1}, decision, wanted);
}

std::span<const HttpField> HttpFields::of(std::span<const NamedDecision> limits,
                                          const Decision& decision, HeaderFields wanted) {
  impl_->write(limits, decision, wanted);
  return impl_->split();
}

std::string_view HttpFields::lines(std::span<const NamedDecision> limits, const Decision& decision,
                                   HeaderFields wanted) {
  return impl_->write(limits, decision, wanted);
}

}  // namespace sluice
