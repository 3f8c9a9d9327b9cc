#include "stores/redis/script/plan.h"

#include <hiredis/hiredis.h>

#include <algorithm>

#include "limiter/combine.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/scripts.h"

namespace sluice::redis {
namespace {

constexpr std::uint64_t number_of(Verb verb) noexcept {
  switch (verb) {
    case Verb::kTake: return format::kTake;
    case Verb::kPeek: return format::kPeek;
    case Verb::kRefund: return format::kRefund;
    case Verb::kReset: break;
  }
  return format::kReset;
}

bool is_in_range(const std::optional<Instant>& now) noexcept {
  return !now || (*now >= kFirstInstant && *now <= kLastInstant);
}

}  // namespace

bool Plan::begin(const PlanOptions& options, Verb verb, std::span<const Charge> charges,
                 std::optional<Instant> now) {
  prefix_ = options.prefix;
  by_slot_ = options.by_slot;
  explicit_expiry_ms_ = options.explicit_expiry_ms;
  verb_ = verb;
  now_ = now;
  count_ = 0;
  parts_.clear();
  counter_of_.clear();
  if (charges.empty() || charges.size() > kMaxCharges || !is_in_range(now)) return false;
  for (const Charge& charge : charges) {
    std::size_t i = 0;
    while (i < count_ && !asked_[i].counter.is_same(charge)) ++i;
    if (i == count_) {
      add_counter(charge);
    } else if (asked_[i].counter.limit() != charge.limit) {
      return false;
    } else {
      asked_[i].counter.add(charge.cost);
    }
    counter_of_.push_back(static_cast<std::uint8_t>(i));
  }
  return true;
}

Plan::Asked& Plan::add_counter(const Charge& charge) {
  if (count_ == asked_.size()) asked_.emplace_back();
  Asked& asked = asked_[count_++];
  asked.counter.begin(charge);
  make_key(charge, asked.key);
  asked.part = part_of(by_slot_ ? std::optional(slot_of(asked.key)) : std::nullopt);
  Part& part = parts_[asked.part];
  ++part.counters;
  part.families = static_cast<FamilySet>(part.families | bit_of(asked.counter.family()));
  return asked;
}

void Plan::make_key(const Charge& charge, std::string& key) const {
  key = prefix_;
  if (charge.keyspace == Keyspace::kRules) key += format::kOfRules;
  key += info(charge.limit.algorithm()).letter;
  key += '{';
  for (const char c : charge.tag) {
    if (c == '%') {
      key += "%25";
    } else if (c == '}') {
      key += "%7D";
    } else {
      key += c;
    }
  }
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

bool Plan::is_single(const Part& part) const noexcept {
  return verb_ == Verb::kTake && !now_ && part.counters == 1;
}

// Everything before the arguments, including the keys.
void Plan::write_keys(std::size_t index, Command& command) const {
  const Part& part = parts_[index];
  command.tail.clear();
  command.elements = 0;
  command.slot = part.slot;
  command.repeatable = false;
  command.append(std::uint64_t{part.counters});
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].part == index) command.append(asked_[i].key);
  }
}

void Plan::write(std::size_t index, Command& command) const {
  const Part& part = parts_[index];
  write_keys(index, command);
  if (is_single(part)) {
    std::string argument;
    const auto is_its = [=](const Asked& asked) { return asked.part == index; };
    const Asked& asked = *std::find_if(asked_.begin(), asked_.end(), is_its);
    command.script = &script_for_one(asked.counter.family());
    asked.counter.append_argument(1, argument);
    return command.append(argument);
  }
  write_request(index, number_of(verb_), &Counter::append_argument, command);
}

void Plan::write_undo(std::size_t index, Command& command) const {
  write_keys(index, command);
  write_request(index, format::kGiveBack, &Counter::append_undo_argument, command);
}

// The arguments of any request.
void Plan::write_request(std::size_t index, std::uint64_t verb, ArgumentOf argument_of,
                         Command& command) const {
  const FamilySet families = parts_[index].families;
  command.script = &script_for(families);
  std::string argument;
  const std::uint64_t instant =
      now_ ? static_cast<std::uint64_t>(now_->time_since_epoch().count()) : format::kServerTime;
  format::kRequest.append({verb, instant, explicit_expiry_ms_}, argument);
  command.append(argument);
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].part != index) continue;
    argument.clear();
    const Counter& counter = asked_[i].counter;
    (counter.*argument_of)(number_of(counter.family(), families), argument);
    command.append(argument);
  }
}

// --- replies ---

Plan::Read Plan::read(std::size_t index, const redisReply& reply) {
  if (reply.type != REDIS_REPLY_STRING || reply.len < format::kInstant.size())
    return Read::kMalformed;
  std::string_view said(reply.str, reply.len);
  const std::uint64_t head = format::kInstant.take(said).value;
  const bool admits = (head & format::kAdmits) != 0;
  const std::uint64_t now = head & ~format::kAdmits;
  if (now >= format::kEndOfInstants) return Read::kMalformed;
  if (now_ && now != static_cast<std::uint64_t>(now_->time_since_epoch().count())) {
    return Read::kMalformed;
  }
  if (!read_counters(index, said, static_cast<core::Ticks>(now))) return Read::kMalformed;
  // Repeats the script's decision. If the two differ, the reply is malformed.
  if (look(index) != admits) return Read::kMalformed;
  parts_[index].admits = admits;
  return admits ? Read::kAllowed : Read::kDenied;
}

bool Plan::read_counters(std::size_t index, std::string_view said, core::Ticks now) {
  const bool is_alone = is_single(parts_[index]);
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].part != index) continue;
    std::size_t size = said.size();
    if (!is_alone) {
      if (said.size() < format::kValueSize.size()) return false;
      size = format::kValueSize.take(said).value;
      if (said.size() < size) return false;
    }
    if (!asked_[i].counter.read(said.substr(0, size), now)) return false;
    said.remove_prefix(size);
  }
  return said.empty();
}

bool Plan::look(std::size_t index) {
  bool all_admit = true;
  for (std::size_t i = 0; i < count_; ++i) {
    if (asked_[i].part != index) continue;
    Counter& counter = asked_[i].counter;
    counter.look(verb_);
    all_admit = all_admit && counter.admits();
  }
  return all_admit;
}

void Plan::answer(std::span<Decision> each, Decision& all) {
  const bool all_admit =
      std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.admits; });
  if (!all_admit) {
    for (std::size_t i = 0; i < count_; ++i) asked_[i].counter.leave_untaken();
  }
  for (std::size_t i = 0; i < each.size(); ++i) asked_[counter_of_[i]].counter.answer(each[i]);
  combine(each, all);
}

bool Plan::is_foreign_value(std::string_view error) noexcept {
  return error.starts_with("WRONGTYPE") || error.find("FOREIGNVALUE") != error.npos;
}

}  // namespace sluice::redis
