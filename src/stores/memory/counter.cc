#include "stores/memory/counter.h"

#include <algorithm>
#include <array>
#include <functional>
#include <new>

#include "limiter/answer.h"
#include "limiter/new_key_limit.h"
#include "sluice/permit_id.h"

namespace sluice::memory {
namespace {

bool all_admit(std::span<const Counter> counters) noexcept {
  return std::all_of(counters.begin(), counters.end(), [](const Counter& c) { return c.admits(); });
}

bool all_ready(std::span<const Counter> counters) noexcept {
  return std::all_of(counters.begin(), counters.end(),
                     [](const Counter& c) { return c.is_ready(); });
}

bool refuse_new(std::span<Counter> counters) noexcept {
  bool any = false;
  for (Counter& c : counters) any |= c.refuse_new();
  return any;
}

// Ensures that no write can fail. If that is impossible, throws or returns false.
bool prepare_writes(std::span<Counter> counters) {
  for (Counter& c : counters) {
    if (c.writes() && !c.is_found()) c.insert();
  }
  for (Counter& c : counters) c.find_again();
  for (Counter& c : counters) {
    if (c.writes() && !c.make_room()) return false;
  }
  return true;
}

// Like prepare_writes(), but if that is impossible, changes nothing and returns false.
bool prepare_or_undo(std::span<Counter> counters) noexcept {
  try {
    if (prepare_writes(counters)) return true;
  } catch (const std::bad_alloc&) {
    // The result reports it.
  }
  for (Counter& c : counters) c.undo();
  return false;
}

// Returns the units that every charge of the counters can have.
std::uint64_t units_for_each(std::span<Counter> counters) noexcept {
  std::uint64_t units = kMaxAmount;
  for (Counter& c : counters) {
    c.find();
    c.take_for_each(0);
    c.look(Verb::kPeek);
    units = std::min(units, c.most_for_each());
  }
  return units;
}

// Answers a request that is denied. Its denials count for blocks, unless a block denies it.
void deny(Verb verb, std::span<Counter> counters) noexcept {
  const bool is_blocked = std::any_of(counters.begin(), counters.end(),
                                      [](const Counter& c) { return c.is_blocked(); });
  if (takes(verb) && !is_blocked) {
    for (Counter& c : counters) c.deny();
  }
  for (Counter& c : counters) c.leave_untaken();
}

Reason decide(Action action, std::span<Counter> counters) noexcept {
  if (changes_block(action.verb)) {
    for (Counter& c : counters) {
      if (!c.change_block(action)) return Reason::kStoreError;
    }
    action = Verb::kPeek;
  }
  for (Counter& c : counters) {
    c.find();
    c.look(action);
  }
  for (std::size_t i = 0; i < counters.size();) {
    const std::size_t size = row_size(std::span<const Counter>(counters.subspan(i)));
    choose_in_row(action.verb, counters.subspan(i, size));
    i += size;
  }
  if (asks(action.verb)) {
    for (Counter& c : counters) c.look_at_block();
  }
  // A release ends the permit in those counters in which it is live.
  if (action.verb != Verb::kRelease && !all_admit(counters)) {
    deny(action.verb, counters);
    return Reason::kOk;
  }
  if (refuse_new(counters)) return Reason::kStoreFull;
  if (!all_ready(counters)) {
    if (!prepare_or_undo(counters)) return Reason::kStoreError;
    // A hybrid whose summaries were merged may count more units than before.
    if (!all_admit(counters)) {
      for (Counter& c : counters) c.undo();
      deny(action.verb, counters);
      return Reason::kOk;
    }
  }
  for (Counter& c : counters) c.write();
  return Reason::kOk;
}

// Takes the same number of units for every charge: as many as all can have.
Reason take_at_most(std::span<Counter> counters) noexcept {
  const bool asks_for_nothing = std::any_of(counters.begin(), counters.end(),
                                            [](const Counter& c) { return c.asks_for_nothing(); });
  const std::uint64_t units = asks_for_nothing ? 0 : units_for_each(counters);
  for (Counter& c : counters)
    c.take_for_each(asks_for_nothing ? 0 : std::max<std::uint64_t>(units, 1));
  const Reason failed = decide(Verb::kTake, counters);
  if (failed == Reason::kOk && all_admit(counters)) {
    for (Counter& c : counters) c.note_taken(units);
  }
  return failed;
}

// Locks the shards of one request, each once and in their order, so that two requests never wait
// for each other.
class Locks {
 public:
  explicit Locks(std::span<const Counter> counters) noexcept {
    for (const Counter& c : counters) add(c.shard());
    for (std::size_t i = 0; i < count_; ++i) shards_[i]->mutex.lock();
  }
  ~Locks() {
    for (std::size_t i = count_; i > 0; --i) shards_[i - 1]->mutex.unlock();
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  // Inserts a shard in order, unless it is there already. Most requests have two or three.
  void add(Shard* shard) noexcept {
    std::size_t at = count_;
    while (at > 0 && std::less<>{}(shard, shards_[at - 1])) --at;
    if (at > 0 && shards_[at - 1] == shard) return;
    for (std::size_t i = count_; i > at; --i) shards_[i] = shards_[i - 1];
    shards_[at] = shard;
    ++count_;
  }

  std::array<Shard*, kMaxCharges> shards_;
  std::size_t count_ = 0;
};

}  // namespace

Reason carry_out(Action action, std::span<Counter> counters) noexcept {
  const Locks locks(counters);
  const Reason failed =
      action.verb == Verb::kTakeAtMost ? take_at_most(counters) : decide(action, counters);
  for (Counter& c : counters) c.leave();
  return failed;
}

void Counter::add(const Charge& charge) noexcept {
  add_charge(charge, cost_, gives_back_);
  least_cost_ = std::min(least_cost_, charge.cost);
  ++charges_;
}

bool Counter::agrees_with(const Charge& other) const noexcept {
  const PermitId* const own = charge_->permit;
  const bool has_name = holds_permits(limit().algorithm()) || holds_amounts(limit().algorithm());
  const bool is_same_permit =
      own == other.permit || (own != nullptr && other.permit != nullptr && *own == *other.permit);
  return limit() == other.limit && same_block(*charge_, other) && (is_same_permit || !has_name);
}

std::uint64_t Counter::most_for_each() const noexcept {
  return std::min<std::uint64_t>(least_cost_, answer_.remaining / charges_);
}

void Counter::find() noexcept {
  if (slot_ != nullptr) return;
  slot_ = shard_->find(key_);
  if (slot_ == nullptr) return;
  expiry_ = slot_->state.pin();
  if (core::has_fixed_size(limit()) || !forgotten().is_past(now_)) return;
  shard_->erase(*slot_);  // a slot of fixed size serves the next state
  slot_ = nullptr;
}

core::Forgotten Counter::forgotten() const noexcept {
  return slot_ != nullptr && !is_new_ ? PackedState::forgotten_of(expiry_) : core::Forgotten{};
}

template <typename Next>
void Counter::keep(const core::Step<Next>& step, Next& next) noexcept {
  answer_ = step.answer;
  change_ = step.change;
  at_ = step.at;
  next_forgotten_ = step.forgotten();
  next = step.next;
}

core::Slices Counter::slices() noexcept {
  SliceBlob* const blob = slot_ ? slot_->state.slices() : nullptr;
  if (blob == nullptr) return {{}, now_, core::SliceGrid(limit())};
  return core::sliding_window_counter::on_grid(limit(), blob->view(), converted_);
}

core::Permits Counter::permits() const noexcept {
  core::PermitBuffer* const blob = slot_ ? slot_->state.permits() : nullptr;
  core::Permits permits = blob ? blob->view() : core::Permits{};
  permits.asked = charge_->permit;
  return permits;
}

core::Budget Counter::budget() const noexcept {
  core::BudgetBuffer* const blob = slot_ ? slot_->state.budget() : nullptr;
  if (blob != nullptr) return blob->view(charge_->permit);
  return {.asked = charge_->permit};
}

void Counter::look(Action action) noexcept {
  if (gives_back_) action = Verb::kRefund;
  verb_ = action.verb;
  max_wait_ = action.max_wait;
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: {
      const core::State state = slot_ ? slot_->state.state() : core::State{};
      return keep(core::step(action, limit(), core::Kept{state, forgotten()}, now_, cost_),
                  next_state_);
    }
    case StateKind::kSlices:
      return keep(core::step(action, limit(), core::Kept{slices(), forgotten()}, now_, cost_),
                  next_slices_);
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: {
      core::LogBuffer* const blob = slot_ ? slot_->state.log() : nullptr;
      const core::Log log = blob ? blob->view() : core::Log{};
      return keep(core::step(action, limit(), core::Kept{log, forgotten()}, now_, cost_),
                  next_log_);
    }
    case StateKind::kPermits:
      return keep(core::step(action, limit(), core::Kept{permits(), forgotten()}, now_, cost_),
                  next_permits_);
    case StateKind::kBudget:
      return keep(core::step(action, limit(), core::Kept{budget(), forgotten()}, now_, cost_),
                  next_budget_);
  }
}

void Counter::look_at_block() noexcept {
  asked_ = cost_;
  if (charge_->block != nullptr) block_ = shard_->blocks.look(key_, now_);
}

void Counter::deny() noexcept {
  if (core::reason_of(answer_) == Reason::kLimited && counts_denials(verb_, *charge_)) {
    block_ = shard_->blocks.deny(key_, *charge_, now_);
  }
}

bool Counter::change_block(Action action) noexcept {
  cost_ = 0;
  if (action.verb == Verb::kUnblock) {
    shard_->blocks.erase(key_);
    return true;
  }
  return shard_->blocks.block(key_, *charge_, action.max_wait.count(), now_);
}

void Counter::leave_untaken() noexcept {
  const bool is_counted = cost_ > 0 || change_ == core::Change::kWrite || answer_.repeated;
  if (answer_.admitted && is_counted) {
    cost_ = 0;
    look(Verb::kPeek);
  }
  change_ = core::Change::kNone;
  answer_.delay = core::Answer::kNoDelay;
}

void Counter::pass_over() noexcept {
  cost_ = 0;
  gives_back_ = false;
  look(Verb::kPeek);
  is_passed_over_ = true;
}

bool Counter::is_ready() const noexcept {
  if (change_ != core::Change::kWrite) return true;
  if (slot_ == nullptr) return false;
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: break;
    case StateKind::kSlices: {
      const SliceBlob* const blob = slot_->state.slices();
      return blob != nullptr && blob->grid() == core::SliceGrid(limit());
    }
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: {
      const core::LogBuffer* const blob = slot_->state.log();
      return blob != nullptr && blob->has_room(next_log_);
    }
    case StateKind::kPermits: {
      core::PermitBuffer* const blob = slot_->state.permits();
      return blob != nullptr && blob->has_room(next_permits_);
    }
    case StateKind::kBudget: {
      const core::BudgetBuffer* const blob = slot_->state.budget();
      return blob != nullptr && blob->has_room(next_budget_);
    }
  }
  return true;
}

void Counter::insert() {
  slot_ = &shard_->find_or_insert(key_, *charge_, now_, PackedState::kPinned);
  expiry_ = 1;
  is_new_ = true;
}

void Counter::find_again() noexcept {
  if (slot_ != nullptr) slot_ = shard_->find(key_);
}

bool Counter::make_room() {
  if (is_ready()) return true;
  if (limit().state_kind() == StateKind::kPermits) {
    return shard_->make_room_for_permit(*slot_, limit(), now_) != nullptr;
  }
  if (limit().state_kind() == StateKind::kBudget) {
    next_budget_.place = nullptr;
    return shard_->make_room_in_budget(*slot_, limit(), next_budget_, at_) != nullptr;
  }
  if (limit().state_kind() != StateKind::kSlices) {
    if (shard_->make_room_in_log(*slot_, limit(), now_) != nullptr) return true;
    const core::LogBuffer* const log = slot_->state.log();
    if (log == nullptr || !log->can_merge(next_log_)) return false;
    shard_->merge_log(*slot_, next_log_, limit());
    look({verb_, max_wait_});
    return true;
  }
  SliceBlob* const old = slot_->state.slices();
  SliceBlob* const blob = shard_->make_slices(*slot_, limit(), old ? old->last : now_);
  if (blob == nullptr) return false;
  if (old != nullptr) blob->counts()[0] = converted_;
  look({verb_, max_wait_});
  return true;
}

void Counter::undo() noexcept {
  find_again();
  if (!is_new_) return;
  is_new_ = false;
  shard_->erase(*slot_);
  slot_ = nullptr;
}

void Counter::leave() noexcept {
  if (slot_ == nullptr) return;
  slot_->state.leave(expiry_);
  slot_ = nullptr;
}

bool Counter::refuse_new() noexcept {
  is_refused_ = slot_ == nullptr && writes() && creates(verb_) &&
                charge_->rule.new_keys != nullptr &&
                !charge_->rule.new_keys->allows(Instant{Duration{now_}});
  return is_refused_;
}

void Counter::write() noexcept {
  if (is_new_ && creates(verb_) && charge_->rule.new_keys != nullptr) {
    charge_->rule.new_keys->count(Instant{Duration{now_}});
  }
  if (shard_->ledger() != nullptr && change_ != core::Change::kNone) record();
  if (change_ == core::Change::kWrite) write_next();
  if (change_ == core::Change::kErase && slot_ != nullptr) {
    shard_->erase(*slot_);
    slot_ = nullptr;
  }
  if (verb_ == Verb::kReset && charge_->block != nullptr) shard_->blocks.erase(key_);
}

// Adds the change of a budget to the ledger.
void Counter::record() const noexcept {
  core::BudgetBuffer* const blob = slot_ != nullptr ? slot_->state.budget() : nullptr;
  if (!holds_amounts(limit().algorithm()) || blob == nullptr) return;
  const bool writes_next = change_ == core::Change::kWrite;
  core::budget::record(verb_, limit(), blob->view(charge_->permit),
                       writes_next ? next_budget_ : core::NextBudget{},
                       writes_next ? at_ : core::effective(now_, blob->last),
                       {.is_of_rule = charge_->rule.keyspace == Keyspace::kRules,
                        .is_new = is_new_,
                        .key = charge_->key,
                        .tag = charge_->tag,
                        .id = charge_->id_text},
                       *shard_->ledger());
}

void Counter::write_next() noexcept {
  expiry_ = PackedState::expiry_of(next_forgotten_);
  switch (limit().state_kind()) {
    case StateKind::kBucket:
    case StateKind::kWindow: return slot_->state.set_state(next_state_);
    case StateKind::kSlices: {
      SliceBlob* const blob = slot_->state.slices();
      next_slices_.write(blob->counts());
      blob->last = at_;
      return;
    }
    case StateKind::kLog:
    case StateKind::kLogAndSummaries: return slot_->state.log()->write(next_log_, at_);
    case StateKind::kPermits: return slot_->state.permits()->write(next_permits_, at_);
    case StateKind::kBudget: return slot_->state.budget()->write(next_budget_, at_);
  }
}

}  // namespace sluice::memory
