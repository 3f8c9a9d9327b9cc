#include "tests/oracle/oracle.h"

#include <algorithm>
#include <functional>

#include "tests/oracle/debt.h"

namespace sluice_oracle {
namespace {

constexpr std::size_t kMostCharges = 64;
constexpr std::size_t kLongestId = 128;
constexpr std::int64_t kShortestTtl = 1000000;
constexpr std::int64_t kLongestTtl = 86400 * kShortestTtl;
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

// Returns the time from `from` until `holds` is true. Once true, `holds` stays true. kForever if it
// does not become true, as with the units of a budget that does not renew.
std::int64_t first_wait(std::int64_t from, const std::function<bool(std::int64_t)>& holds) {
  if (holds(from)) return 0;
  std::int64_t no = 0;
  std::int64_t yes = 1;
  while (!holds(from + yes)) {
    no = yes;
    yes *= 2;
    if (yes > 2 * kLongestWait) return kForever;
  }
  while (yes - no > 1) {
    const std::int64_t middle = no + (yes - no) / 2;
    (holds(from + middle) ? yes : no) = middle;
  }
  return yes;
}

bool is_untouched(const Counter& counter, std::int64_t instant) {
  return consumed(counter, instant) == 0;
}

std::int64_t wait_until_untouched(const Counter& counter, std::int64_t instant) {
  return first_wait(instant, [&](std::int64_t later) { return is_untouched(counter, later); });
}

// The admission test.
bool admits(const Counter& counter, std::int64_t instant, const Integer& cost) {
  return cost == 0 || consumed(counter, instant) + cost <= capacity(counter.spec);
}

// Returns the most units that would be admitted.
std::uint64_t remaining(const Counter& counter, std::int64_t instant) {
  const Rational free = capacity(counter.spec) - consumed(counter, instant);
  return free < 0 ? 0 : static_cast<std::uint64_t>(round_down(free));
}

bool is_valid_request(const std::vector<Charge>& charges, std::int64_t at_us) {
  if (charges.empty() || charges.size() > kMostCharges) return false;
  if (at_us < 0 || at_us >= kLongestWait) return false;
  for (const Charge& a : charges) {
    for (const Charge& b : charges) {
      const bool one_counter = a.key == b.key && a.spec.algorithm == b.spec.algorithm;
      if (one_counter && !same_limit(a.spec, b.spec)) return false;
    }
  }
  return true;
}

Answer combine(std::vector<LimitAnswer> limits) {
  Answer answer;
  bool is_endless = false;  // one of the limits denies for ever
  for (const LimitAnswer& limit : limits) {
    answer.allowed = answer.allowed && !limit.denied;
    is_endless = is_endless || (limit.denied && !limit.retry_after_us);
    answer.retry_after_us = std::max(answer.retry_after_us, limit.retry_after_us);
    answer.delay_us = std::max(answer.delay_us, limit.delay_us);
    answer.repeated = answer.repeated || limit.repeated;
    answer.late = answer.late || limit.late;
    if (limit.ends_after_us == 0) continue;
    const bool is_first = answer.ends_after_us == 0 || limit.ends_after_us < answer.ends_after_us;
    if (is_first) answer.ends_after_us = limit.ends_after_us;
  }
  if (is_endless) answer.retry_after_us.reset();
  for (const char* const reason :
       {"over", "too_many_holds", "limited", "gone", "conflict", "never"}) {
    for (const LimitAnswer& limit : limits) {
      if (limit.reason == reason) answer.reason = reason;
    }
  }
  answer.limits = std::move(limits);
  return answer;
}

bool is_in_row(const std::vector<Charge>& charges, std::size_t i) {
  return (i > 0 && charges[i].alternative) ||
         (i + 1 < charges.size() && charges[i + 1].alternative);
}

bool has_rows(const std::vector<Charge>& charges) {
  return std::any_of(charges.begin() + 1, charges.end(),
                     [](const Charge& charge) { return charge.alternative; });
}

// Only budgets are in a row, each in one row.
bool are_valid_rows(const std::vector<Charge>& charges) {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (!is_in_row(charges, i)) continue;
    if (!is_budget(charges[i].spec)) return false;
    const auto uses = std::count_if(charges.begin(), charges.end(), [&](const Charge& other) {
      return other.key == charges[i].key && is_budget(other.spec);
    });
    if (uses > 1) return false;
  }
  return true;
}

// Returns the charges with each row once: it has the costs of all times it is asked. `places` has
// the index of each charge in the result.
std::vector<Charge> without_repeated_rows(const std::vector<Charge>& charges,
                                          std::vector<std::size_t>& places) {
  std::vector<std::vector<Charge>> rows;
  std::vector<std::size_t> firsts;  // of each row in the result
  std::vector<Charge> all;
  for (std::size_t i = 0, end = 0; i < charges.size(); i = end) {
    for (end = i + 1; end < charges.size() && charges[end].alternative; ++end) continue;
    const std::vector<Charge> row(charges.begin() + i, charges.begin() + end);
    const auto is_same = [&](const std::vector<Charge>& other) {
      return row.size() > 1 && std::equal(row.begin(), row.end(), other.begin(), other.end(),
                                          [](const Charge& a, const Charge& b) {
                                            return a.key == b.key && is_budget(a.spec) &&
                                                   is_budget(b.spec);
                                          });
    };
    const auto found = std::find_if(rows.begin(), rows.end(), is_same);
    const std::size_t first =
        found == rows.end() ? all.size() : firsts[static_cast<std::size_t>(found - rows.begin())];
    if (found == rows.end()) {
      all.insert(all.end(), row.begin(), row.end());
      rows.push_back(row);
      firsts.push_back(first);
    }
    for (std::size_t k = 0; k < row.size(); ++k) {
      places.push_back(first + k);
      std::uint64_t& cost = all[first + k].cost;
      if (found == rows.end()) continue;
      if (__builtin_add_overflow(cost, row[k].cost, &cost)) cost = ~std::uint64_t{0};
    }
  }
  return all;
}

bool asks_for_units(Verb verb) {
  return verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kReserve ||
         verb == Verb::kHold;
}

bool is_by_id(const Action& action) {
  return action.id || action.verb == Verb::kHold || action.verb == Verb::kSettle ||
         action.verb == Verb::kCancel || action.verb == Verb::kExtend;
}

bool is_valid_call(const Action& action, const std::vector<Charge>& charges) {
  if (!action.id || action.id->empty() || action.id->size() > kLongestId) return false;
  if (action.verb == Verb::kReset || action.verb == Verb::kRefund || action.verb == Verb::kPeek ||
      action.verb == Verb::kCharge || action.verb == Verb::kTakeAtMost ||
      action.verb == Verb::kReserve) {
    return false;
  }
  const bool has_ttl = action.verb == Verb::kHold || action.verb == Verb::kExtend;
  if (has_ttl && (action.ttl_us < kShortestTtl || action.ttl_us > kLongestTtl)) return false;
  if (action.verb == Verb::kTake || action.verb == Verb::kHold) return true;
  return std::all_of(charges.begin(), charges.end(),
                     [](const Charge& charge) { return is_budget(charge.spec); });
}

IdAnswer change_id(Verb verb, Counter& counter, std::int64_t instant, const IdCall& call) {
  if (verb == Verb::kSettle) return settle(counter, instant, call);
  if (verb == Verb::kCancel) return cancel(counter, instant, call);
  return extend(counter, instant, call);
}

}  // namespace

// Returns the counter as this request reads it. A forgotten counter reads as a fresh one.
Oracle::Share Oracle::find(const Charge& charge, std::int64_t at_us) const {
  Share share{.spec = charge.spec, .instant = at_us, .before = fresh_counter(charge.spec, at_us)};
  const auto found = counters_.find({charge.key, charge.spec.algorithm});
  if (found != counters_.end() && (charge.spec.limit > 0 || is_budget(charge.spec))) {
    const Kept& kept = found->second;
    if (at_us < kept.forgotten_from) {
      share.instant = std::max(at_us, kept.counter.last_change);
      share.before = read_under(kept.counter, charge.spec);
      share.forgotten_from = kept.forgotten_from;
    }
  }
  share.after = share.before;
  return share;
}

// A counter is forgotten at the first multiple of 2^20 µs at which its own limit finds it
// untouched. It is never forgotten if that is one of the last two multiples before 2^52.
void Oracle::keep(const Name& name, const Counter& counter) {
  const std::int64_t changed = counter.last_change;
  const std::int64_t wait = first_wait(changed, [&](std::int64_t later) {
    return is_untouched(counter, later) && !may_count_holds(counter, changed, later) &&
           !may_know_ids(counter, changed, later);
  });
  const std::int64_t untouched = changed + std::min(wait, kLongestWait);
  const std::int64_t grid = std::int64_t{1} << 20;
  const std::int64_t multiple = (untouched + grid - 1) / grid * grid;
  const std::int64_t forgotten_from = multiple >= kLongestWait - 2 * grid ? kNever : multiple;
  counters_.insert_or_assign(name, Kept{counter, forgotten_from});
}

// Decides whether the share's cost fits, and if not, when it will. A hold in a budget also needs
// that not too many are open.
void Oracle::decide(Share& share, bool is_hold) {
  const auto has_room = [&](std::int64_t later) {
    return !is_hold || !is_budget(share.spec) || has_room_for_hold(share.before, later);
  };
  const bool fits = admits(share.before, share.instant, share.cost);
  if (fits && has_room(share.instant)) return;
  share.answer.denied = true;
  if (share.cost > capacity(share.spec)) {
    share.answer.reason = "never";
    return;
  }
  share.answer.reason = fits ? "too_many_holds" : "limited";
  const std::int64_t wait = first_wait(share.instant, [&](std::int64_t later) {
    return later >= share.forgotten_from ||
           (admits(share.before, later, share.cost) && has_room(later));
  });
  if (wait == kForever) share.answer.reason = "never";
  if (wait != kForever) share.answer.retry_after_us = wait;
}

// Decides whether a take of the share's cost would be admitted within `max_wait_us`.
void Oracle::decide_reservation(Share& share, std::int64_t max_wait_us) {
  decide(share);
  if (!is_bucket(share.spec.algorithm) || share.answer.reason == "never") return;
  const std::int64_t wait = share.answer.retry_after_us.value_or(0);
  const std::int64_t until_room = first_wait(share.instant, [&](std::int64_t later) {
    return share.cost == 0 || later >= share.forgotten_from ||
           stored(share.before, later) + share.cost <= most_stored(share.spec);
  });
  const std::int64_t retry = std::max(wait - max_wait_us, until_room);
  share.answer = {};
  if (retry <= 0) {
    share.wait = wait;
    return;
  }
  share.answer.denied = true;
  share.answer.reason = "limited";
  share.answer.retry_after_us = retry;
}

// Changes the share's counter by a request that is allowed. A peek changes only the answer.
void Oracle::change(Verb verb, const Name& name, Share& share) {
  if (verb == Verb::kReset) {
    counters_.erase(name);
    share.after = fresh_counter(share.spec, share.instant);
    share.forgotten_from = kNever;
    return;
  }
  if (share.cost == 0 || (share.spec.limit == 0 && !is_budget(share.spec))) return;
  if (verb == Verb::kRefund) {
    if (refund(share.after, share.instant, share.cost) == 0) return;
  } else if (verb == Verb::kCharge) {
    const Charged charged = charge(share.after, share.instant, share.cost);
    if (charged != Charged::kAll) share.answer.reason = "over";
    if (charged == Charged::kNone) return;
  } else {
    take(share.after, share.instant, share.cost);
    if (verb != Verb::kPeek && holds_permits(share.spec)) {
      name_newest(share.after, next_permit_);
      permits_[next_permit_].push_back(name);
    }
  }
  share.forgotten_from = kNever;
  if (verb != Verb::kPeek) keep(name, share.after);
}

// Fills in the numbers of the state after the verb. If nothing was taken, that is the state before.
void Oracle::describe(Verb verb, bool allowed, Share& share) {
  share.answer.limit = capacity(share.spec);
  share.answer.remaining = remaining(share.after, share.instant);
  if (is_budget(share.spec)) {
    const Integer spent_now = spent(share.after, share.instant);
    share.answer.spent = static_cast<std::uint64_t>(spent_now);
    share.answer.held =
        static_cast<std::uint64_t>(round_down(consumed(share.after, share.instant) - spent_now));
  }
  const std::int64_t wait = first_wait(share.instant, [&](std::int64_t later) {
    return later >= share.forgotten_from || (is_untouched(share.after, later) &&
                                             !may_count_holds(share.after, share.instant, later));
  });
  share.answer.reset_after_us = wait == kForever ? kLongestWait - share.instant : wait;
  const bool settles = allowed && share.by_id && share.by_id->settles;
  if (verb == Verb::kCharge || settles) {
    const bool is_banned = share.spec.limit == 0 && share.cost > 0 && verb == Verb::kCharge;
    const bool is_over = consumed(share.after, share.instant) > capacity(share.spec);
    const bool is_cut = share.by_id && share.by_id->is_cut;
    if (is_banned || is_over || is_cut) share.answer.reason = "over";
  }
  if (!allowed) return;
  if (verb == Verb::kReserve) share.answer.delay_us = share.wait;
  if (queues(share.spec) && (verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kReserve ||
                             verb == Verb::kHold)) {
    share.answer.delay_us = wait_until_untouched(share.before, share.instant);
  }
}

Oracle::Shares Oracle::find_all(const std::vector<Charge>& charges, std::int64_t at_us) const {
  Shares shares;
  for (const Charge& charge : charges) {
    const auto [share, is_new] = shares.try_emplace({charge.key, charge.spec.algorithm});
    if (is_new) share->second = find(charge, at_us);
    share->second.cost += charge.cost;
    share->second.charges += 1;
  }
  return shares;
}

// Takes the same number of units with every charge. If not even one would pass, answers as a take
// of one unit.
Answer Oracle::take_at_most(std::vector<Charge> charges, std::int64_t at_us) {
  std::uint64_t most = charges.front().cost;
  for (const Charge& charge : charges) most = std::min(most, charge.cost);
  const bool is_empty = most == 0;
  for (const auto& [name, share] : find_all(charges, at_us)) {
    const Integer each = remaining(share.before, share.instant) / share.charges;
    most = std::min(most, static_cast<std::uint64_t>(each));
  }
  for (Charge& charge : charges) charge.cost = is_empty || most > 0 ? most : 1;
  Answer answer = apply(Verb::kTake, charges, at_us);
  if (answer.allowed) answer.taken = most;
  return answer;
}

// Of the row that begins with this charge: the budget that knows the id, else the first that would
// admit the whole cost alone, else the first.
Oracle::Choice Oracle::choose(const Action& action, const std::vector<Charge>& charges,
                              std::size_t first, std::int64_t at_us) const {
  Choice choice{.charge = first};
  std::size_t last = first;
  while (last + 1 < charges.size() && charges[last + 1].alternative) ++last;
  if (first == last) return choice;
  for (std::size_t i = first; i <= last && action.id; ++i) {
    const Share share = find(charges[i], at_us);
    if (knows_id(share.before, share.instant, *action.id)) return {.charge = i};
  }
  if (!asks_for_units(action.verb)) return choice;
  for (std::size_t i = first; i <= last; ++i) {
    Oracle alone = *this;
    const Answer answer =
        alone.apply(action, {{charges[i].key, charges[i].spec, charges[i].cost}}, at_us);
    if (answer.allowed) return {.charge = i};
    const bool is_sooner =
        answer.retry_after_us && (!choice.wait_us || *answer.retry_after_us < *choice.wait_us);
    if (is_sooner) choice.wait_us = answer.retry_after_us;
  }
  choice.none_admits = true;
  return choice;
}

// Decides the request of the budgets that answer for their rows. The others answer a peek.
Answer Oracle::apply_in_rows(const Action& action, std::vector<Charge> charges,
                             std::int64_t at_us) {
  std::vector<std::size_t> places;
  const std::vector<Charge> once = without_repeated_rows(charges, places);
  if (once.size() < charges.size()) {
    Answer answer = apply_in_rows(action, once, at_us);
    std::vector<LimitAnswer> all;
    for (const std::size_t place : places) {
      if (!answer.limits.empty()) all.push_back(answer.limits[place]);
    }
    answer.limits = std::move(all);
    return answer;
  }
  if (!are_valid_rows(charges) || action.verb == Verb::kTakeAtMost) {
    return Answer{.allowed = false, .reason = "invalid"};
  }
  // Without an id, these are of each of the row by its own cost.
  const bool is_of_each =
      action.verb == Verb::kReset || action.verb == Verb::kRefund || action.verb == Verb::kCharge;
  std::vector<Choice> choices;
  std::vector<Charge> asked;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (i > 0 && charges[i].alternative && !is_of_each) continue;
    choices.push_back(is_of_each ? Choice{.charge = i} : choose(action, charges, i, at_us));
    asked.push_back(charges[choices.back().charge]);
    asked.back().alternative = false;
  }
  const Answer answer = apply(action, asked, at_us);
  if (answer.limits.empty()) return answer;
  std::vector<LimitAnswer> chosen = answer.limits;
  std::vector<LimitAnswer> all(charges.size());
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const Charge nothing{charges[i].key, charges[i].spec, 0};
    if (is_in_row(charges, i)) {
      Oracle alone = *this;
      all[i] = alone.apply(Verb::kPeek, {nothing}, at_us).limits.front();
    }
    all[i].passed_over = true;
  }
  for (std::size_t k = 0; k < choices.size(); ++k) {
    LimitAnswer& limit = chosen[k];
    if (choices[k].none_admits && choices[k].wait_us) {
      if (limit.reason == "never") limit.reason = "limited";
      limit.retry_after_us = choices[k].wait_us;
    }
    all[choices[k].charge] = limit;
  }
  Answer combined = sluice_oracle::combine(std::move(chosen));
  combined.permit = answer.permit;
  combined.limits = std::move(all);
  return combined;
}

Answer Oracle::apply(const Action& action, const std::vector<Charge>& charges, std::int64_t at_us) {
  if (!is_valid_request(charges, at_us)) return Answer{.allowed = false, .reason = "invalid"};
  if (has_rows(charges)) return apply_in_rows(action, charges, at_us);
  const Verb verb = action.verb;
  if (is_by_id(action)) return apply_by_id(action, charges, at_us);
  if (verb == Verb::kTakeAtMost) return take_at_most(charges, at_us);
  for (const Charge& charge : charges) {
    const bool is_work_done = verb == Verb::kCharge && holds_permits(charge.spec);
    if (is_work_done) return Answer{.allowed = false, .reason = "invalid"};
  }

  Shares shares = find_all(charges, at_us);
  bool allowed = true;
  for (auto& [name, share] : shares) {
    if (verb == Verb::kTake || verb == Verb::kPeek) decide(share);
    if (verb == Verb::kReserve) decide_reservation(share, action.max_wait_us);
    allowed = allowed && !share.answer.denied;
  }
  for (auto& [name, share] : shares) {
    if (allowed) change(verb, name, share);
    describe(verb, allowed, share);
  }
  return combine(charges, shares);
}

Answer Oracle::combine(const std::vector<Charge>& charges, const Shares& shares) {
  std::vector<LimitAnswer> limits;
  for (const Charge& charge : charges) {
    limits.push_back(shares.at({charge.key, charge.spec.algorithm}).answer);
  }
  Answer answer = sluice_oracle::combine(std::move(limits));
  if (permits_.contains(next_permit_)) answer.permit = next_permit_++;
  return answer;
}

// Admits a hold, or a take with an id, as a take in all counters that do not know the id.
bool Oracle::admit_by_id(const Action& action, Shares& shares) {
  const bool is_hold = action.verb == Verb::kHold;
  bool allowed = true;
  for (auto& [name, share] : shares) {
    if (is_budget(share.spec)) {
      const IdCall call{*action.id, share.cost, action.ttl_us};
      share.by_id = is_hold ? hold(share.before, share.instant, call)
                            : take_by_id(share.after, share.instant, call);
      if (share.by_id->denied) share.answer = {.denied = true, .reason = "conflict"};
    }
    if (!share.by_id || share.by_id->is_new) decide(share, is_hold);
    allowed = allowed && !share.answer.denied;
  }
  for (auto& [name, share] : shares) {
    if (!allowed) share.after = share.before;
    if (!allowed || (share.by_id && share.by_id->repeated)) continue;
    if (!share.by_id) {
      change(Verb::kTake, name, share);
      continue;
    }
    const IdCall call{*action.id, share.cost, action.ttl_us};
    if (share.by_id->is_new) (is_hold ? open : spend)(share.after, share.instant, call);
    share.forgotten_from = kNever;
    keep(name, share.after);
  }
  return allowed;
}

// Settles, cancels or extends a hold in all counters, or in none.
bool Oracle::change_ids(const Action& action, Shares& shares) {
  bool allowed = true;
  for (auto& [name, share] : shares) {
    share.by_id =
        change_id(action.verb, share.after, share.instant, {*action.id, share.cost, action.ttl_us});
    const char* const reason = action.verb == Verb::kExtend ? "gone" : "conflict";
    if (share.by_id->denied) share.answer = {.denied = true, .reason = reason};
    allowed = allowed && !share.by_id->denied;
  }
  for (auto& [name, share] : shares) {
    if (!allowed) share.after = share.before;
    if (!allowed || share.by_id->repeated) continue;
    share.forgotten_from = kNever;
    keep(name, share.after);
  }
  return allowed;
}

Answer Oracle::apply_by_id(const Action& action, const std::vector<Charge>& charges,
                           std::int64_t at_us) {
  if (!is_valid_call(action, charges)) return Answer{.allowed = false, .reason = "invalid"};
  Shares shares = find_all(charges, at_us);
  const bool admits = action.verb == Verb::kTake || action.verb == Verb::kHold;
  const bool allowed = admits ? admit_by_id(action, shares) : change_ids(action, shares);
  for (auto& [name, share] : shares) {
    describe(action.verb, allowed, share);
    if (!allowed || !share.by_id) continue;
    if (share.by_id->settles && share.answer.reason == "over") {
      note_over(share.after, *action.id);
      keep(name, share.after);
    } else if (share.by_id->repeated && share.by_id->was_over) {
      share.answer.reason = "over";
    }
    share.answer.repeated = share.by_id->repeated;
    share.answer.late = share.by_id->late;
    share.answer.ends_after_us = std::max<std::int64_t>(share.by_id->end - share.instant, 0);
  }
  return combine(charges, shares);
}

// Changes each counter of a permit in which the permit is live. Returns in how many it is.
std::size_t Oracle::change_permit(std::uint64_t permit, std::int64_t at_us, ChangePermit function) {
  std::size_t changed = 0;
  for (const Name& name : permits_[permit]) {
    const auto found = counters_.find(name);
    if (found == counters_.end() || at_us >= found->second.forgotten_from) continue;
    Counter counter = found->second.counter;
    if (!function(counter, std::max(at_us, counter.last_change), permit)) continue;
    keep(name, counter);
    ++changed;
  }
  return changed;
}

Answer Oracle::release(std::uint64_t permit, std::int64_t at_us) {
  if (change_permit(permit, at_us, sluice_oracle::release) > 0) return {};
  return {.allowed = false, .reason = "gone"};
}

Answer Oracle::extend(std::uint64_t permit, std::int64_t at_us) {
  const std::map<Name, Kept> before = counters_;
  const std::size_t changed = change_permit(permit, at_us, sluice_oracle::extend);
  if (changed > 0 && changed == permits_[permit].size()) return {};
  counters_ = before;
  return {.allowed = false, .reason = "gone"};
}

std::int64_t Oracle::last_forgotten(std::int64_t seen_us) const {
  std::int64_t latest = 0;
  for (const auto& [name, kept] : counters_) {
    if (kept.forgotten_from <= seen_us) latest = std::max(latest, kept.forgotten_from);
  }
  return latest;
}

}  // namespace sluice_oracle
