#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "sluice/rule_answer.h"

namespace sluice {

// An answer that a test puts together.
class TestAnswer {
 public:
  Rule& rule(std::string name) {
    rules_.push_back({.name = std::move(name), .limits = {}, .reject = {}});
    if (answer.rule == nullptr) answer.rule = &rules_.back();
    return rules_.back();
  }
  // Of the newest rule. An answer that is denied denies the request.
  void limit(std::string name, const Limit& limit, const Decision& decision) {
    limits_.push_back({.name = std::move(name), .key = {}, .limit = limit});
    answer.limits.push_back({&rules_.back(), &limits_.back(), {}, {}, decision});
    answer.limits.back().numbers = limit;
    if (!decision.allowed() && rules_.back().mode == RuleMode::kEnforce) {
      answer.decision = decision;
      answer.rule = &rules_.back();
    }
  }

  RuleAnswer answer;

 private:
  std::deque<Rule> rules_;
  std::deque<RuleLimit> limits_;
};

inline Decision allowed(std::uint32_t remaining, Duration reset) {
  return {.remaining = remaining, .reset_after = reset};
}
inline Decision denied(std::uint32_t remaining, Duration reset, std::optional<Duration> retry,
                       Reason reason = Reason::kLimited) {
  return {.outcome = Outcome::kDenied,
          .reason = reason,
          .remaining = remaining,
          .reset_after = reset,
          .retry_after = retry};
}

}  // namespace sluice
