#include "rules/override_text.h"

#include <algorithm>
#include <charconv>

#include "core/calendar.h"
#include "core/period.h"
#include "rules/fields.h"
#include "rules/source_text.h"

namespace sluice::rules {
namespace {

constexpr std::string_view kWords =
    "expected limit=NUMBER, plan=NAME, blocked or unlimited, then per=, burst= and until=";

void append_plan(std::string_view plan, std::string& out) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : plan) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte != 0x7F && c != '%') {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
}

std::optional<std::string> parse_plan(std::string_view text) {
  std::string plan;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plan += text[i];
      continue;
    }
    unsigned byte = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const char* end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, byte, 16);
    if (digits.size() != 2 || read.ptr != end || read.ec != std::errc{}) return std::nullopt;
    plan += static_cast<char>(byte);
    i += 2;
  }
  return plan;
}

// Reads "NAME=VALUE" or "NAME" into the override. Returns whether it is right.
bool read_word(std::string_view name, std::string_view value, Override& given) {
  if (name == "blocked" || name == "unlimited") {
    given.kind = name == "blocked" ? Override::Kind::kBlocked : Override::Kind::kUnlimited;
    return value.empty();
  }
  if (name == "plan") {
    auto plan = parse_plan(value);
    given.kind = Override::Kind::kPlan;
    if (plan) given.plan = std::move(*plan);
    return plan && !given.plan.empty();
  }
  if (name == "per") {
    return !set_period(value, given);
  }
  const auto number = whole_number(value);
  if (!number) return false;
  if (name == "until") {
    if (*number > static_cast<std::uint64_t>(kLastInstant.time_since_epoch().count())) return false;
    given.until = Instant{Duration{static_cast<Duration::rep>(*number)}};
  } else if (name == "limit") {
    given.limit = *number;
  } else if (name == "burst") {
    given.burst = number;
  } else {
    return false;
  }
  return true;
}

}  // namespace

void append_text(const Override& given, std::string& out) {
  switch (given.kind) {
    case Override::Kind::kNumbers: out.append("limit=").append(std::to_string(given.limit)); break;
    case Override::Kind::kPlan: append_plan(given.plan, out += "plan="); break;
    case Override::Kind::kBlocked: out += "blocked"; break;
    case Override::Kind::kUnlimited: out += "unlimited"; break;
  }
  if (given.per || given.calendar) out.append(" per=").append(period_of(given));
  if (given.burst) out.append(" burst=").append(std::to_string(*given.burst));
  if (given.until) {
    out.append(" until=").append(std::to_string(given.until->time_since_epoch().count()));
  }
}

std::optional<std::string> set_period(std::string_view text, Override& given) {
  given.calendar = core::calendar_unit_from(text);
  if (given.calendar) return std::nullopt;
  const auto period = core::parse_period(text);
  if (!period) return period.error();
  given.per = *period;
  return std::nullopt;
}

std::string period_of(const Override& given) {
  if (given.calendar) return std::string(core::name_of(*given.calendar));
  return given.per ? core::format_period(*given.per) : std::string();
}

Expected<Override> parse_override(std::string_view text) {
  Override given;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view name = word.substr(0, equals);
    const bool is_kind =
        name == "limit" || name == "plan" || name == "blocked" || name == "unlimited";
    const std::string_view value = word.substr(std::min(equals + 1, word.size()));
    if (is_kind != is_first || !read_word(name, value, given)) {
      return Unexpected{in_quotes(word) + " is not a part of an override; " + std::string(kWords)};
    }
  }
  return given;
}

}  // namespace sluice::rules
