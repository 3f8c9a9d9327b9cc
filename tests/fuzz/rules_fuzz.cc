#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/attributes.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace {

// Every error has a position and a text; every set that loads can decide.
void check(std::string_view text) {
  const auto rules = sluice::RuleSet::parse(text, "f");
  if (!rules) {
    if (rules.error().empty()) std::abort();
    for (const sluice::RuleError& error : rules.error()) {
      if (error.line < 1 || error.column < 1 || error.what.empty()) std::abort();
      if (static_cast<std::size_t>(error.line) > text.size() + 1) std::abort();
    }
    return;
  }
  for (const sluice::Rule& rule : rules->rules()) {
    if (rule.limits.empty() || rules->find(rule.name) != &rule) std::abort();
  }
  class Admitting final : public sluice::Store {
    sluice::Decision apply(sluice::Action, std::span<const sluice::Charge>,
                           std::optional<sluice::Instant>,
                           std::span<sluice::Decision>) noexcept override {
      return {};
    }
  } store;
  sluice::Limiter limiter(store);
  sluice::RuleDecider request(limiter);
  const sluice::Attributes attributes{{"path", "/a/b/c"}, {"ip", "2001:db8::1"}, {"method", "GET"}};
  const sluice::LimitCost cost{"tokens", 5};
  (void)request.decide(*rules, attributes, {2, {&cost, 1}});
  const sluice::RuleAnswer& answer = request.decide(*rules, attributes);
  for (const sluice::LimitAnswer& limit : answer.limits) {
    const bool refused = limit.decision.reason == sluice::Reason::kMissing ||
                         limit.decision.reason == sluice::Reason::kInvalid;
    if (!refused && limit.counter.empty()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check({reinterpret_cast<const char*>(data), size});
  return 0;
}
