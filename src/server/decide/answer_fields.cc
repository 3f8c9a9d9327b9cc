#include "server/decide/answer_fields.h"

#include <algorithm>

namespace sluice::server {
namespace {

// Rounded up, so that waiting this long is always enough.
std::uint64_t seconds(Duration duration) noexcept {
  const auto ticks = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
  return (ticks + 999'999) / 1'000'000;
}
// Structured fields have integers of up to 15 digits.
static_assert(kMaxWait.count() / 1'000'000 < 1'000'000'000'000'000);
static_assert(kMaxUnits < 1'000'000'000'000'000);

constexpr std::size_t kMostListBytes = 2048;

bool tighter(const Decision& a, const Decision& b) noexcept {
  if (a.allowed() != b.allowed()) return !a.allowed();
  return a.remaining < b.remaining;
}

// Returns whether `text` is "RULE/NAME".
bool is_joined(std::string_view text, std::string_view rule, std::string_view name) noexcept {
  return text.size() == rule.size() + 1 + name.size() && text.substr(0, rule.size()) == rule &&
         text[rule.size()] == '/' && text.substr(rule.size() + 1) == name;
}

bool is_ambiguous(std::span<const LimitAnswer> limits, std::size_t index) noexcept {
  const std::string& name = limits[index].limit->name;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (i == index) continue;
    const std::string& other = limits[i].limit->name;
    if (name == other || is_joined(name, limits[i].rule->name, other)) return true;
  }
  return false;
}

HeaderFields wanted_fields(const RuleAnswer& answer, const LimitAnswer& tightest) noexcept {
  const bool is_shadow = answer.rule == nullptr || answer.rule->mode == RuleMode::kShadow;
  return is_shadow ? tightest.rule->headers : answer.rule->headers;
}

}  // namespace

void put_policy_name(TextBuffer& out, std::span<const LimitAnswer> limits, std::size_t index) {
  const LimitAnswer& limit = limits[index];
  out.put('"');
  if (is_ambiguous(limits, index)) {
    // With the slash escaped in both parts, only one pair of names makes this text.
    out.put_field_text(limit.rule->name, '/');
    out.put('/');
    out.put_field_text(limit.limit->name, '/');
  } else {
    out.put_field_text(limit.limit->name);
  }
  out.put('"');
}

// Selects the reported limits, the tightest first. There are few, so insertion is fast.
void AnswerFields::choose(std::span<const LimitAnswer> limits) {
  shown_.clear();
  for (std::uint32_t i = 0; i < limits.size(); ++i) {
    if (limits[i].rule->mode == RuleMode::kShadow) continue;
    shown_.push_back(i);
    for (std::size_t at = shown_.size() - 1; at > 0; --at) {
      if (!tighter(limits[i].decision, limits[shown_[at - 1]].decision)) break;
      std::swap(shown_[at], shown_[at - 1]);
    }
  }
}

void AnswerFields::put_policies(const RuleAnswer& answer) {
  text_.put("RateLimit-Policy: ");
  const std::size_t first = text_.size();
  for (const std::uint32_t i : shown_) {
    const std::size_t before = text_.size();
    if (before > first) text_.put(", ");
    put_policy_name(text_, answer.limits, i);
    text_.put(";q=");
    text_.put_number(answer.limits[i].limit->limit.capacity());
    text_.put(";w=");
    text_.put_number(seconds(answer.limits[i].limit->limit.period()));
    if (text_.size() - first > kMostListBytes) {
      text_.shorten(before);
      break;
    }
  }
  text_.put("\r\n");
}

void AnswerFields::put_limits(const RuleAnswer& answer) {
  const std::size_t start = text_.size();
  text_.put("RateLimit: ");
  const std::size_t first = text_.size();
  for (const std::uint32_t i : shown_) {
    const Decision& decision = answer.limits[i].decision;
    if (!has_numbers(decision)) continue;
    const std::size_t before = text_.size();
    if (before > first) text_.put(", ");
    put_policy_name(text_, answer.limits, i);
    text_.put(";r=");
    text_.put_number(decision.remaining);
    text_.put(";t=");
    text_.put_number(seconds(decision.reset_after));
    if (text_.size() - first > kMostListBytes) {
      text_.shorten(before);
      break;
    }
  }
  if (text_.size() == first) {
    text_.shorten(start);
  } else {
    text_.put("\r\n");
  }
}

void AnswerFields::put_legacy(const LimitAnswer& tightest) {
  text_.put("X-RateLimit-Limit: ");
  text_.put_number(tightest.limit->limit.capacity());
  text_.put("\r\nX-RateLimit-Remaining: ");
  text_.put_number(tightest.decision.remaining);
  text_.put("\r\nX-RateLimit-Reset: ");
  text_.put_number(seconds(tightest.decision.reset_after));
  text_.put("\r\n");
}

void AnswerFields::write(const RuleAnswer& answer) {
  text_.clear();
  choose(answer.limits);
  if (!shown_.empty()) {
    const LimitAnswer& tightest = answer.limits[shown_.front()];
    const HeaderFields wanted = wanted_fields(answer, tightest);
    if (wanted == HeaderFields::kDraft || wanted == HeaderFields::kBoth) {
      put_policies(answer);
      put_limits(answer);
    }
    if ((wanted == HeaderFields::kLegacy || wanted == HeaderFields::kBoth) &&
        has_numbers(tightest.decision)) {
      put_legacy(tightest);
    }
  }
  if (answer.decision.allowed() || !answer.decision.retry_after) return;
  text_.put("Retry-After: ");
  text_.put_number(std::max<std::uint64_t>(seconds(*answer.decision.retry_after), 1));
  text_.put("\r\n");
}

std::string_view AnswerFields::lines(const RuleAnswer& answer) {
  write(answer);
  return text_.view();
}

std::span<const AnswerField> AnswerFields::of(const RuleAnswer& answer) {
  write(answer);
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

}  // namespace sluice::server
