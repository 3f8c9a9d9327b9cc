// Random requests to budgets, for the memory store, its ledger and the oracle.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <string>

#include "core/budget.h"
#include "sluice/ledger.h"
#include "sluice/memory_store.h"
#include "tests/property/arbitrary.h"
#include "tests/property/budget_history.h"

namespace sluice_property {
namespace {

RC_GTEST_PROP(Budgets, MemoryStoreAnswersAsTheOracle, ()) {
  const std::uint64_t seed = *any_seed();
  for (std::uint64_t i = 0; i < 3; ++i) {
    sluice::MemoryStore store({.max_keys = 1024, .shards = 1});
    BudgetHistory history(seed + i, store);
    std::string differs;
    for (int step = 0; step < 80 && differs.empty(); ++step) differs = history.step();
    if (!differs.empty()) RC_FAIL(differs);
  }
}

// Adds up the entries of each counter.
class Balances final : public sluice::Ledger {
 public:
  void add(const sluice::LedgerEntry& entry) noexcept override {
    using Kind = sluice::LedgerKind;
    Balance& balance = of_[std::string(entry.key)];
    if (entry.at < balance.last) wrong_ += "an instant goes back; ";
    balance.move_to(entry.at, entry.window, entry.kind);
    balance.spent += entry.spent;
    balance.held += entry.held;
    const auto is = [](std::int64_t sum, std::uint64_t after) {
      return sum == static_cast<std::int64_t>(after);
    };
    log_ += text(entry);
    if (!is(balance.spent, entry.spent_after) || !is(balance.held, entry.held_after)) {
      wrong_ = log_ + "differs from the sum: spent " + std::to_string(balance.spent) + ", held " +
               std::to_string(balance.held);
    }
    switch (entry.kind) {
      case Kind::kHold:
        if (!balance.open.emplace(*entry.hash, Open{entry.held, entry.ends, entry.on_expiry})
                 .second)
          wrong_ += "held twice; ";
        break;
      case Kind::kExtend: balance.open.at(*entry.hash).ends = entry.ends; break;
      case Kind::kSettle:
      case Kind::kCharged:
      case Kind::kReleased:
        if (balance.open.erase(*entry.hash) == 0) wrong_ += "ended twice; ";
        break;
      case Kind::kCancel: balance.open.erase(*entry.hash); break;
      case Kind::kReset: balance = {}; break;
      default: break;
    }
  }
  // What is spent and held at an instant.
  std::int64_t used(const std::string& key, sluice::Instant at, sluice::Instant window) {
    Balance balance = of_[key];
    balance.move_to(std::max(at, balance.last), window, sluice::LedgerKind::kTake);
    return balance.spent + balance.held;
  }
  sluice::Instant last(const std::string& key) { return of_[key].last; }
  const std::string& wrong() const { return wrong_; }

 private:
  struct Open {
    std::int64_t cost = 0;
    sluice::Instant ends = {};
    sluice::OnExpiry on_expiry = {};
  };
  struct Balance {
    std::int64_t spent = 0, held = 0;
    sluice::Instant last = sluice::kFirstInstant;
    std::map<sluice::IdHash, Open> open;

    // Begins a window; of a counter that was forgotten, nobody reports that its holds have ended.
    void move_to(sluice::Instant at, sluice::Instant window, sluice::LedgerKind kind) {
      if (last < window) spent = 0;
      last = at;
      const bool is_end =
          kind == sluice::LedgerKind::kCharged || kind == sluice::LedgerKind::kReleased;
      for (auto one = open.begin(); one != open.end() && !is_end;) {
        const auto next = std::next(one);
        if (one->second.ends <= at) {
          held -= one->second.cost;
          const bool charges = one->second.on_expiry == sluice::OnExpiry::kCharge;
          if (charges && one->second.ends >= window) spent += one->second.cost;
          open.erase(one);
        }
        one = next;
      }
    }
  };
  static std::string text(const sluice::LedgerEntry& entry) {
    const auto us = [](sluice::Instant at) {
      return std::to_string(at.time_since_epoch().count());
    };
    return us(entry.at) + " " +
           std::string(sluice::kLedgerKinds[static_cast<std::size_t>(entry.kind)]) + " " +
           std::string(entry.key) + " spent " + std::to_string(entry.spent) + " = " +
           std::to_string(entry.spent_after) + ", held " + std::to_string(entry.held) + " = " +
           std::to_string(entry.held_after) + ", window " + us(entry.window) + ", ends " +
           us(entry.ends) + "\n";
  }

  std::map<std::string, Balance> of_;
  std::string log_;
  std::string wrong_;
};

RC_GTEST_PROP(Budgets, TheBalanceIsTheSumOfTheLedger, ()) {
  const std::uint64_t seed = *any_seed();
  for (std::uint64_t i = 0; i < 3; ++i) {
    Balances ledger;
    sluice::MemoryStore store({.max_keys = 1024, .shards = 1, .ledger = &ledger});
    BudgetHistory history(seed + i, store, false);
    const std::string names[] = {"a", "b", "c"};
    for (int step = 0; step < 80; ++step) {
      if (const std::string differs = history.step(); !differs.empty()) RC_FAIL(differs);
      if (!ledger.wrong().empty()) RC_FAIL(ledger.wrong());
      for (std::size_t j = 0; j < history.specs().size(); ++j) {
        const sluice::Limit limit = limit_of(history.specs()[j]);
        const sluice::Instant now{sluice::Duration{history.now()}};
        const sluice::Instant at = std::max(now, ledger.last(names[j]));
        const sluice::Instant window{sluice::Duration{
            sluice::core::budget::window_start(limit, at.time_since_epoch().count())}};
        const auto used = static_cast<std::uint64_t>(ledger.used(names[j], at, window));
        const auto left = store.apply_one(sluice::Verb::kPeek, {names[j], limit, 0}, now).remaining;
        RC_ASSERT(left == (used < limit.capacity() ? limit.capacity() - used : 0));
      }
    }
  }
}

}  // namespace
}  // namespace sluice_property
