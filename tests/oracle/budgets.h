#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tests/oracle/exact.h"
#include "tests/oracle/spec.h"

namespace sluice_oracle {

struct Counter;

// Units that are kept for a call until the call is settled, at most until `end`.
struct Hold {
  Integer units;
  std::int64_t end = 0;
};

// How the life of an id has ended, and what of it is remembered.
struct Ended {
  enum class How { kExpired, kCancelled, kSettled };
  How how = How::kSettled;
  std::optional<Integer> held = {};  // absent if the id never had a hold
  Integer spent = {};                // kSettled: the actual amount
  bool over = false;                 // kSettled, kCancelled: the answer was "over"
  bool charged = false;              // kExpired: its units were spent at `end`
  std::int64_t end = 0;              // kExpired
  std::int64_t until = 0;            // when it is forgotten
};

// The units spent in the window of the last change, and the ids.
struct Budget {
  Integer spent;
  std::map<std::string, Hold> open;  // also those that have ended since the last change
  std::map<std::string, Ended> ended;
  // The latest end of a hold since none was open. reset_after may use it, so that an implementation
  // need not search all holds.
  std::int64_t latest = 0;
  // Until when an id is known, at least: the largest of all `until`.
  std::int64_t known = 0;
};

Rational consumed_of(const Budget& budget, const Counter& counter, std::int64_t instant);
void take_from(Budget& budget, const Counter& counter, std::int64_t instant, const Integer& cost);
Rational refund_to(Budget& budget, const Counter& counter, std::int64_t instant,
                   const Integer& cost);

// What a counter answers to a call with an id.
struct IdAnswer {
  bool denied = false;    // by the id: "conflict" or "gone"
  bool repeated = false;  // the same call was made before; nothing changes
  bool late = false;      // a settlement whose hold had ended
  bool settles = false;   // and is not a repetition
  bool is_cut = false;    // a settlement of more units than can be stored
  bool was_over = false;  // repeated: the first answer was "over"
  bool is_new = false;    // hold(), take_by_id(): the amount has to fit
  std::int64_t end = 0;   // hold(), extend(): when the hold ends
};

// A call with an id. The functions look the id up at `instant`, and change the counter unless the
// call is denied, repeated, or new to hold() or take_by_id(): open() or spend() follows then.
struct IdCall {
  std::string id;
  Integer units;            // of a hold or a take, or the actual amount of a settlement
  std::int64_t ttl_us = 0;  // of a hold or an extension
};
IdAnswer hold(const Counter& counter, std::int64_t instant, const IdCall& call);
IdAnswer take_by_id(Counter& counter, std::int64_t instant, const IdCall& call);
void open(Counter& counter, std::int64_t instant, const IdCall& call);
void spend(Counter& counter, std::int64_t instant, const IdCall& call);
IdAnswer settle(Counter& counter, std::int64_t instant, const IdCall& call);
IdAnswer cancel(Counter& counter, std::int64_t instant, const IdCall& call);
IdAnswer extend(Counter& counter, std::int64_t instant, const IdCall& call);

// Notes that the answer to the settlement or the cancellation of an id is "over".
void note_over(Counter& counter, const std::string& id);

// Returns whether the id has a hold, or had one or was spent and is remembered.
bool knows_id(const Counter& counter, std::int64_t instant, const std::string& id);

// Returns whether one more hold may be open.
bool has_room_for_hold(const Counter& counter, std::int64_t instant);
// Return whether holds that are open at `instant` may still count at `later`, and whether ids may
// still be known then.
bool may_count_holds(const Counter& counter, std::int64_t instant, std::int64_t later);
bool may_know_ids(const Counter& counter, std::int64_t instant, std::int64_t later);
// Returns what is spent without what is held.
Integer spent(const Counter& counter, std::int64_t instant);

}  // namespace sluice_oracle
