#include "tests/property/generate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace sluice_property {
namespace {

using sluice_oracle::Algorithm;
using sluice_oracle::Spec;

constexpr std::uint64_t kMaxUnits = 4294967295u;
constexpr std::int64_t kMillisecond = 1000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kDay = 86400 * kSecond;
constexpr std::int64_t kMaxPeriod = 366 * kDay;

std::uint64_t random_limit(Dice& dice) {
  if (dice.chance(3)) return 0;
  if (dice.chance(70)) return 1 + dice.below(12);
  if (dice.chance(50)) return dice.magnitude(kMaxUnits);
  return dice.any_of<std::uint64_t>(
      {7, 97, 1009, 999983, 2000000000, 4294967291u, kMaxUnits - 1, kMaxUnits});
}

std::int64_t random_period(Dice& dice) {
  if (dice.chance(40)) {
    return dice.any_of<std::int64_t>({kMillisecond, 1009, 1013, 2 * kMillisecond, 3 * kMillisecond,
                                      7 * kMillisecond, 10 * kMillisecond});
  }
  if (dice.chance(50)) {
    return dice.any_of<std::int64_t>({kSecond, 60 * kSecond, 3600 * kSecond, kDay, 7 * kDay,
                                      365 * kDay, kMaxPeriod, kMaxPeriod - 1});
  }
  return kMillisecond +
         static_cast<std::int64_t>(dice.magnitude(static_cast<std::uint64_t>(kMaxPeriod - 1000)));
}

std::uint64_t random_burst(Dice& dice, Algorithm algorithm) {
  if (dice.chance(75)) return dice.below(20) + (algorithm == Algorithm::kGcra ? 0 : 1);
  if (dice.chance(20)) return kMaxUnits - 1;
  return 1 + dice.magnitude(kMaxUnits - 1);
}

// Rates that a rounded reciprocal would get wrong.
void set_telling_rate(Dice& dice, Spec& spec) {
  static constexpr std::array<std::pair<std::uint64_t, std::int64_t>, 10> kRates = {{
      {3, kSecond},
      {7, 60 * kSecond},
      {999983, kDay},
      {2000000000, kSecond},
      {kMaxUnits, kMillisecond},
      {kMaxUnits, kMaxPeriod},
      {1, kMaxPeriod},
      {1, kDay},
      {2003, kSecond},
      {999983, 1009},
  }};
  std::tie(spec.limit, spec.per_us) = kRates[dice.below(kRates.size())];
}

sluice_oracle::Calendar random_calendar(Dice& dice) {
  using sluice_oracle::CalendarUnit;
  sluice_oracle::Calendar calendar{
      .unit = dice.any_of(
          {CalendarUnit::kDay, CalendarUnit::kWeek, CalendarUnit::kMonth, CalendarUnit::kYear}),
      .zone = dice.any_of<const char*>({"UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin",
                                        "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo",
                                        "Asia/Kathmandu"})};
  const bool is_week = calendar.unit == CalendarUnit::kWeek;
  const bool is_year = calendar.unit == CalendarUnit::kYear;
  if (is_week) calendar.day = dice.any_of({1, 6, 7});
  if (calendar.unit == CalendarUnit::kMonth) calendar.day = dice.any_of({1, 15, 29, 30, 31});
  if (is_year) calendar.month = dice.any_of({1, 2, 4, 12});
  if (is_year) calendar.day = dice.any_of({1, 6, 29});
  return calendar;
}

// Instants shortly after which clocks change: in Apia by a day, in São Paulo at midnight, and in
// Berlin, New York and on Lord Howe Island.
constexpr std::array<std::int64_t, 6> kChangesOfClocks{1325239200, 1541300400, 1774746000,
                                                       1792890000, 1793512800, 1775314800};

void set_calendar(Spec& spec, const std::optional<sluice_oracle::Calendar>& calendar) {
  spec.calendar = calendar;
  if (!calendar) return;
  spec.align.reset();
  spec.per_us = usual_length_us(calendar->unit);
}

void set_random_options(Dice& dice, Spec& spec) {
  using namespace sluice_oracle;
  if (is_bucket(spec.algorithm) && dice.chance(50)) {
    spec.burst = random_burst(dice, spec.algorithm);
  }
  switch (spec.algorithm) {
    case Algorithm::kFixedWindow:
      if (dice.chance(60)) spec.align = dice.any_of({Align::kFirstRequest, Align::kClock});
      if (dice.chance(35)) set_calendar(spec, random_calendar(dice));
      break;
    case Algorithm::kSlidingWindowCounter:
      if (dice.chance(40)) spec.weighting = dice.any_of({Weighting::kLinear, Weighting::kNone});
      [[fallthrough]];
    case Algorithm::kSlidingWindowHybrid:
      if (dice.chance(70)) {
        spec.slices = dice.any_of<std::uint64_t>({1, 2, 3, 5, 7, 10, 60, 1 + dice.below(1000)});
      }
      break;
    case Algorithm::kLeakyBucket:
      if (dice.chance(70)) spec.mode = dice.any_of({Mode::kMeter, Mode::kQueue});
      break;
    case Algorithm::kTokenBucket:
      if (dice.chance(60)) spec.refill = dice.any_of({Refill::kContinuous, Refill::kInterval});
      break;
    default: break;
  }
}

// Generates a history step by step and asks the oracle after each step.
class Teller {
 public:
  Teller(Dice& dice, Verbs verbs)
      : dice_(dice),
        verbs_(verbs),
        is_crowded_(dice.chance(40)),
        has_debts_(verbs == Verbs::kAll && dice.chance(25)),
        now_(random_start()) {
    const std::size_t counters = is_crowded_ ? 1 : 1 + dice_.below(4);
    for (std::size_t i = 0; i < counters; ++i) {
      Spec spec = random_spec(dice_, random_algorithm(dice_));
      if (is_crowded_) spec = crowded(spec);
      slots_.push_back({dice_.any_of<const char*>({"", "a", "b", "c"}), spec, 0});
    }
  }

  void tell(ToldHistory& told) {
    Step step;
    step.verb = verbs_ == Verbs::kAll ? any_verb() : random_verb();
    if (step.verb == sluice_oracle::Verb::kReserve) step.max_wait_us = random_max_wait();
    const std::vector<std::size_t> chosen = random_slots();
    step.at_us = random_instant(slots_[chosen.front()]);
    for (const std::size_t index : chosen) step.charges.push_back(random_charge(slots_[index]));
    if (dice_.chance(98)) agree_on_specs(step);
    sluice_oracle::Answer answer = oracle_.apply(oracle_action(step), step.charges, step.at_us);
    remember(step, chosen, answer);
    told.steps.push_back(std::move(step));
    told.answers.push_back(std::move(answer));
  }

 private:
  // A counter of the history: its name, its present limit, and its last answer.
  struct Slot {
    std::string key;
    Spec spec;
    std::uint64_t remaining;
  };

  // Numbers with which many small charges consume much at one instant.
  Spec crowded(Spec spec) {
    spec.limit = has_debts_ ? 1 + dice_.below(8) : 20 + dice_.below(50);
    if (spec.burst) spec.burst = 20 + dice_.below(50);
    if (spec.slices) spec.slices = 1 + dice_.below(6);
    return is_valid(spec) ? spec : Spec{.algorithm = spec.algorithm, .limit = 20, .per_us = kDay};
  }

  std::int64_t random_start() {
    switch (dice_.below(7)) {
      case 0: return 0;
      case 1: return dice_.between(0, kDay);
      case 2: return dice_.between(0, kLastTick);
      case 3: return kLastTick - dice_.between(0, 10 * kSecond);
      case 4:
        return kChangesOfClocks[dice_.below(kChangesOfClocks.size())] * kSecond -
               dice_.between(0, kDay);
      default: return 1700000000 * kSecond + dice_.between(0, kDay);
    }
  }

  sluice_oracle::Verb random_verb() {
    using sluice_oracle::Verb;
    const std::uint64_t roll = dice_.below(100);
    if (roll < 74) return Verb::kTake;
    if (roll < 86) return Verb::kPeek;
    return roll < 97 ? Verb::kRefund : Verb::kReset;
  }

  sluice_oracle::Verb any_verb() {
    using sluice_oracle::Verb;
    if (has_debts_ && dice_.chance(60)) return Verb::kCharge;
    const std::uint64_t roll = dice_.below(100);
    if (roll < 18) return Verb::kCharge;
    if (roll < 32) return Verb::kTakeAtMost;
    return roll < 54 ? Verb::kReserve : random_verb();
  }

  std::int64_t random_max_wait() {
    const std::int64_t longest = std::int64_t{1} << 52;
    if (!waits_.empty() && dice_.chance(50)) {
      return std::max<std::int64_t>(waits_[dice_.below(waits_.size())] + dice_.between(-1, 1), 0);
    }
    return dice_.any_of<std::int64_t>(
        {0, 1, longest, longest << 10, dice_.between(0, slots_.front().spec.per_us),
         static_cast<std::int64_t>(dice_.magnitude(static_cast<std::uint64_t>(longest)))});
  }

  std::vector<std::size_t> random_slots() {
    std::size_t count = 1;
    if (dice_.chance(40)) count = 2;
    if (dice_.chance(10)) count = 1 + dice_.below(8);
    std::vector<std::size_t> chosen(count);
    for (std::size_t& index : chosen) index = dice_.below(slots_.size());
    return chosen;
  }

  sluice_oracle::Charge random_charge(Slot& slot) {
    if (dice_.chance(is_crowded_ ? 10 : 6)) slot.spec = varied(dice_, slot.spec);
    const Spec spec = dice_.chance(3) ? varied(dice_, slot.spec) : slot.spec;
    return {slot.key, spec, random_cost(slot)};
  }

  std::uint64_t random_cost(const Slot& slot) {
    const std::uint64_t capacity = sluice_oracle::capacity(slot.spec);
    if (is_crowded_ && dice_.chance(80)) return 1 + dice_.below(4);
    switch (dice_.below(12)) {
      case 0: return 0;
      case 1: return slot.remaining;
      case 2: return slot.remaining + 1;
      case 3: return capacity;
      case 4:
        return dice_.any_of({capacity + 1, capacity / 2, dice_.magnitude(kMaxUnits), kMaxUnits});
      case 5:
      case 6: return 1 + dice_.below(capacity + 1);
      default: return 1 + dice_.below(3);
    }
  }

  // Usually gives all charges on one counter the same limit, so that the request is valid.
  static void agree_on_specs(Step& step) {
    for (std::size_t i = 0; i < step.charges.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const bool one_counter = step.charges[i].key == step.charges[j].key &&
                                 step.charges[i].spec.algorithm == step.charges[j].spec.algorithm;
        if (one_counter) step.charges[i].spec = step.charges[j].spec;
      }
    }
  }

  std::int64_t random_instant(const Slot& slot) {
    if (dice_.below(1000) == 0) return dice_.any_of<std::int64_t>({-1, kLastTick + 1});
    std::int64_t at = std::clamp(now_ + random_move(slot.spec), std::int64_t{0}, kLastTick);
    // After the clock goes back, the store may answer a forgotten counter in either way.
    if (at < latest_) at = std::max(at, oracle_.last_forgotten(latest_));
    latest_ = std::max(latest_, at);
    now_ = dice_.chance(80) ? latest_ : at;
    return at;
  }

  // Returns the distance from the present.
  std::int64_t random_move(const Spec& spec) {
    const std::int64_t per = spec.per_us;
    const std::int64_t nudge = dice_.between(-1, 1);
    if (is_crowded_ && dice_.chance(80)) return dice_.between(0, per / 6);
    switch (dice_.below(12)) {
      case 0: return -dice_.between(0, dice_.any_of<std::int64_t>({3, per, 10 * per}));
      case 1: return dice_.between(0, 3);
      case 2:
        return per / static_cast<std::int64_t>(std::max<std::uint64_t>(spec.limit, 1)) + nudge;
      case 3: return per * dice_.between(1, 3) + nudge;
      case 4: return to_grid(spec) + nudge;
      case 5: return dice_.between(0, 12) * per;
      case 6:
      case 7:
        if (!waits_.empty()) return waits_[dice_.below(waits_.size())] + dice_.between(-1, 0);
        [[fallthrough]];
      case 8:
      case 9: return dice_.between(0, per / dice_.any_of<std::int64_t>({1, 3, 10, 100}));
      default: return 0;
    }
  }

  // Returns the distance to the next slice boundary of the clock.
  std::int64_t to_grid(const Spec& spec) const {
    const std::int64_t slice =
        std::max<std::int64_t>(spec.per_us / static_cast<std::int64_t>(slices(spec)), 1);
    return (now_ / slice + 1) * slice - now_;
  }

  void remember(const Step& step, const std::vector<std::size_t>& chosen,
                const sluice_oracle::Answer& answer) {
    if (answer.limits.empty()) return;
    waits_.clear();
    if (answer.retry_after_us) waits_.push_back(*answer.retry_after_us);
    if (answer.delay_us) waits_.push_back(*answer.delay_us);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const sluice_oracle::LimitAnswer& limit = answer.limits[i];
      waits_.push_back(limit.reset_after_us);
      if (limit.retry_after_us) waits_.push_back(*limit.retry_after_us);
      if (step.verb != sluice_oracle::Verb::kPeek) slots_[chosen[i]].remaining = limit.remaining;
    }
  }

  Dice& dice_;
  Verbs verbs_;
  bool is_crowded_;
  bool has_debts_;           // many charges, and a small limit if it is crowded
  std::int64_t now_;         // the instant of the previous step
  std::int64_t latest_ = 0;  // the latest instant so far
  std::vector<Slot> slots_;
  std::vector<std::int64_t> waits_;
  sluice_oracle::Oracle oracle_;
};

}  // namespace

std::uint64_t Dice::magnitude(std::uint64_t most) {
  const std::uint64_t value = engine_() >> below(64);
  return value % (most + 1);
}

Algorithm random_algorithm(Dice& dice) {
  return dice.any_of({Algorithm::kFixedWindow, Algorithm::kSlidingWindowLog,
                      Algorithm::kSlidingWindowCounter, Algorithm::kSlidingWindowHybrid,
                      Algorithm::kLeakyBucket, Algorithm::kTokenBucket, Algorithm::kGcra});
}

Spec random_spec(Dice& dice, Algorithm algorithm) {
  for (;;) {
    Spec spec{.algorithm = algorithm, .limit = random_limit(dice), .per_us = random_period(dice)};
    if (dice.chance(15)) set_telling_rate(dice, spec);
    set_random_options(dice, spec);
    if (is_valid(spec)) return spec;
  }
}

Spec varied(Dice& dice, const Spec& spec) {
  for (;;) {
    const Spec other = random_spec(dice, spec.algorithm);
    Spec out = spec;
    if (dice.chance(40)) out.limit = other.limit;
    if (dice.chance(20)) out.limit = spec.limit + dice.below(3);
    if (dice.chance(30)) out.per_us = other.per_us;
    if (dice.chance(20)) out.per_us = spec.per_us * 2;
    if (dice.chance(30)) out.burst = other.burst;
    if (dice.chance(30)) out.slices = other.slices;
    if (dice.chance(20)) out.align = other.align;
    set_calendar(out, dice.chance(20) ? other.calendar : spec.calendar);
    if (spec.algorithm == Algorithm::kSlidingWindowCounter && dice.chance(40)) {
      out.weighting =
          dice.any_of({sluice_oracle::Weighting::kLinear, sluice_oracle::Weighting::kNone});
    }
    if (dice.chance(20)) out.mode = other.mode;
    if (dice.chance(30)) out.refill = other.refill;
    if (is_valid(out)) return out;
  }
}

ToldHistory random_history(Dice& dice, std::size_t steps, Verbs verbs) {
  ToldHistory told;
  Teller teller(dice, verbs);
  for (std::size_t i = 0; i < steps; ++i) teller.tell(told);
  return told;
}

}  // namespace sluice_property
