#include <string>

#include "limiter/limit_arguments.h"
#include "limiter/reason_report.h"
#include "server/api/resp/command_handler.h"
#include "server/api/resp/decision_reply.h"
#include "sluice/permit.h"

// The commands that decide by a limit in the request, such as RL.LIMIT.
namespace sluice::server::resp::commands {
namespace {

// `at` is the index of the key in the arguments.
void decide_limit(CommandHandler& handler, const Call& call, const CounterVerb& verb,
                  std::size_t at) {
  const auto request = parse_limit(verb, call.arguments.subspan(at + 1));
  if (!request) return call.reply.error("ERR " + request.error());
  if (takes(verb.verb) && !handler.may_take(call, request->cost)) return;
  const Limit& limit = request->limit;
  Charge charge{call.arguments[at], limit, request->cost};
  if (verb.settles) {
    charge.gives_back = request->actual < request->cost;
    charge.cost =
        charge.gives_back ? request->cost - request->actual : request->actual - request->cost;
  }
  std::string permit;
  const Decision decision = handler.session.decide(charge, {verb.verb, request->max_wait}, &permit);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (!error.empty()) return call.reply.error(error);
  const bool with_taken = verb.verb == Verb::kTakeAtMost;
  call.reply.map(kDecisionPairs + (with_taken ? 1 : 0) + (permit.empty() ? 0 : 1));
  if (with_taken) put_taken(call.reply, decision);
  if (!permit.empty()) put_permit(call.reply, permit);
  put_decision(call.reply, decision);
}

// Ends a permit, or starts its lease again. Replies 1, or 0 if it has ended.
void change_permit(CommandHandler& handler, const Call& call, bool releases) {
  const std::string_view permit = call.arguments[1];
  if (const auto text = PermitText::parse(permit); !text) {
    return call.reply.error("ERR permit: " + text.error());
  }
  const Decision decision =
      releases ? handler.session.release(permit) : handler.session.extend(permit);
  handler.outcome = decision.outcome;
  const std::string_view error = report_of(decision.reason).resp_error;
  if (decision.reason != Reason::kGone && !error.empty()) return call.reply.error(error);
  call.reply.integer(decision.allowed() ? 1 : 0);
}

}  // namespace

void release(CommandHandler& handler, const Call& call) { change_permit(handler, call, true); }
void extend(CommandHandler& handler, const Call& call) { change_permit(handler, call, false); }
void limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kTake}, 1);
}
void peek_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kPeek}, 2);
}
void refund_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kRefund}, 2);
}
void reset_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kReset}, 2);
}

void charge_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kCharge}, 2);
}
void take_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kTakeAtMost}, 2);
}
void reserve_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kReserve}, 2);
}
void settle_limit(CommandHandler& handler, const Call& call) {
  decide_limit(handler, call, {Verb::kCharge, true}, 2);
}

}  // namespace sluice::server::resp::commands
