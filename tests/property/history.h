#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/limit.h"
#include "sluice/store.h"
#include "tests/oracle/oracle.h"

// Histories of requests at stated instants, told to a store and to the oracle.
namespace sluice_property {

// The limit that the spec describes, made by the library. Ends the program where it refuses one
// that the oracle accepts.
sluice::Limit limit_of(const sluice_oracle::Spec& spec);
sluice::LimitSpec limit_spec_of(const sluice_oracle::Spec& spec);

// One request.
struct Step {
  sluice_oracle::Verb verb = sluice_oracle::Verb::kTake;
  std::vector<sluice_oracle::Charge> charges;
  std::int64_t at_us = 0;
};
using History = std::vector<Step>;

// The same in the library's terms. Borrows the keys.
sluice::Verb verb_of(sluice_oracle::Verb verb);
std::vector<sluice::Charge> charges_of(const Step& step);

// What a store answered to one step.
struct Answered {
  sluice::Decision request;
  std::vector<sluice::Decision> each;
};
Answered apply(sluice::Store& store, const Step& step);

// How the store's answer differs from the oracle's, field by field; empty if it does not.
std::string difference(const sluice_oracle::Answer& expected, const Answered& actual);

std::vector<sluice_oracle::Answer> oracle_answers(const History& history);

// A step at which a store and the oracle part, and how.
struct Disagreement {
  std::size_t step = 0;
  std::string what;
};
using StoreMaker = std::function<std::unique_ptr<sluice::Store>()>;
std::optional<Disagreement> first_disagreement(const History& history,
                                               const std::vector<sluice_oracle::Answer>& expected,
                                               const StoreMaker& make_store);

// A shorter and simpler history on which they still part. `history` is one on which they do.
History minimal(History history, const StoreMaker& make_store);

// One line for each step, as `sluice decide` reads it.
std::string to_json_lines(const History& history);
std::string to_json(const Step& step);
std::string to_json(const sluice_oracle::Spec& spec);

}  // namespace sluice_property
