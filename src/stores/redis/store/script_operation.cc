#include "stores/redis/store/script_operation.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <new>

namespace sluice::redis {
namespace {

// Gives back what one part took. Its answer is ignored: later commands on the same connection are
// executed after it.
class GiveBack final : public Command {
 public:
  static void send(Client& client, const Plan& plan, std::size_t part) noexcept {
    auto* const command = new (std::nothrow) GiveBack;
    if (command == nullptr) return;  // fewer units are admitted than possible, never more
    plan.write_undo(part, *command);
    command->keeps_order = true;
    client.submit(*command);
  }
  void done(const Answer&) noexcept override { delete this; }
  bool expects(const redisReply& reply) noexcept override {
    // A status: the window of a calendar is over, and its units with it.
    return reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
  }
};

}  // namespace

bool ScriptOperation::prepare(const Request& request) noexcept try {
  const PlanOptions plan{options_.prefix, options_.by_slot, options_.explicit_expiry_ms,
                         options_.clock, options_.uses_module};
  verb_ = request.action.verb;
  each_ = request.each;
  if (request.each.size() != request.charges.size() ||
      !plan_.begin(plan, request.action, request.charges, request.now)) {
    refuse(Reason::kInvalid, each_);
    return false;
  }
  used_ = plan_.parts();
  while (parts_.size() < used_) parts_.emplace_back();
  for (std::size_t i = 0; i < used_; ++i) {
    Part& part = parts_[i];
    part.operation = this;
    part.index = i;
    part.outcome = Outcome::kUnderWay;
    part.repeats = 0;
    part.is_to_repeat = false;
    plan_.write(i, part);
  }
  return true;
} catch (const std::bad_alloc&) {
  refuse(Reason::kStoreError, each_);
  return false;
}

void ScriptOperation::start(Client& client, Owner& owner) noexcept {
  client_ = &client;
  owner_ = &owner;
  failure_ = Reason::kOk;
  under_way_ = used_;
  // The last answer may end this request and begin another before submit() returns.
  const std::size_t count = used_;
  for (std::size_t i = 0; i < count; ++i) client.submit(parts_[i]);
}

bool ScriptOperation::read(Part& part, const redisReply& reply) noexcept {
  switch (plan_.read(part.index, reply, part.is_by_module)) {
    case Plan::Read::kAllowed: part.outcome = Outcome::kAllowed; return true;
    case Plan::Read::kDenied: part.outcome = Outcome::kDenied; return true;
    case Plan::Read::kFull:
      part.outcome = Outcome::kFailed;
      failed(Reason::kStoreFull);
      return true;
    case Plan::Read::kRepeat: return part.is_to_repeat = true;
    case Plan::Read::kMalformed: break;
  }
  return false;
}

void ScriptOperation::part_done(Part& part, const Answer& answer) noexcept {
  if (part.is_to_repeat && repeat(part)) return;
  if (answer.failure != Failure::kNone) part_failed(part, answer);
  if (--under_way_ == 0) finish();
}

// Sends a part again, of which nothing was counted. Returns false if it fails instead: the clock of
// the server, or a counter, would have to leave its window each time.
bool ScriptOperation::repeat(Part& part) noexcept try {
  constexpr std::uint8_t kMost = 1 + kMaxCharges;  // one for the clock, one for each counter
  part.is_to_repeat = false;
  if (++part.repeats > kMost) {
    part.outcome = Outcome::kFailed;
    failed(Reason::kStoreError);
    return false;
  }
  plan_.write(part.index, part);
  client_->submit(part);
  return true;
} catch (const std::bad_alloc&) {
  part.outcome = Outcome::kFailed;
  failed(Reason::kStoreError);
  return false;
}

void ScriptOperation::part_failed(Part& part, const Answer& answer) noexcept {
  part.outcome = Outcome::kFailed;
  switch (answer.failure) {
    case Failure::kNone: break;
    case Failure::kTimeout:
    case Failure::kLost: return failed(Reason::kStoreTimeout);
    case Failure::kUnavailable: return failed(Reason::kStoreError);
    case Failure::kError:
      if (Plan::is_full(answer.text)) {
        plan_.note_full(part.index, answer.text);
        return failed(Reason::kStoreFull);
      }
      return failed(Plan::is_foreign_value(answer.text) ? Reason::kForeignValue
                                                        : Reason::kStoreError);
  }
}

// A failure after which units may have been counted is the gravest, then a foreign value. A full
// store is the least, because it can answer the charges that it has counters for.
void ScriptOperation::failed(Reason reason) noexcept {
  const auto weight = [](Reason r) {
    if (r == Reason::kStoreTimeout) return 4;
    if (r == Reason::kForeignValue) return 3;
    if (r == Reason::kStoreError) return 2;
    return r == Reason::kStoreFull ? 1 : 0;
  };
  if (weight(reason) > weight(failure_)) failure_ = reason;
}

bool ScriptOperation::any(Outcome outcome) const noexcept {
  return std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(used_),
                     [=](const Part& part) { return part.outcome == outcome; });
}

void ScriptOperation::finish() noexcept {
  const bool has_failed = failure_ != Reason::kOk;
  // A full store has counted nothing, so that the caller can charge the other counters alone.
  const bool undoes = takes(verb_) || (verb_ == Verb::kCharge && failure_ == Reason::kStoreFull);
  if (undoes && (has_failed || any(Outcome::kDenied)) && any(Outcome::kAllowed)) {
    give_back();
  }
  if (has_failed) {
    refuse(failure_, each_);
    if (failure_ == Reason::kStoreFull) plan_.refuse_new(each_);
  } else {
    plan_.answer(each_, decision_);
  }
  owner_->finished(*this);
}

void ScriptOperation::give_back() noexcept {
  for (std::size_t i = 0; i < used_; ++i) {
    if (parts_[i].outcome == Outcome::kAllowed) GiveBack::send(*client_, plan_, i);
  }
  if (options_.gave_back != nullptr) options_.gave_back->fetch_add(1, std::memory_order_relaxed);
}

}  // namespace sluice::redis
