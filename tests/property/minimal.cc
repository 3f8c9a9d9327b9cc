#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/property/generate.h"
#include "tests/property/history.h"

namespace sluice_property {
namespace {

// Returns whether no clock goes back before an instant at which a counter was forgotten. Otherwise
// the answer is up to the store.
bool is_defined(const History& history) {
  sluice_oracle::Oracle oracle;
  std::int64_t latest = 0;
  for (const Step& step : history) {
    if (step.at_us < latest && step.at_us < oracle.last_forgotten(latest)) return false;
    if (step.at_us <= kLastTick) latest = std::max(latest, step.at_us);
    oracle.apply(oracle_action(step), step.charges, step.at_us);
  }
  return true;
}

// Simplifies a history change by change, and keeps each change after which the answers still
// differ.
class Minimizer {
 public:
  Minimizer(History history, const StoreMaker& make_store)
      : history_(std::move(history)), make_store_(make_store) {}

  History run() {
    for (bool better = true; better && tries_left_ > 0;) {
      better = drop_steps();
      better = drop_charges() || better;
      better = lower_costs() || better;
      better = advance_instants() || better;
    }
    return history_;
  }

 private:
  bool adopt(History candidate) {
    if (tries_left_ == 0) return false;
    --tries_left_;
    if (!is_defined(candidate)) return false;
    if (!first_disagreement(candidate, oracle_answers(candidate), make_store_)) return false;
    history_ = std::move(candidate);
    return true;
  }

  bool drop_steps() {
    bool better = false;
    for (std::size_t i = history_.size(); i-- > 0 && history_.size() > 1;) {
      History candidate = history_;
      candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(i));
      better = adopt(std::move(candidate)) || better;
    }
    return better;
  }

  bool drop_charges() {
    bool better = false;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      for (std::size_t j = history_[i].charges.size(); j-- > 0 && history_[i].charges.size() > 1;) {
        History candidate = history_;
        candidate[i].charges.erase(candidate[i].charges.begin() + static_cast<std::ptrdiff_t>(j));
        better = adopt(std::move(candidate)) || better;
      }
    }
    return better;
  }

  bool lower_costs() {
    bool better = false;
    for (std::size_t i = 0; i < history_.size(); ++i) {
      for (std::size_t j = 0; j < history_[i].charges.size(); ++j) {
        better = lower_cost(i, j) || better;
      }
    }
    return better;
  }

  bool lower_cost(std::size_t step, std::size_t charge) {
    const std::uint64_t cost = history_[step].charges[charge].cost;
    const std::uint64_t a_little = cost > 16 ? cost / 16 : 1;
    for (const std::uint64_t lower : {std::uint64_t{1}, cost / 2, cost - a_little}) {
      if (lower == 0 || lower >= cost) continue;
      History candidate = history_;
      candidate[step].charges[charge].cost = lower;
      if (adopt(std::move(candidate))) return true;
    }
    return false;
  }

  // Moves each step, and all steps after it, closer to the step before.
  bool advance_instants() {
    bool better = false;
    for (std::size_t i = 0; i < history_.size(); ++i) better = advance_from(i) || better;
    return better;
  }

  bool advance_from(std::size_t step) {
    const std::int64_t before = step == 0 ? 0 : history_[step - 1].at_us;
    const std::int64_t gap = history_[step].at_us - before;
    for (const std::int64_t less : {gap, gap / 2, gap % 1000000, gap % 1000}) {
      if (less <= 0) continue;
      History candidate = history_;
      for (std::size_t j = step; j < candidate.size(); ++j) candidate[j].at_us -= less;
      if (adopt(std::move(candidate))) return true;
    }
    return false;
  }

  History history_;
  const StoreMaker& make_store_;
  int tries_left_ = 1500;
};

}  // namespace

History minimal(History history, const StoreMaker& make_store) {
  const auto parts = first_disagreement(history, oracle_answers(history), make_store);
  if (parts) history.resize(parts->step + 1);
  return Minimizer(std::move(history), make_store).run();
}

}  // namespace sluice_property
