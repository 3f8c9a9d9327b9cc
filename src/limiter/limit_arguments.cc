#include "limiter/limit_arguments.h"

#include <chrono>
#include <string>

#include "core/period.h"
#include "core/quoted.h"
#include "core/wire_outcome.h"

namespace sluice {
namespace {

constexpr auto kUpper = [] {
  std::array<char, 256> upper{};
  for (std::size_t c = 0; c < upper.size(); ++c) {
    upper[c] = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  return upper;
}();

constexpr char upper_of(char c) noexcept { return kUpper[static_cast<unsigned char>(c)]; }

std::optional<std::int64_t> milliseconds(std::optional<Duration> wait) noexcept {
  if (!wait) return std::nullopt;
  // Rounded up, so that waiting this long is always enough.
  return std::chrono::ceil<std::chrono::milliseconds>(*wait).count();
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (upper_of(a[i]) != upper_of(b[i])) return false;
  }
  return true;
}

Expected<Duration> parse_max_wait(std::string_view value) {
  constexpr Duration kMost = std::chrono::days(1);
  if (value == "0") return Duration{0};
  const auto wait = core::parse_period(value);
  if (wait && *wait <= kMost) return *wait;
  return Unexpected{
      "MAXWAIT: " +
      (wait ? core::in_quotes(value) + " is too long; expected at most 1d" : wait.error())};
}

std::array<DecisionField, 7> decision_fields(const Decision& decision, bool numbers) noexcept {
  const auto known = [&](std::uint32_t units) {
    return numbers ? std::optional<std::int64_t>(units) : std::nullopt;
  };
  const bool is_allowed = decision.allowed();
  return {{{"outcome", core::wire_outcome(decision.outcome), {}},
           {"reason", to_string(decision.reason), {}},
           {"limit", {}, known(decision.capacity)},
           {"remaining", {}, known(decision.remaining)},
           {"reset_after_ms", {}, numbers ? milliseconds(decision.reset_after) : std::nullopt},
           {"retry_after_ms", {}, is_allowed ? std::nullopt : milliseconds(decision.retry_after)},
           {"delay_ms", {}, is_allowed ? milliseconds(decision.delay) : std::nullopt}}};
}

}  // namespace sluice
