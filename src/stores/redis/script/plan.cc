// Turns the charges of a request into calls of a script, and the replies into decisions. A reply
// has the state of each counter before the change; the functions of core compute from it what the
// script has decided, and a reply with another verdict is refused.

#include "stores/redis/script/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ranges>

#include "limiter/answer.h"
#include "limiter/new_key_limit.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis {

void Counter::begin(const Charge& charge) {
  charge_ = &charge;
  cost_ = least_cost_ = charge.cost;
  gives_back_ = charge.gives_back;
  charges_ = 1;
  is_passed_over_ = false;
  permit_ = charge.permit != nullptr ? *charge.permit : PermitId();
  counts_.clear();
}

bool Counter::agrees_with(const Charge& charge) const noexcept {
  if (charge.limit != limit() || !same_block(*charge_, charge)) return false;
  if (!holds_permits(limit().algorithm())) return true;
  return (charge.permit != nullptr ? *charge.permit : PermitId()) == permit_;
}

bool Counter::is_same(const Charge& charge) const noexcept {
  return is_same_counter(*charge_, charge);
}

void Counter::add(const Charge& charge) noexcept {
  add_charge(charge, cost_, gives_back_);
  least_cost_ = std::min(least_cost_, charge.cost);
  ++charges_;
}

std::uint64_t Counter::most_for_each() const noexcept {
  return std::min(least_cost_, answer_.remaining / charges_);
}

void Counter::note_taken(std::uint64_t units) noexcept { answer_.taken = units; }

// --- arguments of a script ---

void Counter::append_argument(int number, std::uint64_t cost, std::string& out) const {
  format::kFamily.append({static_cast<std::uint64_t>(number)}, out);
  append_numbers(limit(), std::min(cost, format::kCostBeyondAll), out);
  if (!holds_permits(limit().algorithm())) return;
  for (const std::uint8_t byte : permit_.bytes()) out += static_cast<char>(byte);
}

namespace {

std::uint64_t does_with_id(Verb verb, std::uint64_t cost) noexcept {
  switch (verb) {
    case Verb::kHold: return format::kHolds;
    case Verb::kSettle:
    case Verb::kCharge: return format::kSettles;
    case Verb::kCancel: return format::kCancels;
    case Verb::kExtend: return format::kExtends;
    case Verb::kTake: return format::kTakesOnce;
    case Verb::kPeek: return cost > 0 ? format::kTakesOnce : format::kWithoutId;
    default: return format::kWithoutId;
  }
}

std::uint64_t ticks_of(Duration time) noexcept { return static_cast<std::uint64_t>(time.count()); }

}  // namespace

void Counter::append_budget(int number, Action action, std::uint64_t cost, std::string& out) const {
  cost = std::min(cost, kMaxAmount + 1);
  format::kFamily.append({static_cast<std::uint64_t>(number)}, out);
  format::kBudgetArgument.append(
      {.cost = cost % format::kAmountHigh,
       .cost_high = cost / format::kAmountHigh,
       .capacity = limit().capacity(),
       .period = limit().calendar() == nullptr ? ticks_of(limit().period()) : 0,
       .remember = ticks_of(limit().remember()),
       .holds = limit().holds(),
       .does = has_id() && !gives_back_ ? does_with_id(action.verb, cost) : format::kWithoutId,
       .releases = limit().on_expiry() == OnExpiry::kRelease ? std::uint64_t{1} : 0,
       .ttl = std::min(ticks_of(action.max_wait), ticks_of(kMaxHold))},
      out);
  const PermitId::Bytes id = permit_.bytes();
  for (std::size_t i = 0; i < format::kHoldIdSize; ++i) out += static_cast<char>(id[i]);
}

void Counter::append_budget_undo(int number, Action action, std::string& out) const {
  const std::uint64_t spent = budget_.spent;
  // A repeated call has changed nothing.
  if (!is_changed_) action = Verb::kRefund;
  append_budget(number, action, spent_after_ > spent ? spent_after_ - spent : 0, out);
  if (limit().calendar() != nullptr) append_windows(0, at_, out);
  format::kBudgetUndo.append({.kind = budget_.kind,
                              .amount = budget_.amount,
                              .rest = budget_.rest,
                              .unspent = spent > spent_after_ ? spent - spent_after_ : 0,
                              .instant = static_cast<std::uint64_t>(at_)},
                             out);
}

void Counter::append_ledger(std::size_t index, std::string_view kind, std::string& out) const {
  const auto append_sized = [&](std::string_view text) {
    if (text.size() > 0xFF) text = {};
    out += static_cast<char>(text.size());
    out += text;
  };
  out += static_cast<char>(index);
  append_sized(kind);
  append_sized(charge_->id_text);
  std::string windows;
  if (past)
    format::kBudgetWindows.append(budget_windows_of(*limit().calendar(), *past, 0), windows);
  append_sized(windows);
}

void Counter::append_end_before_extension(int number, std::string& out) const {
  // A module of an older version does not say what was left: its extension stays.
  const std::uint64_t left = permits_.wait > 0 ? permits_.wait : ticks_of(limit().period());
  format::kFamily.append({static_cast<std::uint64_t>(number)}, out);
  format::kPermitsArgument.append({.cost = 0, .capacity = limit().capacity(), .period = left}, out);
  for (const std::uint8_t byte : permit_.bytes()) out += static_cast<char>(byte);
}

void Counter::append_windows(std::size_t index, core::Ticks of, std::string& out) const {
  if (holds_amounts(limit().algorithm())) {
    format::kBudgetWindows.append(budget_windows_of(*limit().calendar(), of, index), out);
  } else {
    format::kWindows.append(windows_of(*limit().calendar(), of, index), out);
  }
}

// --- replies ---

bool Counter::read(std::string_view bytes, core::Ticks now) noexcept {
  now_ = at_ = now;
  state_ = {};
  slices_ = {{{}, now, core::SliceGrid(limit())}, {}};
  log_ = {};
  permits_ = {};
  permits_.at = static_cast<std::uint64_t>(now);
  permits_.gone = 1;
  if (limit().state_kind() == StateKind::kBudget) {
    budget_ = {};
    budget_.at = static_cast<std::uint64_t>(now);
    budget_.forgotten = format::kNeverForgotten;
  }
  is_new_ = bytes.empty();
  if (is_new_) return true;
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: {
      const auto state = read_state(limit().state_kind(), bytes);
      if (state) state_ = *state;
      return state.has_value();
    }
    case StateKind::kSlices: {
      const auto slices = read_slices(bytes, counts_);
      if (slices) slices_ = *slices;
      return slices.has_value();
    }
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return read_log(bytes);
    case StateKind::kPermits: return read_permits(bytes);
    case StateKind::kBudget: return read_budget(bytes);
  }
  return false;
}

bool Counter::read_log(std::string_view bytes) noexcept {
  if (bytes.size() != format::kLogReply.size()) return false;
  const format::LogReply reply = format::kLogReply.read(bytes);
  const auto at = static_cast<core::Ticks>(reply.at);
  log_ = {{.digest = {at, reply.units, static_cast<core::Ticks>(reply.newest)},
           .wait = static_cast<core::Ticks>(reply.wait),
           .refunded = (reply.changed & 1) != 0,
           .stored = reply.wait},
          core::Forgotten(static_cast<std::uint32_t>(reply.forgotten))};
  const bool is_live =
      reply.newest <= reply.at && reply.at - reply.newest < ticks_of(limit().period());
  return reply.at < format::kEndOfInstants && at >= now_ && (reply.units == 0 || is_live);
}

bool Counter::read_permits(std::string_view bytes) noexcept {
  if (bytes.size() != format::kPermitsReply.size()) return false;
  permits_ = format::kPermitsReply.read(bytes);
  const auto is_end = [this](std::uint64_t end) {
    return end == 0 || (end > permits_.at && end < format::kEndOfInstants * 2);
  };
  return permits_.at < format::kEndOfInstants && static_cast<core::Ticks>(permits_.at) >= now_ &&
         is_end(permits_.last_end) && is_end(permits_.last_after);
}

bool Counter::read_budget(std::string_view bytes) noexcept {
  if (bytes.size() != format::kBudgetReply.size()) return false;
  budget_ = format::kBudgetReply.read(bytes);
  return budget_.at < format::kEndOfInstants && static_cast<core::Ticks>(budget_.at) >= now_ &&
         budget_.spent <= kMaxAmount && budget_.held <= kMaxAmount && budget_.open <= kMaxHolds &&
         budget_.amount <= kMaxAmount;
}

// --- decisions ---

void Counter::decide(Action action, std::uint64_t cost) noexcept {
  const auto take = [&](const auto& step) {
    answer_ = step.answer;
    at_ = step.at;
  };
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: {
      // A forgotten state is untouched, and core relies on this. In a damaged value it may have
      // units.
      const bool is_known = !state_.forgotten.is_past(now_);
      core::Kept<core::State> state = state_;
      if (!is_known) state.state = {};
      const auto step = core::step(action, limit(), state, now_, cost);
      take(step);
      const bool is_taken = step.answer.admitted && cost > 0;
      if (is_known && !is_taken && step.change == core::Change::kNone) {
        state_.forgotten.end(at_, answer_);
      }
      return;
    }
    case StateKind::kSlices: {
      std::uint32_t converted = 0;
      core::Kept<core::Slices> slices = slices_;
      slices.state = core::sliding_window_counter::on_grid(limit(), slices.state, converted);
      return take(core::step(action, limit(), slices, now_, cost));
    }
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return take(core::step(action, limit(), log_, now_, cost));
    case StateKind::kPermits:
      answer_ = decide_permits(action.verb, cost);
      at_ = static_cast<core::Ticks>(permits_.at);
      return;
    case StateKind::kBudget: {
      const auto step = decide_budget(action, cost);
      is_changed_ = step.change == core::Change::kWrite;
      spent_after_ = is_changed_ ? step.next.spent : budget_.spent;
      knows_id_ = step.next.knows_id;
      return take(step);
    }
  }
}

// By core, from what the script has found.
core::budget::Made Counter::decide_budget(Action action, std::uint64_t cost) const noexcept {
  const auto ticks = [](std::uint64_t number) { return static_cast<core::Ticks>(number); };
  const core::BudgetEnds ends{ticks(budget_.by_all), ticks(budget_.by_held),
                              ticks(budget_.by_count)};
  const core::Budget budget{.asked = has_id() ? &permit_ : nullptr, .ends = &ends};
  core::budget::Asked asked{limit(),
                            budget,
                            core::Forgotten(static_cast<std::uint32_t>(budget_.forgotten)),
                            {.at = ticks(budget_.at),
                             .start = core::budget::window_start(limit(), ticks(budget_.at)),
                             .spent = budget_.spent,
                             .held = budget_.held,
                             .open = static_cast<std::size_t>(budget_.open),
                             .latest = ticks(budget_.latest)}};
  if (action.verb == Verb::kReset) {
    return {core::untouched(limit()), core::Change::kErase, asked.live.at, {}};
  }
  asked.kind = static_cast<core::IdKind>(budget_.kind);
  asked.amount = budget_.amount;
  if (asked.is_decided()) {
    asked.read_decided(budget_.rest);
  } else {
    asked.end = ticks(budget_.rest);
  }
  return core::budget::decide(action, asked, cost);
}

// As core/concurrency.h, from what the script has found.
core::Answer Counter::decide_permits(Verb verb, std::uint64_t cost) const noexcept {
  const std::uint64_t capacity = limit().capacity();
  const auto described = [&](std::uint64_t units, std::uint64_t end) -> core::Numbers {
    return {static_cast<std::uint32_t>(units < capacity ? capacity - units : 0),
            end > permits_.at ? static_cast<core::Ticks>(end - permits_.at) : 0};
  };
  const core::Numbers before = described(permits_.units, permits_.last_end);
  if (verb == Verb::kReset) return core::untouched(limit());
  if (verb == Verb::kRefund || changes_permit(verb)) {
    core::Answer answer{core::admitted(), described(permits_.units_after, permits_.last_after)};
    if (verb == Verb::kRefund || permits_.gone == 0) return answer;
    answer = {{}, before};
    answer.gone = true;
    return answer;
  }
  core::Answer answer{core::admitted(), before};
  if (cost > capacity) {
    answer = {core::never(), before};
  } else if (cost > 0 && permits_.units + cost > capacity) {
    answer = {core::denied_for(permits_.wait), before};
  } else if (cost > 0) {
    const std::uint64_t end = permits_.at + ticks_of(limit().period());
    answer = {core::admitted(), described(permits_.units + cost, std::max(permits_.last_end, end))};
  }
  if (answer.admitted && verb == Verb::kReserve) answer.delay = 0;
  return answer;
}

void Counter::leave_untaken() noexcept {
  const bool has_permits = holds_permits(limit().algorithm()) || holds_amounts(limit().algorithm());
  if (answer_.admitted && (cost_ > 0 || has_permits)) decide(Verb::kPeek, 0);
  answer_.delay = core::Answer::kNoDelay;
}

void Counter::pass_over() noexcept {
  cost_ = 0;
  gives_back_ = false;
  decide(Verb::kPeek, 0);
  is_passed_over_ = true;
}

bool Counter::chooses(Verb verb) const noexcept { return sluice::chooses(verb, *charge_); }

void Counter::wait_less(const Counter& other) noexcept { core::wait_less(other.answer_, answer_); }

bool Counter::is_limited() const noexcept { return core::reason_of(answer_) == Reason::kLimited; }

void Counter::answer(Decision& decision) const noexcept {
  core::write(limit(), answer_, decision);
  decision.passed_over = is_passed_over_;
}

namespace {

std::uint64_t flags_of(Action action, std::uint64_t cost, bool may_fit,
                       const Charge& charge) noexcept {
  if (action.verb == Verb::kBlock) return format::kBlocksByHand;
  if (action.verb == Verb::kUnblock) return format::kUnblocksByHand;
  if (!asks(action.verb) || cost == 0) return 0;
  const bool counts = may_fit && counts_denials(action.verb, charge);
  return format::kDeniesIfBlocked + (counts ? format::kCountsDenials : 0);
}

}  // namespace

void append_tag(std::string_view tag, std::string& key) {
  for (const char c : tag) {
    if (c == '%') {
      key += "%25";
    } else if (c == '}') {
      key += "%7D";
    } else {
      key += c;
    }
  }
}

bool uses_blocks(Verb verb) noexcept {
  return asks(verb) || changes_block(verb) || verb == Verb::kReset;
}

std::uint32_t number_in_slot(std::uint16_t slot) {
  static const std::vector<std::uint32_t> numbers = [] {
    std::vector<std::uint32_t> found(kSlots, 0);
    std::size_t left = kSlots;
    for (std::uint32_t number = 1; left > 0; ++number) {
      std::uint32_t& of_slot = found[slot_of(std::to_string(number))];
      if (of_slot != 0) continue;
      of_slot = number;
      --left;
    }
    return found;
  }();
  return numbers[slot % kSlots];
}

namespace {

// Writes the key of what belongs to a counter, in its slot. `counter_key` follows the prefix.
void write_key_beside(const Charge& charge, std::string_view prefix, char letter,
                      std::string_view counter_key, std::optional<std::uint16_t> slot,
                      std::string& key) {
  key.assign(prefix) += letter;
  // The tag is that of the counter. A counter without one is in the slot of its whole key.
  if (slot && charge.tag.empty()) key += "{" + std::to_string(number_in_slot(*slot)) + "}";
  key += counter_key;
}

}  // namespace

void KeyBlock::begin(const Charge& charge, std::string_view prefix, std::string_view counter_key,
                     std::optional<std::uint16_t> slot) {
  charge_ = charge.block != nullptr ? &charge : nullptr;
  answer_ = {};
  if (charge_ == nullptr) return;
  write_key_beside(charge, prefix, format::kOfBlocks, counter_key, slot, key_);
}

void KeyBlock::append_argument(Action action, std::size_t number, std::uint64_t cost, bool may_fit,
                               std::string& out) const {
  const Block& block = *charge_->block;
  const bool is_by_hand = action.verb == Verb::kBlock;
  format::kKeyBlockArgument.append({.counter = number,
                                    .flags = flags_of(action, cost, may_fit, *charge_),
                                    .after = block.after(),
                                    .within = ticks_of(block.within()),
                                    .time = ticks_of(is_by_hand ? action.max_wait : block.time()),
                                    .growth = block.growth(),
                                    .at_most = ticks_of(block.at_most())},
                                   out);
}

bool KeyBlock::read(std::string_view bytes, core::Ticks now) {
  now_ = now;
  found_ = {};
  denials_.clear();
  if (bytes.empty()) return false;
  is_written_ = bytes.front() != 0;
  bytes.remove_prefix(1);
  if (bytes.empty()) return true;
  const auto read = read_block(bytes, denials_);
  if (read) found_ = read->at(now);
  return read.has_value();
}

void KeyBlock::look() noexcept { answer_ = core::look(found_, now_); }

void KeyBlock::deny(Verb verb) noexcept {
  if (!is_written_ || !counts_denials(verb, *charge_)) return;
  answer_ = core::deny(*charge_->block, found_, now_).answer;
}

void KeyBlock::change(Action action) noexcept {
  answer_ = {};
  if (action.verb == Verb::kUnblock) return;
  answer_ = core::block_for(*charge_->block, found_, now_, action.max_wait.count()).answer;
}

namespace {

// Begins the error of a script that would have to make a counter and cannot.
constexpr std::string_view kStoreFull = "STOREFULL";
// The command of the module.
constexpr std::string_view kApply = "SLUICE.APPLY";
// Begins the reply of a script that needs other windows of a calendar.
constexpr std::string_view kWindow = "WINDOW ";

// A verb that changes blocks leaves the counters as they are.
constexpr std::uint64_t verb_number(Verb verb) noexcept {
  const auto* const found = std::find(format::kVerbs.begin(), format::kVerbs.end(), verb);
  return found != format::kVerbs.end() ? static_cast<std::uint64_t>(found - format::kVerbs.begin())
                                       : format::kPeek;
}

bool is_in_range(const std::optional<Instant>& now) noexcept {
  return !now || (*now >= kFirstInstant && *now <= kLastInstant);
}

}  // namespace

auto Plan::of_part(std::size_t index) {
  return counters() |
         std::views::filter([index](const Counter& counter) { return counter.part == index; });
}

auto Plan::of_part(std::size_t index) const {
  return std::span(counters_).first(count_) |
         std::views::filter([index](const Counter& counter) { return counter.part == index; });
}

bool Plan::begin(const RequestOptions& options, Action action, std::span<const Charge> charges,
                 std::optional<Instant> now) {
  options_ = options;
  action_ = {action.verb, std::min<Duration>(action.max_wait, kMaxWait)};
  now_ = now;
  count_ = 0;
  parts_.clear();
  counter_of_.clear();
  if (charges.empty() || charges.size() > kMaxCharges || !is_in_range(now)) return false;
  if (action.max_wait < Duration{0}) return false;
  for (const Charge& charge : charges) {
    if (!verb_fits(action, charge) || !block_fits(action, charge)) return false;
    std::size_t i = 0;
    while (i < count_ && !counters_[i].is_same(charge)) ++i;
    const std::size_t number = counter_of_.size();
    if (!row_agrees(action, charges, number, std::span<const Counter>(counters()), i,
                    number > 0 ? counter_of_.back() : std::size_t{0})) {
      return false;
    }
    if (i == count_) {
      add_counter(charge);
    } else if (!counters_[i].agrees_with(charge)) {
      return false;
    } else {
      counters_[i].add(charge);
    }
    if (number > 0 && charge.alternative) {
      if (counters_[i].part != counters_[i - 1].part) return false;
      parts_[counters_[i].part].has_rows |= chooses(action.verb, charge);
    }
    if (charge.rule.new_keys != nullptr) note_limit(i, charge);
    counter_of_.push_back(static_cast<std::uint8_t>(i));
  }
  return action_.verb != Verb::kTakeAtMost || begin_take_at_most();
}

// A request of no units is a take of none.
bool Plan::begin_take_at_most() noexcept {
  const bool is_for_nothing = std::ranges::any_of(
      counters(), [](const Counter& counter) { return counter.least_cost() == 0; });
  if (!is_for_nothing) return parts_.size() == 1;
  action_ = Verb::kTake;
  for (Counter& counter : counters()) counter.take_for_each(0);
  return true;
}

Counter& Plan::add_counter(const Charge& charge) {
  if (count_ == counters_.size()) counters_.emplace_back();
  Counter& counter = counters_[count_++];
  counter.begin(charge);
  make_key(charge, counter.key);
  counter.must_exist = counter.is_refused = false;
  counter.near.reset();
  counter.past.reset();
  counter.ledger.clear();
  counter.part = part_of(options_.by_slot ? std::optional(slot_of(counter.key)) : std::nullopt);
  counter.block_part = counter.part;
  Part& part = parts_[counter.part];
  ++part.counters;
  part.families = static_cast<FamilySet>(part.families | bit_of(counter.family()));
  const std::string_view rest = std::string_view(counter.key).substr(options_.prefix.size());
  counter.block.begin(charge, options_.prefix, rest, part.slot);
  if (counter.block.is_used() && uses_blocks(action_.verb)) ++part.blocks;
  if (options_.ledger_keep > 0 && holds_amounts(charge.limit.algorithm())) {
    write_key_beside(charge, options_.prefix, format::kOfLedgers, rest, part.slot, counter.ledger);
    part.families |= kWithLedger;
    ++part.ledgers;
  }
  return counter;
}

void Plan::note_limit(std::size_t index, const Charge& charge) {
  if (!creates(action_.verb) || charge.rule.new_keys->allows(clock_time())) return;
  counters_[index].must_exist = true;
  parts_[counters_[index].part].must_exist = true;
}

void Plan::make_key(const Charge& charge, std::string& key) const {
  key = options_.prefix;
  if (charge.rule.keyspace == Keyspace::kRules) key += format::kOfRules;
  key += info(charge.limit.algorithm()).letter;
  key += '{';
  append_tag(charge.tag, key);
  key += '}';
  key += charge.key;
}

std::size_t Plan::part_of(std::optional<std::uint16_t> slot) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].slot == slot) return i;
  }
  parts_.push_back({.slot = slot});
  return parts_.size() - 1;
}

std::size_t Plan::parts() const noexcept { return parts_.size(); }

// The verb for the script of a part. A reservation on counters that cannot be reserved ahead is a
// take, which scripts decide fastest.
std::uint64_t Plan::script_verb(const Part& part) const noexcept {
  if (action_.verb == Verb::kReserve && !can_reserve_ahead(part.families)) return format::kTake;
  // What a budget does with an id is in its argument.
  if (action_.verb == Verb::kHold) return format::kTake;
  if (action_.verb == Verb::kSettle || action_.verb == Verb::kCancel) return format::kCharge;
  const bool is_shared = action_.verb == Verb::kTakeAtMost && counter_of_.size() > 1;
  return is_shared ? format::kTakeAtMostOfAll : verb_number(action_.verb);
}

std::uint64_t Plan::flagged_verb(const Part& part) const noexcept {
  return script_verb(part) + (part.blocks > 0 ? format::kWithBlocks : 0) +
         (part.has_rows ? format::kWithRows : 0);
}

bool Plan::is_single(const Part& part) const noexcept {
  const std::uint64_t verb = script_verb(part);
  const bool can_be =
      verb != format::kPeek && verb != format::kReset && verb != format::kTakeAtMostOfAll;
  return can_be && !now_ && part.counters == 1 && part.blocks == 0 && !part.must_exist;
}

// Budgets stay together: they have ledgers, rows, and ids that must not be given back meanwhile.
bool Plan::is_divisible(std::size_t index) const noexcept {
  const Part& part = parts_[index];
  return part.slot && count_keys(part, true) > 1 && action_.verb != Verb::kTakeAtMost &&
         std::ranges::none_of(of_part(index), [](const Counter& counter) {
           return holds_amounts(counter.limit().algorithm());
         });
}

void Plan::divide(std::size_t index) {
  const Part whole = parts_[index];
  bool is_first = true;
  const auto add = [&](const Counter& counter, bool is_block) {
    const Part part{.slot = whole.slot,
                    .counters = static_cast<std::uint16_t>(is_block ? 0 : 1),
                    .blocks = static_cast<std::uint16_t>(is_block ? 1 : 0),
                    .families = bit_of(counter.family()),
                    .must_exist = !is_block && counter.must_exist};
    if (!std::exchange(is_first, false)) {
      parts_.push_back(part);
      return parts_.size() - 1;
    }
    parts_[index] = part;
    return index;
  };
  for (Counter& counter : counters()) {
    if (counter.part != index) continue;
    counter.part = add(counter, false);
    if (whole.blocks > 0 && counter.block.is_used()) counter.block_part = add(counter, true);
  }
}

// Appends the keys of the counters of a part, of the blocks in it, and of the counters' ledgers.
void Plan::append_keys(std::size_t index, bool with_blocks, std::string& out) const {
  for (const Counter& counter : of_part(index)) append_element(counter.key, out);
  for (const Counter& counter : std::span(counters_).first(with_blocks ? count_ : 0)) {
    if (counter.has_block_in(index)) append_element(counter.block.key(), out);
  }
  for (const Counter& counter : of_part(index)) {
    if (!counter.ledger.empty()) append_element(counter.ledger, out);
  }
}

std::uint32_t Plan::count_keys(const Part& part, bool with_blocks) noexcept {
  return std::uint32_t{part.counters} + (with_blocks ? part.blocks : 0) + part.ledgers;
}

// Writes the number of keys and the keys, which precede the arguments.
void Plan::write_keys(std::size_t index, bool with_blocks, Command& command) const {
  const Part& part = parts_[index];
  const std::uint32_t count = count_keys(part, with_blocks);
  command.tail.clear();
  command.elements = 0;
  command.slot = part.slot;
  command.append(std::uint64_t{count});
  append_keys(index, with_blocks && part.blocks > 0, command.tail);
  command.elements += count;
}

// Writes the last argument of a script for a ledger.
void Plan::write_ledgers(std::size_t index, bool is_undo, Command& command) {
  if (parts_[index].ledgers == 0) return;
  argument_.clear();
  append_ledgers(index, is_undo, argument_);
  command.append(argument_);
}

void Plan::append_ledgers(std::size_t index, bool is_undo, std::string& out) const {
  const auto kind_of = [&](const Counter& counter) {
    if (is_undo) return LedgerKind::kUndo;
    if (counter.gives_back()) return LedgerKind::kRefund;
    switch (action_.verb) {
      case Verb::kSettle: return LedgerKind::kLate;
      case Verb::kCharge: return LedgerKind::kCharge;
      case Verb::kRefund: return LedgerKind::kRefund;
      case Verb::kReset: return LedgerKind::kReset;
      default: return LedgerKind::kTake;
    }
  };
  format::kLedgerArgument.append({options_.ledger_keep, format::kLedgerAfterMs}, out);
  std::size_t number = 0;
  for (const Counter& counter : of_part(index)) {
    ++number;
    if (counter.ledger.empty()) continue;
    const auto kind = static_cast<std::size_t>(kind_of(counter));
    counter.append_ledger(number, kLedgerKinds[kind], out);
  }
}

void Plan::write(std::size_t index, Command& command) {
  const Part& part = parts_[index];
  const std::uint64_t verb = script_verb(part);
  write_keys(index, true, command);
  command.has_module_form = options_.uses_module && part.counters > 0;
  command.is_divisible = is_divisible(index);
  if (is_single(part)) {
    auto counters = of_part(index);
    const Counter& counter = counters.front();
    command.script = &script_for_one(counter.family(), part.families & kWithLedger);
    const std::uint64_t own = counter.gives_back() ? format::kRefund : verb;
    argument_.clear();
    append_argument(counter, part.families, own, argument_);
    command.append(argument_);
    if (own != format::kTake) command.append(std::string(1, static_cast<char>(own)));
    return write_ledgers(index, false, command);
  }
  write_request(index, flagged_verb(part), command);
  if (part.blocks > 0) {
    argument_.clear();
    append_blocks(index, argument_);
    command.append(argument_);
  }
  write_ledgers(index, false, command);
}

void Plan::append_for_module(std::size_t index, std::string& out) {
  const Part& part = parts_[index];
  const std::uint64_t verb = script_verb(part);
  argument_.clear();
  append_request(flagged_verb(part) + (part.ledgers > 0 ? format::kWithLedgers : 0), argument_);
  argument_ += static_cast<char>(part.counters);
  for (const Counter& counter : of_part(index)) {
    append_argument(counter, kAllFamilies, verb, argument_);
  }
  if (part.blocks > 0) append_blocks(index, argument_);
  if (part.ledgers > 0) append_ledgers(index, false, argument_);
  append_size('*', count_keys(part, true) + 2, out);
  append_element(kApply, out);
  append_keys(index, part.blocks > 0, out);
  append_element(argument_, out);
}

void Plan::write_undo(std::size_t index, Command& command) {
  write_keys(index, false, command);
  command.has_module_form = command.is_divisible = false;
  write_request(index, format::kGiveBack, command);
  write_ledgers(index, true, command);
}

// Writes the arguments of any request except a single one.
void Plan::write_request(std::size_t index, std::uint64_t verb, Command& command) {
  command.script = &script_for(parts_[index].families);
  argument_.clear();
  append_request(verb, argument_);
  command.append(argument_);
  verb &= ~(format::kWithBlocks | format::kWithRows);
  for (const Counter& counter : of_part(index)) {
    argument_.clear();
    append_argument(counter, parts_[index].families, verb, argument_);
    command.append(argument_);
  }
}

void Plan::append_request(std::uint64_t verb, std::string& out) const {
  const std::uint64_t instant = now_ ? ticks_of(now_->time_since_epoch()) : format::kServerTime;
  format::kRequest.append({verb, instant, options_.explicit_expiry_ms}, out);
}

// Appends the arguments of the blocks, which are one argument of a script.
void Plan::append_blocks(std::size_t index, std::string& out) const {
  std::size_t number = 0;
  for (const Counter& counter : std::span(counters_).first(count_)) {
    if (counter.part == index) ++number;
    if (!counter.has_block_in(index)) continue;
    const std::uint64_t least =
        action_.verb == Verb::kTakeAtMost ? counter.charges() : counter.cost();
    counter.block.append_argument(action_, number, counter.cost(),
                                  least <= counter.limit().capacity(), out);
  }
}

void Plan::append_argument(const Counter& counter, FamilySet families, std::uint64_t verb,
                           std::string& out) const {
  int number = number_of(counter.family(), families);
  if (counter.must_exist && verb != format::kGiveBack) number += format::kMustExist;
  const bool may_give_back = verb == format::kCharge || verb == format::kGiveBack;
  if (counter.gives_back() && may_give_back) number += format::kGivesBack;
  const bool is_in_request = verb != format::kGiveBack && parts_[counter.part].has_rows;
  if (is_in_request && &counter != counters_.data() && counter.is_alternative()) {
    number += format::kAlternative;
  }
  const bool is_at_most = verb == format::kTakeAtMostOfAll;
  std::uint64_t cost = changes_block(action_.verb) ? 0 : counter.cost();
  if (is_at_most) cost = counter.least_cost();
  if (holds_amounts(counter.limit().algorithm())) {
    if (verb == format::kGiveBack) return counter.append_budget_undo(number, action_, out);
    counter.append_budget(number, verb == format::kPeek ? Verb::kPeek : action_, cost, out);
  } else if (verb == format::kGiveBack && action_.verb == Verb::kExtend) {
    counter.append_end_before_extension(number, out);
  } else {
    counter.append_argument(number, cost, out);
  }
  if (counter.limit().calendar() != nullptr) {
    core::Ticks near = counter.near.value_or(clock_time().time_since_epoch().count());
    if (verb == format::kGiveBack) near = counter.at();
    counter.append_windows(static_cast<std::size_t>(&counter - counters_.data()), near, out);
  }
  if (is_at_most) format::kInstant.append({counter.charges()}, out);
  if (verb == format::kReserve) {
    format::kInstant.append({ticks_of(action_.max_wait)}, out);
  }
  if (verb == format::kGiveBack) {
    format::kInstant.append({static_cast<std::uint64_t>(counter.at())}, out);
  }
}

// --- replies ---

Plan::Read Plan::read(std::size_t index, const Reply& reply, bool is_by_module) {
  if (reply.type == Reply::kStatus) return read_status(index, reply.text);
  if (reply.type != Reply::kString || reply.text.size() < format::kInstant.size())
    return Read::kMalformed;
  std::string_view rest = reply.text;
  const std::uint64_t head = format::kInstant.take(rest).value;
  const bool admits = (head & format::kAdmits) != 0;
  const std::uint64_t now = head & ~format::kAdmits;
  if (now >= format::kEndOfInstants) return Read::kMalformed;
  if (now_ && now != ticks_of(now_->time_since_epoch())) {
    return Read::kMalformed;
  }
  const bool is_alone = !is_by_module && is_single(parts_[index]);
  if (!read_counters(index, is_alone, rest, static_cast<core::Ticks>(now)) ||
      !read_blocks(index, rest, static_cast<core::Ticks>(now)) || !rest.empty()) {
    return Read::kMalformed;
  }
  if (action_.verb == Verb::kTakeAtMost) share_units();
  // Makes the script's decision again. If the two differ, the reply is malformed.
  if (decide(index) != admits) return Read::kMalformed;
  parts_[index].admits = admits;
  if (admits && creates(action_.verb)) count_new(index);
  return admits ? Read::kAllowed : Read::kDenied;
}

Plan::Read Plan::read_status(std::size_t index, std::string_view text) noexcept {
  if (text.starts_with(kWindow)) {
    return note_windows(index, text.substr(kWindow.size())) ? Read::kRepeat : Read::kMalformed;
  }
  if (!parts_[index].must_exist || !text.starts_with(kStoreFull)) return Read::kMalformed;
  note_full(index, text);
  return Read::kFull;
}

// Reads "NUMBER AT NOW": the number of a counter, its instant, and that of the server, which the
// other counters of the part need. For a ledger, the end of a hold may follow.
bool Plan::note_windows(std::size_t index, std::string_view text) noexcept {
  std::array<core::Ticks, 4> numbers{};
  for (core::Ticks& number : numbers) {
    if (&number == &numbers.back() && text.empty()) break;
    const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(at - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
  }
  const auto named = static_cast<std::size_t>(numbers[0]);
  if (named >= count_ || counters_[named].part != index) return false;
  if (counters_[named].limit().calendar() == nullptr) return false;
  for (Counter& counter : of_part(index)) {
    if (!counter.near) counter.near = numbers[2];
  }
  counters_[named].near = numbers[1];
  if (numbers[3] > 0) counters_[named].past = numbers[3];
  return true;
}

void Plan::count_new(std::size_t index) noexcept {
  for (const Counter& counter : of_part(index)) {
    if (counter.new_keys() == nullptr) continue;
    if (!counter.is_new() || counter.cost() == 0 || counter.gives_back()) continue;
    counter.new_keys()->count(clock_time());
  }
}

bool Plan::read_blocks(std::size_t index, std::string_view& rest, core::Ticks now) {
  if (parts_[index].blocks == 0) return true;
  for (Counter& counter : counters()) {
    if (!counter.has_block_in(index)) continue;
    if (rest.size() < format::kValueSize.size()) return false;
    const std::size_t size = format::kValueSize.take(rest).value;
    if (rest.size() < size || !counter.block.read(rest.substr(0, size), now)) return false;
    rest.remove_prefix(size);
  }
  return true;
}

bool Plan::read_counters(std::size_t index, bool is_alone, std::string_view& rest,
                         core::Ticks now) {
  for (Counter& counter : of_part(index)) {
    std::size_t size = rest.size();
    if (!is_alone) {
      if (rest.size() < format::kValueSize.size()) return false;
      size = format::kValueSize.take(rest).value;
      if (rest.size() < size) return false;
    }
    if (!counter.read(rest.substr(0, size), now)) return false;
    rest.remove_prefix(size);
  }
  return true;
}

// Finds out how many units every charge can have, and asks for them; for one if there are none.
void Plan::share_units() noexcept {
  units_for_each_ = kMaxAmount;
  for (Counter& counter : counters()) {
    counter.decide(Verb::kPeek, 0);
    units_for_each_ = std::min(units_for_each_, counter.most_for_each());
  }
  for (Counter& counter : counters()) {
    counter.take_for_each(std::max<std::uint64_t>(units_for_each_, 1));
  }
}

bool Plan::decide(std::size_t index) {
  const Action action = action_.verb == Verb::kTakeAtMost ? Action(Verb::kTake) : action_;
  bool all_admit = true;
  for (Counter& counter : of_part(index)) {
    if (changes_block(action.verb)) {
      counter.decide(Verb::kPeek, 0);
    } else {
      counter.decide(action);
    }
  }
  if (parts_[index].has_rows) choose_in_rows(index);
  for (const Counter& counter : of_part(index)) all_admit = all_admit && counter.admits();
  return parts_[index].blocks > 0 ? decide_blocks(index, all_admit) : all_admit;
}

void Plan::choose_in_rows(std::size_t index) noexcept {
  for (std::span<Counter> rest = counters(); !rest.empty();) {
    const std::size_t size = row_size(std::span<const Counter>(rest));
    if (rest.front().part == index) choose_in_row(action_.verb, rest.first(size));
    rest = rest.subspan(size);
  }
}

// Returns whether the counters and their blocks admit the request.
bool Plan::decide_blocks(std::size_t index, bool all_admit) {
  bool is_blocked = false;
  for (Counter& counter : counters()) {
    if (!counter.has_block_in(index)) continue;
    if (changes_block(action_.verb)) counter.block.change(action_);
    if (asks(action_.verb)) counter.block.look();
    is_blocked |= asks(action_.verb) && counter.block.denies(counter.cost());
  }
  if (all_admit || is_blocked) return all_admit && !is_blocked;
  for (Counter& counter : counters()) {
    if (counter.has_block_in(index) && counter.is_limited()) counter.block.deny(action_.verb);
  }
  return false;
}

void Plan::answer(std::span<Decision> each, Decision& all) {
  const bool all_admit =
      std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.admits; });
  if (!all_admit && action_.verb != Verb::kRelease) {
    for (Counter& counter : counters()) counter.leave_untaken();
  } else if (action_.verb == Verb::kTakeAtMost) {
    for (Counter& counter : counters()) counter.note_taken(units_for_each_);
  }
  const bool is_by_hand = changes_block(action_.verb);
  for (std::size_t i = 0; i < each.size(); ++i) {
    const Counter& counter = counters_[counter_of_[i]];
    counter.answer(each[i]);
    core::write(counter.block.answer(), is_by_hand ? 0 : counter.cost(), each[i]);
  }
  all = action_.verb == Verb::kRelease ? combine_released(each) : combine(each);
}

bool Plan::is_full(std::string_view error) noexcept {
  if (is_foreign_value(error)) return false;  // it contains a key, which clients choose
  return error.starts_with(kStoreFull) || error.starts_with("TRYAGAIN") ||
         error.find("OOM ") != error.npos;
}

// "STOREFULL 1 3: why" names the first and the third counter of the part. "OOM why" names none.
void Plan::note_full(std::size_t index, std::string_view error) noexcept {
  std::uint64_t named = 0;
  if (error.starts_with(kStoreFull)) {
    const char* at = error.data() + kStoreFull.size();
    const char* const end = error.data() + error.size();
    while (at != end && *at == ' ') {
      std::uint64_t number = 0;
      at = std::from_chars(at + 1, end, number).ptr;
      if (number >= 1 && number <= kMaxCharges) named |= std::uint64_t{1} << (number - 1);
    }
  }
  std::uint64_t bit = 1;
  for (Counter& counter : of_part(index)) {
    counter.is_refused = named == 0 || (named & bit) != 0;
    bit <<= 1;
  }
}

void Plan::refuse_new(std::span<Decision> each) const noexcept {
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i] =
        counters_[counter_of_[i]].is_refused ? Decision::refused(Reason::kStoreFull) : Decision{};
  }
}

bool Plan::is_foreign_value(std::string_view error) noexcept {
  return error.starts_with("WRONGTYPE") || error.find("FOREIGNVALUE") != error.npos;
}

}  // namespace sluice::redis
