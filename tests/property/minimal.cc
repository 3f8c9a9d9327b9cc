#include <cstddef>
#include <cstdint>
#include <utility>

#include "tests/property/history.h"

namespace sluice_property {
namespace {

bool still_parts(const History& history, const StoreMaker& make_store) {
  return first_disagreement(history, oracle_answers(history), make_store).has_value();
}

// Replaces `history` by `candidate` if they part on that, too.
bool adopt(History& history, History candidate, const StoreMaker& make_store) {
  if (!still_parts(candidate, make_store)) return false;
  history = std::move(candidate);
  return true;
}

bool drop_steps(History& history, const StoreMaker& make_store) {
  bool better = false;
  for (std::size_t i = history.size(); i-- > 0;) {
    if (history.size() == 1) break;
    History candidate = history;
    candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(i));
    better = adopt(history, std::move(candidate), make_store) || better;
  }
  return better;
}

bool drop_charges(History& history, const StoreMaker& make_store) {
  bool better = false;
  for (std::size_t i = 0; i < history.size(); ++i) {
    for (std::size_t j = history[i].charges.size(); j-- > 0;) {
      if (history[i].charges.size() == 1) break;
      History candidate = history;
      candidate[i].charges.erase(candidate[i].charges.begin() + static_cast<std::ptrdiff_t>(j));
      better = adopt(history, std::move(candidate), make_store) || better;
    }
  }
  return better;
}

bool lower_costs(History& history, const StoreMaker& make_store) {
  bool better = false;
  for (std::size_t i = 0; i < history.size(); ++i) {
    for (std::size_t j = 0; j < history[i].charges.size(); ++j) {
      const std::uint64_t cost = history[i].charges[j].cost;
      for (const std::uint64_t lower : {std::uint64_t{1}, cost / 2, cost - 1}) {
        if (lower == 0 || lower >= cost) continue;
        History candidate = history;
        candidate[i].charges[j].cost = lower;
        if (adopt(history, std::move(candidate), make_store)) {
          better = true;
          break;
        }
      }
    }
  }
  return better;
}

// Brings the whole history nearer to the epoch, then each step nearer to the one before it.
bool advance_instants(History& history, const StoreMaker& make_store) {
  bool better = false;
  for (std::size_t i = 0; i < history.size(); ++i) {
    const std::int64_t before = i == 0 ? 0 : history[i - 1].at_us;
    const std::int64_t gap = history[i].at_us - before;
    for (const std::int64_t less : {gap, gap / 2, gap % 1000000, gap % 1000}) {
      if (less <= 0) continue;
      History candidate = history;
      for (std::size_t j = i; j < candidate.size(); ++j) candidate[j].at_us -= less;
      if (adopt(history, std::move(candidate), make_store)) {
        better = true;
        break;
      }
    }
  }
  return better;
}

}  // namespace

History minimal(History history, const StoreMaker& make_store) {
  const auto parts = first_disagreement(history, oracle_answers(history), make_store);
  if (parts) history.resize(parts->step + 1);
  for (bool better = true; better;) {
    better = drop_steps(history, make_store);
    better = drop_charges(history, make_store) || better;
    better = lower_costs(history, make_store) || better;
    better = advance_instants(history, make_store) || better;
  }
  return history;
}

}  // namespace sluice_property
