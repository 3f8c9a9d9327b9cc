#include "metrics/activity.h"

#include <algorithm>

#include "metrics/counts.h"

namespace sluice::metrics {
namespace {

void add_cells(Activity& to, Activity::Requests& of, const Tally& tally) noexcept {
  for (std::size_t i = 0; i < kReasons; ++i) {
    const std::uint64_t allowed = tally.cells[i].get();
    const std::uint64_t denied = tally.cells[kReasons + i].get();
    of.allowed += allowed;
    of.denied += denied;
    to.reasons[i] += allowed + denied;
  }
  of.would_deny += tally.cells[kShadowCell].get();
}

}  // namespace

void RuleCounts::add_to(Activity& to) const noexcept {
  for (std::size_t i = 0; i < to.rules.size(); ++i) add_cells(to, to.rules[i], requests_[i]);
  for (std::size_t i = 0; i < to.would_deny.size(); ++i) {
    to.would_deny[i] += limits_[i].cells[kShadowCell].get();
  }
}

void add_recorder(Activity& to, const Recorder::State& recorder, const RuleSet& rules) noexcept {
  static_assert(std::tuple_size_v<decltype(to.reasons)> == kReasons);
  if (recorder.rules->id() == rules.rules().data()) recorder.rules->add_to(to);
  for (std::size_t i = 0; i < kFrontEnds; ++i) {
    for (std::size_t k = 0; k < to.durations[i].size(); ++k) {
      to.durations[i][k] += recorder.durations[i].buckets[k].get();
    }
  }
}

Activity empty_activity(const RuleSet& rules) {
  Activity all;
  std::size_t limits = 0;
  for (const Rule& rule : rules.rules()) limits += rule.limits.size();
  all.rules.resize(rules.rules().size() + 1);
  all.would_deny.resize(limits);
  return all;
}

void add_would_deny(Activity& to, const RuleSet& rules) noexcept {
  std::size_t limit = 0;
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    std::uint64_t most = 0;
    for (std::size_t j = 0; j < rules.rules()[i].limits.size(); ++j) {
      most = std::max(most, to.would_deny[limit++]);
    }
    to.rules[i].would_deny += most;
  }
}

}  // namespace sluice::metrics
