// One request to Redis from start to end: with scripts, or with `scripting: off` by INCRBY, which
// works for windows of the clock and for counters of slices. In a cluster a request is one call per
// slot. If a slot denies, the others give back what they took. If a permit has ended in a slot, its
// extensions in the others are taken back.

#include "stores/redis/store/loop_store.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/quoted.h"
#include "limiter/answer.h"
#include "limiter/without_scripts.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {
namespace {

// A command whose answer is ignored. Later commands on the same connection are executed after it.
class Detached final : public Command {
 public:
  void done(const Answer&) noexcept override { delete this; }
  bool expects(const Reply& reply) noexcept override {
    // A status of a script: the window of a calendar is over, and its units with it.
    return script == nullptr || reply.type == Reply::kString || reply.type == Reply::kStatus;
  }
};

}  // namespace

void Operation::refuse(Reason reason, std::span<Decision> each) noexcept {
  decision_ = Decision::refused(reason);
  std::fill(each.begin(), each.end(), decision_);
}

// A failure after which units may have been counted is the gravest, then a foreign value. A full
// store is the least, because it can answer the charges that it has counters for.
void Operation::failed(Reason reason) noexcept {
  const auto weight = [](Reason r) {
    if (r == Reason::kStoreTimeout) return 4;
    if (r == Reason::kForeignValue) return 3;
    if (r == Reason::kStoreError) return 2;
    return r == Reason::kStoreFull ? 1 : 0;
  };
  if (weight(reason) > weight(failure_)) failure_ = reason;
}

void Operation::failed_without_reply(Failure failure) noexcept {
  const bool is_unknown = failure == Failure::kTimeout || failure == Failure::kLost;
  failed(is_unknown ? Reason::kStoreTimeout : Reason::kStoreError);
}

bool ScriptOperation::prepare(const Request& request) noexcept try {
  verb_ = request.action.verb;
  each_ = request.each;
  if (request.each.size() != request.charges.size() ||
      !plan_.begin(options_, request.action, request.charges, request.now)) {
    refuse(Reason::kInvalid, each_);
    return false;
  }
  used_ = plan_.parts();
  for (std::size_t i = 0; i < used_; ++i) add_part(i);
  return true;
} catch (const std::bad_alloc&) {
  refuse(Reason::kStoreError, each_);
  return false;
}

void ScriptOperation::add_part(std::size_t index) {
  if (index == parts_.size()) parts_.emplace_back();
  Part& part = parts_[index];
  part.operation = this;
  part.index = index;
  part.answered = Plan::Read::kMalformed;
  part.repeats = 0;
  plan_.write(index, part);
}

void ScriptOperation::send() noexcept {
  failure_ = Reason::kOk;
  under_way_ = used_;
  // The last answer may end this request and begin another before submit() returns.
  const std::size_t count = used_;
  for (std::size_t i = 0; i < count; ++i) client_->submit(parts_[i]);
}

bool ScriptOperation::read(Part& part, const Reply& reply) noexcept {
  part.answered = plan_.read(part.index, reply, part.is_by_module);
  if (part.answered == Plan::Read::kFull) failed(Reason::kStoreFull);
  return part.answered != Plan::Read::kMalformed;
}

void ScriptOperation::part_done(Part& part, const Answer& answer) noexcept {
  if (part.answered == Plan::Read::kRepeat && repeat(part)) return;
  const bool is_moving = answer.failure == Failure::kError && answer.text.starts_with("TRYAGAIN");
  if (is_moving && part.is_divisible && divide(part)) return;
  if (answer.failure != Failure::kNone) part_failed(part, answer);
  if (--under_way_ == 0) finish();
}

// Sends a part again, of which nothing was counted. Returns false if it fails instead: the clock of
// the server, or a counter, would have to leave its window each time.
bool ScriptOperation::repeat(Part& part) noexcept try {
  constexpr std::uint8_t kMost = 1 + kMaxCharges;  // one for the clock, one for each counter
  part.answered = Plan::Read::kMalformed;
  if (++part.repeats > kMost) {
    failed(Reason::kStoreError);
    return false;
  }
  plan_.write(part.index, part);
  client_->submit(part);
  return true;
} catch (const std::bad_alloc&) {
  failed(Reason::kStoreError);
  return false;
}

// Sends a part again, of which nothing was counted, with one call for each key.
bool ScriptOperation::divide(Part& part) noexcept try {
  const std::size_t first = used_;
  plan_.divide(part.index);
  const std::size_t count = plan_.parts();
  for (std::size_t i = first; i < count; ++i) add_part(i);
  plan_.write(part.index, part);
  used_ = count;
  under_way_ += count - first;
  client_->submit(part);
  for (std::size_t i = first; i < count; ++i) client_->submit(parts_[i]);
  return true;
} catch (const std::bad_alloc&) {
  failed(Reason::kStoreError);
  return false;
}

void ScriptOperation::part_failed(Part& part, const Answer& answer) noexcept {
  part.answered = Plan::Read::kMalformed;
  if (answer.failure != Failure::kError) return failed_without_reply(answer.failure);
  if (Plan::is_full(answer.text)) {
    plan_.note_full(part.index, answer.text);
    return failed(Reason::kStoreFull);
  }
  failed(Plan::is_foreign_value(answer.text) ? Reason::kForeignValue : Reason::kStoreError);
}

bool ScriptOperation::any(Plan::Read answered) const noexcept {
  return std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(used_),
                     [=](const Part& part) { return part.answered == answered; });
}

void ScriptOperation::finish() noexcept {
  const bool has_failed = failure_ != Reason::kOk;
  // A full store has counted nothing, so that the caller can charge the other counters alone.
  const bool is_of_id = verb_ == Verb::kExtend || verb_ == Verb::kSettle || verb_ == Verb::kCancel;
  const bool undoes = takes(verb_) || (counts_work(verb_) && failure_ == Reason::kStoreFull) ||
                      (is_of_id && !has_failed);
  if (undoes && used_ > 1 && (has_failed || any(Plan::Read::kDenied))) give_back();
  if (has_failed) {
    refuse(failure_, each_);
    if (failure_ == Reason::kStoreFull) plan_.refuse_new(each_);
  } else {
    plan_.answer(each_, decision_);
  }
  end();
}

void ScriptOperation::give_back() noexcept {
  bool has_any = false;
  for (std::size_t i = 0; i < used_; ++i) {
    if (parts_[i].answered != Plan::Read::kAllowed || !plan_.has_counters(i)) continue;
    has_any = true;
    auto* const command = new (std::nothrow) Detached;
    if (command == nullptr) continue;  // fewer units are admitted than possible, never more
    plan_.write_undo(i, *command);
    command->keeps_order = true;
    client_->submit(*command);
  }
  if (has_any) gave_back_.fetch_add(1, std::memory_order_relaxed);
}

namespace {

namespace slices = core::sliding_window_counter;

// How long a slice is kept after it has left the window, because clocks of servers differ.
constexpr std::uint64_t kSlackMs = 10'000;

// Creates the slice, with an expiry, if it does not exist.
void write_create(Command& command, std::string_view key, std::uint64_t expiry_ms) {
  command.append("SET");
  command.append(key);
  command.append("0");
  command.append("PX");
  command.append(expiry_ms);
  command.append("NX");
}

void write_change(Command& command, std::string_view verb, std::string_view key,
                  std::uint64_t units) {
  command.append(verb);
  command.append(key);
  command.append(units);
}

// "sluice:F{key}!:60000000/1:": what the keys of a counter have in common, so that they share a
// slot.
std::string base_of(std::string_view prefix, const Charge& charge) {
  const Limit& limit = charge.limit;
  std::string base(prefix);
  if (charge.rule.keyspace == Keyspace::kRules) base += format::kOfRules;
  base += static_cast<char>(info(limit.algorithm()).letter - 'a' + 'A');
  base += '{';
  if (!charge.tag.empty()) {
    append_tag(charge.tag, base);
    base.append("}.").append(charge.key);
  } else {
    append_tag(charge.key, base);
    base += charge.key.empty() ? "%}!" : "}!";
  }
  base.append(":").append(std::to_string(limit.period().count()));
  base.append("/").append(std::to_string(limit.slices())).append(":");
  return base;
}

// Clamps a count of Redis, which is negative after a late refund, to the range of a counter.
std::uint32_t count_of(std::int64_t value) noexcept {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(value, 0, std::numeric_limits<std::uint32_t>::max()));
}

bool read_count(const Reply& reply, std::uint32_t& count) noexcept {
  if (reply.type == Reply::kNil) {
    count = 0;
    return true;
  }
  if (reply.type != Reply::kString) return false;
  const auto value = base::read_number<std::int64_t>(reply.text);
  if (value) count = count_of(*value);
  return value.has_value();
}

// How many slices count. In a sliding window a share of the oldest one does.
std::uint64_t live_slices(const Limit& limit) noexcept {
  return limit.state_kind() == StateKind::kWindow ? 1 : limit.slices() + 1;
}

core::Kept<core::State> window_of(const Limit& limit, std::span<const std::uint32_t> counts,
                                  core::Ticks now) noexcept {
  return core::fixed_window::clock_window(limit, now, counts[0]);
}

core::Kept<core::Slices> slices_of(const Limit& limit, std::span<const std::uint32_t> counts,
                                   core::Ticks now) noexcept {
  const core::Slices slices{counts, now, core::SliceGrid(limit)};
  return {slices, core::Forgotten(core::Forgotten::kNever)};
}

// The other verbs need scripts.
bool works_without_scripts(Verb verb) noexcept {
  return verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kRefund ||
         verb == Verb::kReset;
}

}  // namespace

bool CounterOperation::prepare(const Request& request) noexcept try {
  request_ = request;
  counters_.clear();
  counter_of_.clear();
  steps_.clear();
  failure_ = Reason::kOk;
  is_second_round_ = false;
  // A settlement that charges nothing more.
  const bool gives_back =
      request.action.verb == Verb::kCharge &&
      std::all_of(request.charges.begin(), request.charges.end(),
                  [](const Charge& charge) { return charge.gives_back || charge.cost == 0; });
  if (gives_back) request_.action = Verb::kRefund;
  const Instant at = request.now ? *request.now : options_.clock->now();
  now_ = at.time_since_epoch().count();
  bool is_valid = works_without_scripts(request_.action.verb) && !request.charges.empty() &&
                  request.charges.size() <= kMaxCharges &&
                  request.each.size() == request.charges.size() && at >= kFirstInstant &&
                  at <= kLastInstant;
  for (std::size_t i = 0; is_valid && i < request.charges.size(); ++i) {
    is_valid = (gives_back || !request.charges[i].gives_back) && add(request.charges[i]);
  }
  if (!is_valid) {
    refuse(Reason::kInvalid, request.each);
    return false;
  }
  for (Counter& counter : counters_) begin(counter);
  return true;
} catch (const std::bad_alloc&) {
  refuse(Reason::kStoreError, request.each);
  return false;
}

// False: the limit or a block needs scripts, or contradicts another charge on its counter.
bool CounterOperation::add(const Charge& charge) {
  if (!works_without_scripts(charge.limit) || charge.block != nullptr) return false;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    Counter& counter = counters_[i];
    if (!is_same_counter(*counter.charge, charge)) continue;
    if (counter.charge->limit != charge.limit) return false;
    counter.cost += std::min(charge.cost, kMaxUnits + 1);
    counter_of_.push_back(i);
    return true;
  }
  counter_of_.push_back(counters_.size());
  Counter& counter = counters_.emplace_back();
  counter.charge = &charge;
  counter.cost = std::min(charge.cost, kMaxUnits + 1);  // beyond what any limit holds
  counter.base = base_of(options_.prefix, charge);
  counter.slice = slices::Grid(charge.limit).slice_of(now_);
  counter.counts.assign(live_slices(charge.limit), 0);
  counter.is_there.assign(counter.counts.size(), false);
  return true;
}

void CounterOperation::begin(Counter& counter) {
  // A cost that never fits is not counted: the count could overflow.
  if (request_.action.verb == Verb::kTake && counter.cost > 0 &&
      counter.cost <= counter.charge->limit.capacity()) {
    increment(counter);
  } else {
    Step& newest = add_read(counter);
    newest.append("GET");  // unlike MGET it reports a value that is no string
    newest.append(key_of(counter, 0));
  }
  if (counter.counts.size() > 1) read_older(counter);
}

CounterOperation::Step& CounterOperation::add_step(Counter& counter) {
  Step& step = steps_.emplace_back();
  step.operation = this;
  step.counter = &counter;
  step.slot = slot_of(counter.base);
  return step;
}

CounterOperation::Step& CounterOperation::add_read(Counter& counter) {
  Step& step = add_step(counter);
  step.reads = true;
  return step;
}

std::string CounterOperation::key_of(const Counter& counter, std::uint64_t age) {
  return counter.base + std::to_string(counter.slice - age);
}

// Until the slice has left the window, plus kSlackMs.
std::uint64_t CounterOperation::expiry_ms(const Counter& counter,
                                          std::uint64_t age) const noexcept {
  if (request_.now) return options_.explicit_expiry_ms;
  const slices::Grid grid(counter.charge->limit);
  const core::Ticks end = grid.tick_at(counter.slice - age + counter.counts.size(), 0);
  return static_cast<std::uint64_t>(end - now_) / 1000 + 1 + kSlackMs;
}

void CounterOperation::read_older(Counter& counter) {
  Step& step = add_read(counter);
  step.append("MGET");
  for (std::uint64_t age = 1; age < counter.counts.size(); ++age) {
    step.append(key_of(counter, age));
  }
}

// Creates the slice with its expiry first, so that a connection that ends in between leaves no key
// without an expiry.
void CounterOperation::increment(Counter& counter) {
  const std::string key = key_of(counter, 0);
  write_create(add_step(counter), key, expiry_ms(counter, 0));
  Step& increment = add_step(counter);
  increment.increments = true;
  write_change(increment, "INCRBY", key, counter.cost);
}

void CounterOperation::send() noexcept { submit_from(0); }

void CounterOperation::submit_from(std::size_t first) noexcept {
  const std::size_t end = steps_.size();
  under_way_ = end - first;
  for (std::size_t i = first; i < end; ++i) client_->submit(steps_[i]);
}

void CounterOperation::step_done(Step& step, const Answer& answer) noexcept {
  if (answer.failure == Failure::kNone) {
    take_reply(step, answer);
  } else {
    step_failed(answer);
  }
  if (--under_way_ == 0) next();
}

// Reads the count of the newest slice, or those of all others.
bool CounterOperation::take_counts(Counter& counter, const Reply& reply) noexcept {
  const auto take = [&](std::size_t age, const Reply& one) {
    counter.is_there[age] = one.type != Reply::kNil;
    return read_count(one, counter.counts[age]);
  };
  if (reply.type != Reply::kArray) return take(0, reply);
  if (reply.count == 0 || reply.count + 1 != counter.counts.size()) return false;
  for (std::size_t i = 0; i < reply.count; ++i) {
    if (!take(i + 1, reply[i])) return false;
  }
  return true;
}

void CounterOperation::take_reply(Step& step, const Answer& answer) noexcept {
  std::vector<std::uint32_t>& counts = step.counter->counts;
  const Reply& reply = *answer.reply;
  bool is_read = true;
  if (step.increments) {
    step.is_counted = is_read = reply.type == Reply::kInteger;
    if (is_read)
      counts[0] = count_of(reply.integer - static_cast<std::int64_t>(step.counter->cost));
  } else if (step.reads) {
    is_read = take_counts(*step.counter, reply);
  }
  if (!is_read) failed(Reason::kForeignValue);
}

void CounterOperation::step_failed(const Answer& answer) noexcept {
  if (answer.failure != Failure::kError) return failed_without_reply(answer.failure);
  if (Plan::is_full(answer.text)) return failed(Reason::kStoreFull);
  const bool is_foreign = answer.text.starts_with("WRONGTYPE") ||
                          answer.text.find("not an integer") != std::string_view::npos ||
                          answer.text.find("would overflow") != std::string_view::npos;
  failed(is_foreign ? Reason::kForeignValue : Reason::kStoreError);
}

// Called when all steps are done. A refund or a reset knows its changes only now. A take that a
// full server refuses asks whether its limits deny it anyway.
void CounterOperation::next() noexcept try {
  const bool has_changes =
      request_.action.verb == Verb::kRefund || request_.action.verb == Verb::kReset;
  const bool has_more = has_changes ? failure_ == Reason::kOk : failure_ == Reason::kStoreFull;
  if (!has_more || is_second_round_) return finish();
  is_second_round_ = true;
  const std::size_t first = steps_.size();
  if (!has_changes) {
    read_uncounted();
  } else {
    for (Counter& counter : counters_) {
      request_.action.verb == Verb::kRefund ? refund(counter) : forget(counter);
    }
  }
  if (steps_.size() == first) return finish();
  submit_from(first);
} catch (const std::bad_alloc&) {
  failure_ = Reason::kStoreError;
  finish();
}

// Reads the newest slices that were not incremented.
void CounterOperation::read_uncounted() {
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (!steps_[i].increments || steps_[i].is_counted) continue;
    Step& step = add_read(*steps_[i].counter);
    step.append("GET");
    step.append(key_of(*step.counter, 0));
  }
}

// Gives back units of the newest slices first. Units that others take meanwhile stay.
void CounterOperation::refund(Counter& counter) {
  const std::vector<std::uint32_t> after = counts_after_refund(counter);
  for (std::size_t age = 0; age < after.size(); ++age) {
    if (after[age] == counter.counts[age]) continue;
    const std::string key = key_of(counter, age);
    // The slice may have expired, and DECRBY would create it without an expiry.
    write_create(add_step(counter), key, expiry_ms(counter, age));
    write_change(add_step(counter), "DECRBY", key, counter.counts[age] - after[age]);
  }
  counter.counts = after;
}

// Deletes only slices that were read and are counts.
void CounterOperation::forget(Counter& counter) {
  const bool has_any =
      std::find(counter.is_there.begin(), counter.is_there.end(), true) != counter.is_there.end();
  std::fill(counter.counts.begin(), counter.counts.end(), 0u);
  if (!has_any) return;
  Step& step = add_step(counter);
  step.append("DEL");
  for (std::size_t age = 0; age < counter.is_there.size(); ++age) {
    if (counter.is_there[age]) step.append(key_of(counter, age));
  }
}

void CounterOperation::decide(Counter& counter, std::uint64_t cost) noexcept {
  const Limit& limit = counter.charge->limit;
  counter.answer =
      limit.state_kind() == StateKind::kWindow
          ? core::step(Verb::kPeek, limit, window_of(limit, counter.counts, now_), now_, cost)
                .answer
          : core::step(Verb::kPeek, limit, slices_of(limit, counter.counts, now_), now_, cost)
                .answer;
}

std::vector<std::uint32_t> CounterOperation::counts_after_refund(const Counter& counter) const {
  const Limit& limit = counter.charge->limit;
  std::vector<std::uint32_t> after = counter.counts;
  if (limit.state_kind() == StateKind::kWindow) {
    const auto step =
        core::step(Verb::kRefund, limit, window_of(limit, after, now_), now_, counter.cost);
    after[0] = step.next.units;
  } else {
    const auto step = core::step(Verb::kRefund, limit, slices_of(limit, counter.counts, now_), now_,
                                 counter.cost);
    if (step.change == core::Change::kWrite) step.next.write(after);
  }
  return after;
}

// Gives back what the increments of this request have added.
void CounterOperation::give_back() noexcept {
  bool has_any = false;
  for (const Step& step : steps_) {
    if (!step.is_counted) continue;
    has_any = true;
    give_back(step);
  }
  if (has_any) gave_back_.fetch_add(1, std::memory_order_relaxed);
}

void CounterOperation::give_back(const Step& step) noexcept try {
  const Counter& counter = *step.counter;
  const std::string key = key_of(counter, 0);
  auto create = std::make_unique<Detached>();
  auto change = std::make_unique<Detached>();
  create->slot = change->slot = step.slot;
  write_create(*create, key, expiry_ms(counter, 0));  // as in refund()
  write_change(*change, "DECRBY", key, counter.cost);
  client_->submit(*create.release());
  client_->submit(*change.release());
} catch (const std::bad_alloc&) {
  return;  // fewer units are admitted than possible, never more
}

void CounterOperation::fail() noexcept {
  give_back();  // except for units that may not have been counted
  refuse(failure_, request_.each);
  end();
}

void CounterOperation::finish() noexcept {
  const bool is_full = failure_ == Reason::kStoreFull && request_.action.verb == Verb::kTake;
  if (failure_ != Reason::kOk && !is_full) return fail();
  const bool decides = request_.action.verb == Verb::kTake || request_.action.verb == Verb::kPeek;
  bool all_admit = true;
  for (Counter& counter : counters_) {
    decide(counter, decides ? counter.cost : 0);
    all_admit &= counter.answer.admitted;
  }
  if (is_full && all_admit) return fail();
  if (!all_admit) {
    give_back();
    for (Counter& counter : counters_) {
      if (counter.answer.admitted) decide(counter, 0);
    }
  }
  for (std::size_t i = 0; i < request_.each.size(); ++i) {
    const Counter& counter = counters_[counter_of_[i]];
    core::write(counter.charge->limit, counter.answer, request_.each[i]);
  }
  decision_ = combine(request_.each);
  end();
}

}  // namespace sluice::redis
