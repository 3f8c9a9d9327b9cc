#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/counter.h"
#include "tests/oracle/spec.h"

// An independent implementation of the limits for tests to compare with. It uses exact rationals
// and plain lists, and finds waits by searching for the first tick at which the answer changes. It
// is slow and simple, and it shares no code with the library.
namespace sluice_oracle {

enum class Verb {
  kTake,
  kPeek,
  kRefund,
  kReset,
  kCharge,
  kTakeAtMost,
  kReserve,
  kHold,    // this and the following need an id
  kSettle,  // the costs are the actual amounts
  kCancel,
  kExtend,
};

// What a request does to its counters.
struct Action {
  Action(Verb what) : verb(what) {}  // NOLINT(google-explicit-constructor)
  Action(Verb what, std::int64_t wait_us) : verb(what), max_wait_us(wait_us) {}

  Verb verb;
  std::int64_t max_wait_us = 0;        // kReserve
  std::optional<std::string> id = {};  // kTake, kHold, kSettle, kCancel, kExtend
  std::int64_t ttl_us = 0;             // kHold, kExtend
};

struct Charge {
  std::string key;
  Spec spec;
  std::uint64_t cost = 1;
  bool alternative = false;  // one of budgets in a row, with the charge before it
};

struct LimitAnswer {
  bool denied = false;
  std::string reason =
      "ok";  // also "limited", "never", "over", "conflict", "too_many_holds", "gone"
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0;
  std::uint64_t spent = 0;  // of a budget, without what its open holds keep
  std::uint64_t held = 0;   // of a budget, by its open holds
  std::int64_t reset_after_us = 0;
  std::optional<std::int64_t> retry_after_us = {};
  std::optional<std::int64_t> delay_us = {};
  // Of an id, if the request is allowed.
  bool repeated = false;           // the same call was made before; nothing changes
  bool late = false;               // a settlement of a hold that had ended
  std::int64_t ends_after_us = 0;  // until the hold ends; 0: there is none
  bool passed_over = false;        // another budget of the row answers
};

struct Answer {
  bool allowed = true;
  // "ok", "limited", "never", "over", "gone", "conflict", "too_many_holds", "invalid"
  std::string reason = "ok";
  std::optional<std::int64_t> retry_after_us = {};
  std::optional<std::int64_t> delay_us = {};
  std::optional<std::uint64_t> taken = {};   // an admitted kTakeAtMost
  std::optional<std::uint64_t> permit = {};  // an admitted request with a concurrency limit
  // Of an id, if the request is allowed: in one of its budgets; the first end of a hold.
  bool repeated = false;
  bool late = false;
  std::int64_t ends_after_us = 0;
  std::vector<LimitAnswer> limits = {};  // one per charge; empty if invalid
};

// All counters, and the verbs. Instants are microseconds since the Unix epoch. Waits start at
// the request's instant, or at the counter's last change if that is later.
class Oracle {
 public:
  Answer apply(const Action& action, const std::vector<Charge>& charges, std::int64_t at_us);

  // Ends a permit, or restarts its lease. "gone" if it has ended, in any of its counters for
  // extend(), and in all of them for release().
  Answer release(std::uint64_t permit, std::int64_t at_us);
  Answer extend(std::uint64_t permit, std::int64_t at_us);

  // Returns the latest instant, at most `seen_us`, at which a counter was forgotten; 0 if none was.
  // At an earlier instant a store may answer from the fresh counter or from the old one.
  std::int64_t last_forgotten(std::int64_t seen_us) const;

 private:
  using Name = std::pair<std::string, Algorithm>;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  struct Kept {
    Counter counter;
    std::int64_t forgotten_from = kNever;
  };
  // The sum of all charges of a request on one counter.
  struct Share {
    Spec spec = {};
    Integer cost = {};
    Integer charges = {};
    std::int64_t instant = 0;
    std::int64_t forgotten_from = kNever;  // when the state `before` is forgotten
    Counter before = {};
    Counter after = {};
    std::int64_t wait = 0;  // of an admitted reservation
    std::optional<IdAnswer> by_id = {};
    LimitAnswer answer = {};
  };
  using Shares = std::map<Name, Share>;

  Share find(const Charge& charge, std::int64_t at_us) const;
  Shares find_all(const std::vector<Charge>& charges, std::int64_t at_us) const;
  void keep(const Name& name, const Counter& counter);
  Answer take_at_most(std::vector<Charge> charges, std::int64_t at_us);

  // Budgets in a row: which of them answers, and if none admits, the least of their waits.
  struct Choice {
    std::size_t charge = 0;
    bool none_admits = false;
    std::optional<std::int64_t> wait_us = {};
  };
  Choice choose(const Action& action, const std::vector<Charge>& charges, std::size_t first,
                std::int64_t at_us) const;
  Answer apply_in_rows(const Action& action, std::vector<Charge> charges, std::int64_t at_us);

  Answer apply_by_id(const Action& action, const std::vector<Charge>& charges, std::int64_t at_us);
  bool admit_by_id(const Action& action, Shares& shares);
  bool change_ids(const Action& action, Shares& shares);
  Answer combine(const std::vector<Charge>& charges, const Shares& shares);

  static void decide(Share& share, bool is_hold = false);
  static void decide_reservation(Share& share, std::int64_t max_wait_us);
  void change(Verb verb, const Name& name, Share& share);
  static void describe(Verb verb, bool allowed, Share& share);

  using ChangePermit = bool (*)(Counter&, std::int64_t instant, std::uint64_t id);
  std::size_t change_permit(std::uint64_t permit, std::int64_t at_us, ChangePermit function);

  std::map<Name, Kept> counters_;
  std::map<std::uint64_t, std::vector<Name>> permits_;  // the counters of each
  std::uint64_t next_permit_ = 1;
};

}  // namespace sluice_oracle
