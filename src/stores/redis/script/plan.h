#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/algorithms.h"
#include "core/block.h"
#include "sluice/clock.h"
#include "sluice/ledger.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {

// Algorithms that one function of a script decides. A script contains the functions that the
// families of its charges need. The table in scripts.cc has a row for each family.
struct Family {
  std::string_view name;
  std::string_view function;  // its name in Lua
};

std::span<const Family> families() noexcept;
const Family& family_of(const Limit& limit) noexcept;

// Appends the numbers of a charge on the limit, as the function of the limit's family reads them.
void append_numbers(const Limit& limit, std::uint64_t cost, std::string& out);

// A set of families: bit i for row i.
using FamilySet = std::uint16_t;
// In it each family has its number in requests for the module.
inline constexpr FamilySet kAllFamilies = 0x1FF;
// A further bit: the script adds the changes of budgets to their ledgers.
inline constexpr FamilySet kWithLedger = kAllFamilies + 1;
FamilySet bit_of(const Family& family) noexcept;
// The number of a family in a script for `set`, from 1.
int number_of(const Family& family, FamilySet set) noexcept;
// Whether counters of one of them can be reserved ahead.
bool can_reserve_ahead(FamilySet set) noexcept;

// Returns the text with the values of the constants of format.h, whose names, and nothing else in
// the .lua files, begin with a k and a capital letter. Throws std::out_of_range for another name.
std::string with_constants(std::string_view lua);

// Returns a part of the .lua files with the values of the constants. A line "part 'NAME'" begins
// one; a line "include 'NAME'" is replaced by a part before it, and "with_ledger 'NAME'" too, in a
// script for a ledger.
const std::string& lua_part(std::string_view name, bool has_ledger = false);

// Appends the Lua that defines the functions of these families and, as the last statements, the
// list `decide` of the functions and the constant `reads_whole`.
void append_functions(FamilySet set, std::string& out);

// Return the script for a take of one charge at the server's time, and the script for any request.
// The first call composes a script, which is kept until the program ends. Thread-safe.
// `with` is kWithLedger or 0.
const Script& script_for_one(const Family& family, FamilySet with = 0);
const Script& script_for(FamilySet set);

// Appends a tag as keys contain it: without '%' and '}'.
void append_tag(std::string_view tag, std::string& key);

// Returns whether scripts read or write blocks for the verb. The others change only counters.
bool uses_blocks(Verb verb) noexcept;

// The block of one counter of a request (Charge::block): its key, its argument for the script, and
// what follows from the reply. As a Counter, it computes with core from the state that the script
// has found.
class KeyBlock {
 public:
  // `counter_key` is the key of the counter, after the prefix. `slot` is its slot in a cluster.
  void begin(const Charge& charge, std::string_view prefix, std::string_view counter_key,
             std::optional<std::uint16_t> slot);
  bool is_used() const noexcept { return charge_ != nullptr; }
  const std::string& key() const noexcept { return key_; }

  // Appends the argument for counter `number` of the script, from 1, and the cost of all charges on
  // it. `may_fit`: a denial is kLimited.
  void append_argument(Action action, std::size_t number, std::uint64_t cost, bool may_fit,
                       std::string& out) const;

  // Reads the block's part of a reply to a request at `now`. Returns false if it is malformed.
  bool read(std::string_view bytes, core::Ticks now);
  // Makes the change that the script has made. deny() is for a denial with kLimited.
  void look() noexcept;
  void deny(Verb verb) noexcept;
  void change(Action action) noexcept;
  bool denies(std::uint64_t cost) const noexcept { return answer_.left > 0 && cost > 0; }
  const core::BlockAnswer& answer() const noexcept { return answer_; }

 private:
  const Charge* charge_ = nullptr;
  std::string key_;
  core::Ticks now_ = 0;
  bool is_written_ = false;  // if the script had to write it
  core::BlockState found_;
  std::vector<core::Ticks> denials_;  // of found_
  core::BlockAnswer answer_;
};

// One counter of a request: the charges on it, the argument for the script, and the decision that
// follows from the reply.
//
// A script returns the state that it found, and this class computes the decision from it with
// core, like every other store. For a log, which may be long, a script returns a few numbers.
class Counter {
 public:
  void begin(const Charge& charge);
  bool is_same(const Charge& charge) const noexcept;
  // Whether a charge on the same counter has the same limit, and the same permit if it needs one.
  bool agrees_with(const Charge& charge) const noexcept;
  // Adds the cost of another charge. A sum beyond all limits stays beyond them.
  void add(const Charge& charge) noexcept;

  const Limit& limit() const noexcept { return charge_->limit; }
  NewKeyLimit* new_keys() const noexcept { return charge_->rule.new_keys; }
  const Family& family() const noexcept { return family_of(limit()); }
  std::uint64_t cost() const noexcept { return cost_; }  // of all charges
  bool gives_back() const noexcept { return gives_back_; }

  // kTakeAtMost: the least cost of a charge; how many charges there are; after decide({kPeek}, 0)
  // the most units that each can have; how many each takes; and that they have been taken.
  std::uint64_t least_cost() const noexcept { return least_cost_; }
  std::uint64_t charges() const noexcept { return charges_; }
  std::uint64_t most_for_each() const noexcept;
  void take_for_each(std::uint64_t units) noexcept { cost_ = units * charges_; }
  void note_taken(std::uint64_t units) noexcept;

  // Appends the argument for a script in which the family has this number.
  void append_argument(int number, std::uint64_t cost, std::string& out) const;
  // As above, for a budget. The other gives back what the action has done.
  void append_budget(int number, Action action, std::uint64_t cost, std::string& out) const;
  void append_budget_undo(int number, Action action, std::string& out) const;
  // Appends what a ledger needs of counter `index` of the script, from 1. `kind` is that of its
  // entry, unless the id says another.
  void append_ledger(std::size_t index, std::string_view kind, std::string& out) const;
  // As above, to take back an extension: the lease ends as long after at() as it would have.
  void append_end_before_extension(int number, std::string& out) const;
  // A limit with a calendar: appends the rest of the argument, which is the window of an instant
  // and the next one. `index` names the counter if the script needs others.
  void append_windows(std::size_t index, core::Ticks of, std::string& out) const;
  // The instant of the counter, after decide().
  core::Ticks at() const noexcept { return at_; }

  // Reads the counter's part of a reply to a request at `now`. Returns false if it is malformed.
  bool read(std::string_view bytes, core::Ticks now) noexcept;

  // Call this after read(). Makes the decision that the script has made, or another about what it
  // has found.
  void decide(Action action) noexcept {
    decide(gives_back_ ? Action(Verb::kRefund) : action, cost_);
  }
  void decide(Action action, std::uint64_t cost) noexcept;
  // Answers without taking units, because another limit denies the request.
  void leave_untaken() noexcept;

  // Of budgets in a row, after decide(): see choose_in_row().
  bool is_alternative() const noexcept { return charge_->alternative; }
  bool chooses(Verb verb) const noexcept;
  bool is_alone() const noexcept { return charges_ == 1; }
  bool knows_id() const noexcept { return knows_id_; }
  void pass_over() noexcept;
  void wait_less(const Counter& other) noexcept;

  // Returns whether the script has found nothing, so that a take has created the counter.
  bool is_new() const noexcept { return is_new_; }
  bool admits() const noexcept { return answer_.admitted; }
  bool is_limited() const noexcept;  // it denies the charge for that reason
  void answer(Decision& decision) const noexcept;

  // For the plan that the counter belongs to.
  bool has_block_in(std::size_t index) const noexcept {
    return block_part == index && block.is_used();
  }
  KeyBlock block;
  std::string key;                  // in Redis
  std::size_t part = 0;             // the number of its part
  std::size_t block_part = 0;       // and of the part of its block
  std::string ledger;               // the key of its ledger; empty: it has none
  std::optional<core::Ticks> near;  // the instant whose windows the script needs, if it said so
  std::optional<core::Ticks> past;  // the same for a hold that has ended, for the ledger
  bool must_exist = false;          // because NewKeyLimit does not allow another one
  bool is_refused = false;          // because it would be a new one

 private:
  bool read_log(std::string_view bytes) noexcept;
  bool read_permits(std::string_view bytes) noexcept;
  bool read_budget(std::string_view bytes) noexcept;
  core::Answer decide_permits(Verb verb, std::uint64_t cost) const noexcept;
  core::budget::Made decide_budget(Action action, std::uint64_t cost) const noexcept;
  bool has_id() const noexcept { return charge_->permit != nullptr; }

  const Charge* charge_ = nullptr;
  bool is_new_ = false;
  std::uint64_t cost_ = 0;
  bool gives_back_ = false;
  std::uint64_t least_cost_ = 0;
  std::uint64_t charges_ = 0;
  core::Ticks now_ = 0;  // of the request
  core::Ticks at_ = 0;
  PermitId permit_;
  // What the script has found. Only one of the five has a value, by the limit's kind.
  core::Kept<core::State> state_;
  std::vector<std::uint32_t> counts_;  // of `slices_`
  core::Kept<core::Slices> slices_;
  core::Kept<core::LogReport> log_;
  format::PermitsReply permits_;
  format::BudgetReply budget_;
  std::uint64_t spent_after_ = 0;  // of a budget, with the change
  bool is_changed_ = false;        // a budget
  bool knows_id_ = false;          // a budget
  bool is_passed_over_ = false;
  core::Answer answer_;
};

// Returns the least number whose decimal digits are in the slot of a cluster.
std::uint32_t number_in_slot(std::uint16_t slot);

// What all requests of one store have in common.
struct RequestOptions {
  std::string prefix;     // of every key
  bool by_slot = false;   // a cluster: one call for the counters of each slot
  bool scripting = true;  // false: Operation uses no scripts
  // How long to keep keys that are decided at an explicit timestamp.
  std::uint64_t explicit_expiry_ms = 86'400'000;
  // The time of requests without scripts, and that of NewKeyLimit, unless the request has an
  // explicit timestamp.
  const Clock* clock = &SystemClock::instance();
  // About how many changes of a budget its ledger keeps; 0: there is none.
  std::uint64_t ledger_keep = 0;
  bool uses_module = false;  // if the server has it
};

// One request to Redis, without I/O: its counters (charges on one counter count together), the
// script call for the counters of each slot, and the decisions that follow from the replies.
//
//   begin() -> write() each part -> read() each part's reply -> [write_undo() if another part
//   denied or failed] -> answer()
//
// Keeps its buffers from one request to the next. Ownership: borrows the charges until answer().
class Plan {
 public:
  // Returns false if the request is kInvalid.
  bool begin(const RequestOptions& options, Action action, std::span<const Charge> charges,
             std::optional<Instant> now);

  // The number of script calls: one except in a cluster, at most one for each key.
  std::size_t parts() const noexcept;
  // Fills in script, elements, tail, has_module_form, is_divisible and slot, and removes their
  // previous values.
  void write(std::size_t part, Command& command);
  // Makes a part of each key of a part that is divisible, because the keys are on two servers while
  // their slot moves. The first one stays the part. A block alone denies, but counts no denials.
  void divide(std::size_t part);
  // False: the part is a block alone, and there is nothing to undo.
  bool has_counters(std::size_t part) const noexcept { return parts_[part].counters > 0; }
  // Appends the call of a part that was written as a command of the module.
  void append_for_module(std::size_t part, std::string& out);

  enum class Read : std::uint8_t {
    kAllowed,   // this part admits; a take has taken its units
    kDenied,    // this part denies; nothing was taken
    kFull,      // this part needs counters that its charges must not create; nothing was taken
    kRepeat,    // this part needs other windows of a calendar: write() and send it again
    kMalformed  // the reply is not that of a script of Sluice
  };
  Read read(std::size_t part, const Reply& reply, bool is_by_module = false);

  // Fills in the call that undoes an allowed take or extension of this part. It never gives back
  // more units than are still consumed, so take and undo together admit nothing more. Its reply is
  // ignored.
  void write_undo(std::size_t part, Command& command);

  // Call this after a read() of every part. Returns the answer to each charge and to the request.
  // If one part denied, the answers of the others are those without the take.
  void answer(std::span<Decision> each, Decision& all);

  // Notes which counters of a part such an error (is_full()) refuses: all, if it names none. read()
  // does so for kFull.
  void note_full(std::size_t part, std::string_view error) noexcept;
  // Answers each charge after note_full(): kStoreFull if its counter was refused, else the default.
  void refuse_new(std::span<Decision> each) const noexcept;

  // Returns whether the text of an error reply means that a key holds a foreign value.
  static bool is_foreign_value(std::string_view error) noexcept;
  // Returns whether it means that the server makes no new counter now: it has no memory, or the
  // slot moves.
  static bool is_full(std::string_view error) noexcept;

 private:
  // The counters of one slot.
  struct Part {
    std::optional<std::uint16_t> slot;
    std::uint16_t counters = 0;
    std::uint16_t blocks = 0;
    std::uint16_t ledgers = 0;
    FamilySet families = 0;
    bool must_exist = false;  // a counter must
    bool has_rows = false;    // of budgets
    bool admits = false;
  };

  std::span<Counter> counters() noexcept { return std::span(counters_).first(count_); }
  auto of_part(std::size_t index);  // the counters of a part
  auto of_part(std::size_t index) const;
  bool begin_take_at_most() noexcept;
  Counter& add_counter(const Charge& charge);
  void note_limit(std::size_t counter, const Charge& charge);
  void count_new(std::size_t part) noexcept;
  void make_key(const Charge& charge, std::string& key) const;
  Instant clock_time() const noexcept { return now_ ? *now_ : options_.clock->now(); }
  std::size_t part_of(std::optional<std::uint16_t> slot);
  std::uint64_t script_verb(const Part& part) const noexcept;
  std::uint64_t flagged_verb(const Part& part) const noexcept;
  bool is_single(const Part& part) const noexcept;
  bool is_divisible(std::size_t part) const noexcept;
  static std::uint32_t count_keys(const Part& part, bool with_blocks) noexcept;
  void write_keys(std::size_t part, bool with_blocks, Command& command) const;
  void append_keys(std::size_t part, bool with_blocks, std::string& out) const;
  void write_request(std::size_t part, std::uint64_t verb, Command& command);
  void append_blocks(std::size_t part, std::string& out) const;
  void append_request(std::uint64_t verb, std::string& out) const;
  void write_ledgers(std::size_t part, bool is_undo, Command& command);
  void append_ledgers(std::size_t part, bool is_undo, std::string& out) const;
  void append_argument(const Counter& counter, FamilySet families, std::uint64_t verb,
                       std::string& out) const;
  Read read_status(std::size_t part, std::string_view text) noexcept;
  bool note_windows(std::size_t part, std::string_view text) noexcept;
  bool read_counters(std::size_t part, bool is_alone, std::string_view& rest, core::Ticks now);
  bool read_blocks(std::size_t part, std::string_view& rest, core::Ticks now);
  void share_units() noexcept;
  bool decide(std::size_t part);
  void choose_in_rows(std::size_t part) noexcept;
  bool decide_blocks(std::size_t part, bool all_admit);

  RequestOptions options_;
  Action action_ = Verb::kTake;
  std::uint64_t units_for_each_ = 0;  // kTakeAtMost
  std::optional<Instant> now_;
  std::vector<Counter> counters_;  // the first count_ are of this request
  std::size_t count_ = 0;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> counter_of_;  // of each charge
  std::string argument_;                  // of the call that is being written
};

}  // namespace sluice::redis
