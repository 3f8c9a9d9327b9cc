// Budgets: the cost of a call is held before it and settled after it, under an id, exactly once.
#include <sluice/sluice.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

using namespace std::chrono_literals;

struct Answer {
  bool came;
  std::uint64_t cost;  // what the call really cost
};

Answer call_model(std::string_view id) {
  if (id == "call-2") return {false, 0};
  return {true, 512};
}

// [start call]
// Micro-dollars: a team has half a dollar a month, and each of its agents two cents in total.
const sluice::Limit kTeam = sluice::budget(500'000).per(sluice::calendar_month("Europe/Berlin"));
constexpr sluice::Limit kAgent = sluice::budget(20'000).never().releasing_unsettled();

void call(sluice::Limiter& limiter, std::string_view id, std::uint64_t estimate) {
  const std::array charges{sluice::Charge{"team:search", kTeam, estimate},
                           sluice::Charge{"agent:crawler", kAgent, estimate}};
  sluice::Hold hold = limiter.hold(id, charges, 2min);  // both budgets, or none
  if (!hold) {
    std::printf("%.*s: the budget is used up\n", int(id.size()), id.data());
    return;
  }
  const Answer answer = call_model(id);
  // If the process dies before this, the team pays the estimate after two minutes, and the agent
  // nothing.
  const sluice::Decision end = answer.came ? hold.settle(answer.cost) : hold.cancel();
  std::printf("%.*s: %lu left%s\n", int(id.size()), id.data(), end.remaining,
              end.repeated ? ", was settled before" : "");
}
// [end call]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  call(limiter, "call-1", 7'500);
  call(limiter, "call-1", 7'500);   // repeated, as after a lost answer: it counts once
  call(limiter, "call-2", 7'500);   // the model fails: it costs nothing
  call(limiter, "call-3", 25'000);  // more than the agent has
}
