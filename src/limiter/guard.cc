#include "sluice/guard.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "core/period.h"

namespace sluice {
namespace {

std::string double_quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string described(const Limit& limit) {
  if (holds_permits(limit.algorithm())) {
    return std::to_string(limit.limit()) + " in flight (concurrency)";
  }
  std::string out =
      std::to_string(limit.limit()) + core::format_pace(limit, core::format_period(limit));
  if (limit.capacity() != limit.limit()) {
    out += ", at once " + std::to_string(limit.capacity());
  }
  return out.append(" (").append(to_string(limit.algorithm())).append(")");
}

// "12.5 s": exact, without zeros at the end.
std::string in_seconds(Duration wait) {
  constexpr std::int64_t kSecond = 1000000;
  std::string out = std::to_string(wait.count() / kSecond);
  if (const std::int64_t rest = wait.count() % kSecond; rest != 0) {
    std::string digits = std::to_string(kSecond + rest).substr(1);
    digits.resize(digits.find_last_not_of('0') + 1);
    out.append(".").append(digits);
  }
  return out + " s";
}

std::string message(std::string_view name, std::string_view cause, const Decision& decision) {
  std::string out = std::string(name).append(": ").append(cause);
  if (decision.retry_after) out.append("; retry after ").append(in_seconds(*decision.retry_after));
  return out;
}

// Whether retry_after is absent because no wait is long enough.
bool is_endless(const Decision& decision) {
  return decision.reason == Reason::kNever ||
         (decision.reason == Reason::kBlocked && !decision.retry_after);
}

// Never is longer than any wait.
bool takes_longer(const Decision& a, const Decision& b) {
  if (a.allowed() != b.allowed()) return !a.allowed();
  if (is_endless(a) != is_endless(b)) return is_endless(a);
  return a.retry_after.value_or(Duration{0}) > b.retry_after.value_or(Duration{0});
}

// What is said before the limit that denied.
std::string_view cause_of(const Decision& decision) {
  if (decision.reason == Reason::kNever) return "the cost exceeds the capacity of the limit: ";
  if (decision.reason != Reason::kBlocked) return "limited to ";
  return decision.retry_after ? "blocked by the limit " : "blocked without end by the limit ";
}

}  // namespace

RateLimited::RateLimited(std::string_view name, std::string_view cause, const Decision& decision)
    : std::runtime_error(message(name, cause, decision)),
      name_size_(name.size()),
      decision_(decision) {}

namespace detail {

void check_guard(std::string_view name, std::span<const LimitName> limits, bool waits, bool holds) {
  if (name.empty()) {
    throw std::invalid_argument(
        "a guard has no name; expected a name, which identifies its counters");
  }
  const auto refuse = [&](const LimitName& limit, const std::string& what) {
    const std::string which =
        limit.label.empty() ? described(*limit.limit) : double_quoted(limit.label);
    throw std::invalid_argument("guard " + double_quoted(name) + ", limit " + which + ": " + what);
  };
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const Limit& limit = *limits[i].limit;
    const bool has_permits = holds_permits(limit.algorithm());
    if (has_permits && !holds) {
      refuse(limits[i], "a call needs a permit while it runs; expected .holding()");
    }
    if (!waits && limit.mode() == LeakyMode::kQueue) {
      refuse(limits[i],
             "a queue admits calls that must wait; expected .delaying(WAIT) or .waiting(AT_MOST)");
    }
    const auto before = limits.first(i);
    const auto same = [&](const LimitName& other) { return other.label == limits[i].label; };
    if (!limits[i].label.empty() && std::any_of(before.begin(), before.end(), same)) {
      refuse(limits[i], "another limit has the same name; expected a unique name");
    }
  }
  const auto has_permits = [](const LimitName& limit) {
    return holds_permits(limit.limit->algorithm());
  };
  if (holds && std::none_of(limits.begin(), limits.end(), has_permits)) {
    refuse(limits.front(), "it has no permits; expected a limit of concurrency, or no .holding()");
  }
}

void throw_rate_limited(std::string_view name, std::span<const LimitName> limits,
                        std::span<const Decision> each, const Decision& decision) {
  const bool blocked = decision.reason == Reason::kBlocked;
  const bool limited = decision.reason == Reason::kLimited || decision.reason == Reason::kNever ||
                       decision.reason == Reason::kDenyCache;
  if (!limited && !blocked) {
    throw RateLimited(
        name,
        "denied without the decision of a limit (" + std::string(to_string(decision.reason)) + ")",
        decision);
  }
  std::size_t which = 0;
  for (std::size_t i = 1; i < each.size(); ++i) {
    if (takes_longer(each[i], each[which])) which = i;
  }
  const LimitName& limit = limits[which];
  std::string cause(cause_of(decision));
  cause += described(*limit.limit);
  if (!limit.label.empty()) cause += " by " + double_quoted(limit.label);
  throw RateLimited(name, cause, decision);
}

}  // namespace detail
}  // namespace sluice
