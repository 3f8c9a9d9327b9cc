#include "server/api/check/check_answer.h"

#include <algorithm>

#include "core/decision.h"

namespace sluice::server {
namespace {

// Rounded up, so that waiting this long is always enough.
std::uint64_t milliseconds(Duration duration) noexcept {
  const auto ticks = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
  return (ticks + 999) / 1000;
}

void put_waits(TextBuffer& out, const Decision& decision) {
  if (!decision.allowed() && decision.retry_after) {
    out.put(",\"retry_after_ms\":");
    out.put_number(milliseconds(*decision.retry_after));
  }
  if (decision.allowed() && decision.delay) {
    out.put(",\"delay_ms\":");
    out.put_number(milliseconds(*decision.delay));
  }
}

// Writes what a limit has left, if it was read, and its waits.
void put_numbers(TextBuffer& out, const Limit& limit, const Decision& decision) {
  out.put(",\"limit\":");
  out.put_number(limit.capacity());
  if (has_numbers(decision)) {
    out.put(",\"remaining\":");
    out.put_number(decision.remaining);
    out.put(",\"reset_after_ms\":");
    out.put_number(milliseconds(decision.reset_after));
  }
  put_waits(out, decision);
}

void put_limit(TextBuffer& out, const LimitAnswer& limit, const Rule* deciding) {
  const Rule& rule = *limit.rule;
  out.put("{\"name\":");
  out.put_json(limit.limit->name);
  if (deciding == nullptr || &rule != deciding) {
    out.put(",\"rule\":");
    out.put_json(rule.name);
  }
  if (rule.mode == RuleMode::kShadow) out.put(",\"shadow\":true");
  put_numbers(out, limit.numbers, limit.decision);
  if (limit.limit->warn_percent > 0) {
    out.put(",\"near\":");
    out.put_text(limit.near ? "true" : "false");
  }
  out.put('}');
}

// Writes the members before `limits`.
void put_head(TextBuffer& out, const Decision& decision, const Rule* rule, bool with_taken,
              std::string_view permit) {
  out.put("{\"outcome\":\"");
  out.put_text(core::wire_outcome(decision.outcome));
  out.put("\",\"rule\":");
  if (rule != nullptr) {
    out.put_json(rule->name);
  } else {
    out.put("null");
  }
  out.put(",\"reason\":\"");
  out.put_text(to_string(decision.reason));
  out.put('"');
  put_waits(out, decision);
  if (with_taken && decision.allowed()) {
    out.put(",\"taken\":");
    out.put_number(decision.taken);
  }
  if (!permit.empty()) {
    out.put(",\"permit\":");
    out.put_json(permit);
  }
}

}  // namespace

void put_limit_answer(TextBuffer& out, const NamedDecision& limit, std::string_view permit,
                      bool with_taken) {
  put_head(out, limit.decision, nullptr, with_taken, permit);
  out.put(",\"limits\":[{\"name\":");
  out.put_json(limit.name);
  put_numbers(out, limit.limit, limit.decision);
  out.put("}]}");
}

void put_check_answer(TextBuffer& out, const RuleAnswer& answer, bool with_taken) {
  put_head(out, answer.decision, answer.rule, with_taken, answer.permit);
  if (!answer.mistake.empty()) {
    out.put(",\"detail\":");
    out.put_json(answer.mistake);
  }
  out.put(",\"limits\":[");
  for (const LimitAnswer& limit : answer.limits) {
    if (&limit != answer.limits.data()) out.put(',');
    put_limit(out, limit, answer.rule);
  }
  out.put("]}");
}

}  // namespace sluice::server
