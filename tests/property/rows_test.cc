// Budgets in a row next to a limit that counts reports. Whatever calls are repeated, while keys of
// the row are blocked for some time, and budgets leave the row and come back, the balances are
// those without the repetitions.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rules/rule_changes.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"
#include "sluice/permit_id.h"
#include "sluice/rule_decider.h"
#include "sluice/testing/manual_clock.h"
#include "tests/property/generate.h"
#include "tests/support/random_cases.h"

namespace sluice::rows_test {
namespace {

using namespace std::chrono_literals;

const std::array<std::string, 3> kLater = {"credits", "reserve", "spare"};

// Rules with `month` and these budgets in a row.
RuleSet row_of(const std::vector<std::string>& later) {
  std::string text =
      "version: 1\nrules:\n  - name: r\n    limits:\n"
      "      - { name: failures, algorithm: fixed_window, limit: 2, per: 20s, cost: 1,\n"
      "          count: { on: 401 } }\n"
      "      - { name: month, key: \"{org}\", algorithm: budget, limit: 60, per: 1m";
  std::string end = " }\n";
  for (const std::string& name : later) {
    text += ", overflow: { name: " + name + ", key: \"{org}\", limit: 300, per: never";
    end.insert(0, " }");
  }
  return RuleSet::parse(text + end, "f").value();
}

struct Call {
  Verb verb = Verb::kTake;
  std::string id = {};
  std::uint64_t units = 0;
};

// A store, and what decides by it.
class World {
 public:
  World(const Clock& clock, const Overrides& overrides)
      : store_({.shards = 1}, clock), decider_(limiter_, {.overrides = &overrides}) {}

  Decision ask(const RuleSet& rules, const Call& call) {
    const PermitId id = PermitId::named(call.id);
    RequestCosts costs(call.units);
    costs.id = &id;
    return decider_.decide(rules, org_, costs, {}, {call.verb, 1min}).decision;
  }
  void report(const RuleSet& rules) {
    decider_.report(rules, org_, Attributes{{"status", "401"}}, 1, {});
  }
  std::string balance(const std::map<std::string, std::string>& keys) {
    std::string text;
    for (const auto& [name, key] : keys) {
      Charge charge{key, budget(60).per(name == "month" ? Duration{1min} : kNeverEnds), 0};
      charge.rule.keyspace = Keyspace::kRules;
      const Decision left = store_.apply_one(Verb::kPeek, charge, {});
      text += name + " " + std::to_string(left.spent) + " " + std::to_string(left.held) + "; ";
    }
    return text;
  }

 private:
  const Attributes org_{{"org", "a"}};
  MemoryStore store_;
  Limiter limiter_{store_};
  RuleDecider decider_;
};

class RowHistory {
 public:
  explicit RowHistory(std::uint64_t seed) : dice_(seed) {
    for (const std::string& name : kLater) add_key(name);
    add_key("month");
    change_rules();
  }

  void step() {
    clock_.advance(std::chrono::seconds(dice_.below(12)));
    if (dice_.chance(15)) override_one();
    if (dice_.chance(10)) change_rules();
    if (dice_.chance(10)) {
      once_.report(rules_);
      again_.report(rules_);
    }
    const Call call = random_call();
    const bool is_allowed = once_.ask(rules_, call).allowed();
    EXPECT_EQ(again_.ask(rules_, call).allowed(), is_allowed) << call.id;
    if (is_allowed) done_.push_back(call);
    while (!done_.empty() && dice_.chance(60)) repeat(done_[dice_.below(done_.size())]);
    EXPECT_EQ(again_.balance(keys_), once_.balance(keys_));
  }
  std::size_t repeated() const noexcept { return repeated_; }

 private:
  void add_key(const std::string& name) {
    const Override blocked{.kind = Override::Kind::kBlocked};
    keys_[name] = name_override(row_of({kLater.begin(), kLater.end()}), "r", name,
                                Attributes{{"org", "a"}}, blocked)
                      .value();
  }
  void override_one() {
    const std::string name = dice_.any_of({kLater[0], kLater[1], kLater[2], std::string("month")});
    overrides_.unset(keys_[name]);
    if (dice_.chance(40)) return;
    EXPECT_TRUE(overrides_.set(keys_[name], {.kind = Override::Kind::kBlocked}));
  }
  void change_rules() {
    std::vector<std::string> later;
    for (const std::string& name : kLater) {
      if (dice_.chance(60)) later.push_back(name);
    }
    rules_ = rules::keep_removed(rules_, row_of(later), clock_.now());
  }
  Call random_call() {
    const std::uint64_t units = dice_.below(40);
    if (ids_ == 0 || dice_.chance(60)) {
      const Verb verb = dice_.any_of({Verb::kHold, Verb::kHold, Verb::kTake, Verb::kCharge});
      return {verb, std::to_string(ids_++), units};
    }
    return {dice_.chance(70) ? Verb::kSettle : Verb::kCancel, std::to_string(dice_.below(ids_)),
            units};
  }
  // A hold is never in conflict with what has become of it.
  void repeat(const Call& call) {
    const Decision said = again_.ask(rules_, call);
    repeated_ += said.repeated ? 1 : 0;
    if (call.verb == Verb::kHold) {
      EXPECT_NE(said.reason, Reason::kConflict);
    }
    EXPECT_NE(said.reason, Reason::kInvalid);
  }

  sluice_property::Dice dice_;
  testing::ManualClock clock_;
  Overrides overrides_;
  World once_{clock_, overrides_}, again_{clock_, overrides_};
  RuleSet rules_ = row_of({kLater.begin(), kLater.end()});
  std::map<std::string, std::string> keys_;  // by the name of a limit
  std::vector<Call> done_;                   // that were allowed
  std::uint64_t ids_ = 0;
  std::size_t repeated_ = 0;
};

TEST(Rows, HaveTheBalanceWithoutTheRepetitions) {
  constexpr int kSteps = 60;
  const std::uint64_t histories = testing::random_cases(60, 5'000);
  std::size_t repeated = 0;
  for (std::uint64_t seed = 0; seed < histories; ++seed) {
    RowHistory history(seed);
    for (int i = 0; i < kSteps; ++i) {
      history.step();
      ASSERT_FALSE(::testing::Test::HasFailure()) << "at step " << i << " of seed " << seed;
    }
    repeated += history.repeated();
  }
  EXPECT_GT(repeated, 10 * histories);
}

}  // namespace
}  // namespace sluice::rows_test
