#include "tests/redis/plan_store.h"

#include <algorithm>
#include <stdexcept>

namespace sluice_redis {
namespace {

using sluice::Decision;
using sluice::Reason;
using sluice::redis::Plan;
using sluice_property::Answered;
using sluice_property::History;

std::string bulk(std::string_view bytes) {
  return "$" + std::to_string(bytes.size()) + "\r\n" + std::string(bytes) + "\r\n";
}

void refuse(Reason reason, std::span<Decision> each, Decision& all) {
  all = Decision::refused(reason);
  std::fill(each.begin(), each.end(), all);
}

Reason reason_of_error(const sluice::redis::Reply& reply) {
  const std::string_view error = reply.text;
  if (Plan::is_full(error)) return Reason::kStoreFull;
  return Plan::is_foreign_value(error) ? Reason::kForeignValue : Reason::kStoreError;
}

}  // namespace

void ScriptConnection::send(sluice::redis::Command& command) {
  if (!command.has_module_form || dice_() % 100 >= by_module_) return send_script(command);
  std::string bytes;
  command.append_for_module(bytes);
  connection_.append_raw(bytes);
  sent_.push_back({.is_by_module = true});
}

void ScriptConnection::send_script(const sluice::redis::Command& command) {
  if (command.script == nullptr) throw std::runtime_error("a command without a script");
  const sluice::redis::Script& script = *command.script;
  if (loaded_.insert(script.sha1).second) {
    connection_.append({"SCRIPT", "LOAD", script.text});
    sent_.push_back({.loading = &script});
  }
  connection_.append_raw("*" + std::to_string(2 + command.elements) + "\r\n" + bulk("EVALSHA") +
                         bulk(script.sha1) + command.tail);
  sent_.push_back({});
}

Reply ScriptConnection::next() {
  for (;;) {
    Reply reply = connection_.next();
    const auto [loading, is_by_module] = sent_.front();
    sent_.pop_front();
    was_by_module_ = is_by_module;
    if (loading == nullptr) return reply;
    if (RedisConnection::text(reply) != loading->sha1) {
      throw std::runtime_error("script " + std::string(loading->name) + " says it is " +
                               std::string(loading->sha1) + ", Redis says " +
                               RedisConnection::text(reply));
    }
  }
}

PlanStore::Outcome PlanStore::read(std::size_t part) {
  const Reply reply = connection_.next();
  if (reply->type == Reply::kError) {
    error_ = RedisConnection::text(reply);
    if (connection_.was_by_module() && error_.starts_with("OOM ") && plan_.parts() == 1) {
      error_.clear();  // the stores do the same
      PlainCommand command;
      command.write(plan_, part);
      connection_.send_script(command);
      return read(part);
    }
    if (Plan::is_full(error_)) {
      plan_.note_full(part, error_);
      return Outcome::kFull;
    }
    return Plan::is_foreign_value(error_) ? Outcome::kForeign : Outcome::kError;
  }
  switch (plan_.read(part, *reply, connection_.was_by_module())) {
    case Plan::Read::kAllowed: return Outcome::kAllowed;
    case Plan::Read::kDenied: return Outcome::kDenied;
    case Plan::Read::kFull: return Outcome::kFull;
    case Plan::Read::kRepeat: {
      PlainCommand command;
      command.write(plan_, part);
      connection_.send(command);
      return read(part);
    }
    case Plan::Read::kMalformed: break;
  }
  error_ = "a malformed reply";
  return Outcome::kError;
}

Decision PlanStore::apply(sluice::Action action, std::span<const sluice::Charge> charges,
                          std::optional<sluice::Instant> now, std::span<Decision> each) noexcept {
  Decision all;
  error_.clear();
  if (!plan_.begin(options_, action, charges, now)) {
    refuse(Reason::kInvalid, each, all);
    return all;
  }
  PlainCommand command;
  for (std::size_t i = 0; i < plan_.parts(); ++i) {
    command.write(plan_, i);
    connection_.send(command);
  }
  std::vector<Outcome> outcomes;
  for (std::size_t i = 0; i < plan_.parts(); ++i) outcomes.push_back(read(i));
  const auto count = [&](Outcome o) { return std::count(outcomes.begin(), outcomes.end(), o); };
  const bool is_whole = static_cast<std::size_t>(count(Outcome::kAllowed)) == outcomes.size();
  const bool is_answered = static_cast<std::size_t>(count(Outcome::kAllowed) +
                                                    count(Outcome::kDenied)) == outcomes.size();
  const bool is_of_id = sluice::changes_permit(action.verb) || sluice::needs_id(action.verb);
  const bool undoes = sluice::takes(action.verb) ||
                      (is_of_id && action.verb != sluice::Verb::kRelease && is_answered);
  for (std::size_t i = 0; i < plan_.parts(); ++i) {
    if (!undoes || is_whole || outcomes[i] != Outcome::kAllowed) continue;
    plan_.write_undo(i, command);
    connection_.send(command);
    const Reply reply = connection_.next();
    if (reply->type == Reply::kError) error_ = "undo: " + RedisConnection::text(reply);
  }
  if (count(Outcome::kForeign) > 0 || count(Outcome::kError) > 0) {
    const bool is_foreign = count(Outcome::kForeign) > 0;
    refuse(is_foreign ? Reason::kForeignValue : Reason::kStoreError, each, all);
  } else if (count(Outcome::kFull) > 0) {
    all = Decision::refused(Reason::kStoreFull);
    plan_.refuse_new(each);
  } else {
    plan_.answer(each, all);
  }
  return all;
}

namespace {

bool has_calendar(const History& history) {
  return std::any_of(history.begin(), history.end(), [](const sluice_property::Step& step) {
    return std::any_of(step.charges.begin(), step.charges.end(),
                       [](const auto& charge) { return charge.spec.calendar.has_value(); });
  });
}

// A script may ask for other windows of a calendar, and the next step has to wait for its answer.
std::vector<Answered> answers_in_turn(ScriptConnection& connection, std::string_view prefix,
                                      const History& history) {
  PlanStore store(connection, std::string(prefix));
  std::vector<Answered> told;
  for (const sluice_property::Step& step : history) {
    told.push_back(sluice_property::apply(store, step));
  }
  return told;
}

}  // namespace

std::vector<Answered> answers(ScriptConnection& connection, std::string_view prefix,
                              const History& history) {
  std::vector<Plan> plans(history.size());
  std::vector<std::vector<sluice::Charge>> charges(history.size());
  std::vector<bool> is_valid(history.size());
  if (has_calendar(history)) return answers_in_turn(connection, prefix, history);
  PlainCommand command;
  for (std::size_t i = 0; i < history.size(); ++i) {
    charges[i] = sluice_property::charges_of(history[i]);
    is_valid[i] = plans[i].begin({.prefix = std::string(prefix), .uses_module = true},
                                 sluice_property::action_of(history[i]), charges[i],
                                 sluice::Instant{sluice::Duration{history[i].at_us}});
    if (!is_valid[i]) continue;
    command.write(plans[i]);
    connection.send(command);
  }
  std::vector<Answered> told(history.size());
  for (std::size_t i = 0; i < history.size(); ++i) {
    Answered& answered = told[i];
    answered.each.resize(history[i].charges.size());
    if (!is_valid[i]) {
      refuse(Reason::kInvalid, answered.each, answered.request);
      continue;
    }
    const Reply reply = connection.next();
    if (reply->type == Reply::kError) {
      refuse(reason_of_error(*reply), answered.each, answered.request);
    } else if (plans[i].read(0, *reply, connection.was_by_module()) == Plan::Read::kMalformed) {
      refuse(Reason::kStoreTimeout, answered.each, answered.request);
    } else {
      plans[i].answer(answered.each, answered.request);
    }
  }
  return told;
}

}  // namespace sluice_redis
