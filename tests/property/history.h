#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/limit.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"
#include "tests/oracle/oracle.h"

// Histories of requests at explicit timestamps, for a store and the oracle.
namespace sluice_property {

// Makes the limit of the spec with the library. Aborts the program if the library refuses a limit
// that the oracle accepts.
sluice::Limit limit_of(const sluice_oracle::Spec& spec);
sluice::LimitSpec limit_spec_of(const sluice_oracle::Spec& spec);

// One request.
struct Step {
  sluice_oracle::Verb verb = sluice_oracle::Verb::kTake;
  std::vector<sluice_oracle::Charge> charges;
  std::int64_t at_us = 0;
  std::int64_t max_wait_us = 0;        // kReserve
  std::optional<std::string> id = {};  // of a budget
  std::int64_t ttl_us = 0;             // kHold, kExtend
};
using History = std::vector<Step>;

// Returns the verb of a step and its options.
sluice_oracle::Action oracle_action(const Step& step);

// Conversions to the library's types. They borrow the keys, and `id`, the name of the step's id.
sluice::Verb verb_of(sluice_oracle::Verb verb);
sluice::Action action_of(const Step& step);
std::vector<sluice::Charge> charges_of(const Step& step, const sluice::PermitId* id = nullptr);

// A store's answer to one step.
struct Answered {
  sluice::Decision request;
  std::vector<sluice::Decision> each;
};
Answered apply(sluice::Store& store, const Step& step);

// Describes the differences between the two answers, field by field; empty if they are equal.
std::string difference(const sluice_oracle::Answer& expected, const Answered& actual);

std::vector<sluice_oracle::Answer> oracle_answers(const History& history);

// A step at which a store and the oracle differ, and the difference.
struct Disagreement {
  std::size_t step = 0;
  std::string what;
};
using StoreMaker = std::function<std::unique_ptr<sluice::Store>()>;
std::optional<Disagreement> first_disagreement(const History& history,
                                               const std::vector<sluice_oracle::Answer>& expected,
                                               const StoreMaker& make_store);

// Returns a shorter and simpler history on which they still differ. They must differ on `history`.
History minimal(History history, const StoreMaker& make_store);

// Formats each step as one line that `sluice decide` reads.
std::string to_json_lines(const History& history);
std::string to_json(const Step& step);
std::string to_json(const sluice_oracle::Spec& spec);

}  // namespace sluice_property
