#include <string>
#include <vector>

#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "server/decide/trial.h"
#include "sluice/limit.h"
#include "sluice/rule_decider.h"

namespace sluice::server::pages {
// A look takes nothing; `consume=N` takes N times.
void try_request(const Call& call) {
  const std::uint64_t count = call.number("consume", 0);
  const std::uint64_t cost = call.number("cost", 1);
  const auto lines = lines_of(call.request.body);
  const auto request = WrittenRequest::read({lines.begin(), lines.end()});
  if (!request) return answer(call, 400, request.error());
  const ActiveRules active = call.admin.rules.active();
  std::string text = explain_unread(active.rules, *request);
  text += "rules version " + std::to_string(active.version) + "\n";
  text += explain_rules(active.rules, *request);
  RuleDecider decider(call.admin.limiter,
                      {.local = call.admin.local, .overrides = call.overrides()});
  decider.refuse_permits(count > 0);  // nobody would release them
  const Action action = count > 0 ? Verb::kTake : Verb::kPeek;
  for (std::uint64_t i = 1; i <= std::max<std::uint64_t>(count, 1); ++i) {
    const RuleAnswer& decided = decider.decide(active.rules, *request, {cost}, {}, action);
    if (i == 1) text += explain_limits(active.rules, *request, decided, call.overrides()) + "\n";
    text += count > 0 ? std::to_string(i) + "  " : "would be ";
    text += explain_decision(decided);
    if (i >= count) text += "\n" + explain_response(decided, SystemClock::instance());
  }
  if (count > 0) call.done("requests tried: " + std::to_string(count) + " taken");
  call.response.text = text;
  call.response.answer_text(200, "text/plain; charset=utf-8");
}

}  // namespace sluice::server::pages
