#include "server/api/resp/decision_reply.h"

#include <chrono>
#include <optional>

#include "core/wire_outcome.h"

namespace sluice::server::resp {
namespace {

void put_wait(Reply& reply, std::string_view name, std::optional<Duration> wait) {
  reply.bulk(name);
  if (!wait) return reply.null();
  // Rounded up, so that waiting this long is always enough.
  reply.integer(std::chrono::ceil<std::chrono::milliseconds>(*wait).count());
}

void put_units(Reply& reply, std::string_view name, bool known, std::uint32_t units) {
  reply.bulk(name);
  if (known) return reply.integer(units);
  reply.null();
}

}  // namespace

void put_decision(Reply& reply, const Decision& decision) {
  put_decision(reply, decision, has_numbers(decision));
}

void put_decision(Reply& reply, const Decision& decision, bool numbers) {
  reply.bulk("outcome");
  reply.bulk(core::wire_outcome(decision.outcome));
  reply.bulk("reason");
  reply.bulk(to_string(decision.reason));
  put_units(reply, "limit", numbers, decision.capacity);
  put_units(reply, "remaining", numbers, decision.remaining);
  put_wait(reply, "reset_after_ms", numbers ? std::optional(decision.reset_after) : std::nullopt);
  put_wait(reply, "retry_after_ms", decision.allowed() ? std::nullopt : decision.retry_after);
  put_wait(reply, "delay_ms", decision.allowed() ? decision.delay : std::nullopt);
}

void put_permit(Reply& reply, std::string_view permit) {
  reply.bulk("permit");
  reply.bulk(permit);
}

void put_taken(Reply& reply, const Decision& decision) {
  put_units(reply, "taken", true, decision.taken);
}

}  // namespace sluice::server::resp
