#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/store.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/counter.h"
#include "stores/redis/script/key_block.h"

namespace sluice::redis {

// Options for the calls of scripts.
struct PlanOptions {
  std::string_view prefix;  // of every key
  bool by_slot = false;     // a cluster: one call for the counters of each slot
  // How long to keep keys that are decided at an explicit timestamp.
  std::uint64_t explicit_expiry_ms = 86'400'000;
  // The time of NewKeyLimit, unless the request has an explicit timestamp.
  const Clock* clock = &SystemClock::instance();
  bool uses_module = false;  // also writes each call as a command of the module
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
  bool begin(const PlanOptions& options, Action action, std::span<const Charge> charges,
             std::optional<Instant> now);

  // The number of script calls: one except in a cluster, at most kMaxCharges.
  std::size_t parts() const noexcept;
  // Fills in script, elements, tail, for_module and slot, and removes their previous values.
  void write(std::size_t part, Command& command) const;

  enum class Read : std::uint8_t {
    kAllowed,   // this part admits; a take has taken its units
    kDenied,    // this part denies; nothing was taken
    kFull,      // this part needs counters that its charges must not create; nothing was taken
    kRepeat,    // this part needs other windows of a calendar: write() and send it again
    kMalformed  // the reply is not that of a script of Sluice
  };
  Read read(std::size_t part, const redisReply& reply, bool is_by_module = false);

  // Fills in the call that undoes an allowed take of this part. It never gives back more units than
  // are still consumed, so take and undo together admit nothing more. Its reply is ignored.
  void write_undo(std::size_t part, Command& command) const;

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
  // Returns whether it means that the server has no memory for a new counter.
  static bool is_full(std::string_view error) noexcept;

 private:
  // A counter, its key in Redis, and the number of its part.
  struct KeyedCounter {
    Counter counter;
    KeyBlock block;
    std::string key;
    std::size_t part = 0;
    std::optional<core::Ticks> near;  // the instant whose windows the script needs, if it said so
    bool must_exist = false;          // because NewKeyLimit does not allow another one
    bool is_refused = false;          // because it would be a new one
  };
  // The counters of one slot.
  struct Part {
    std::optional<std::uint16_t> slot;
    std::uint16_t counters = 0;
    std::uint16_t blocks = 0;
    FamilySet families = 0;
    bool must_exist = false;  // a counter must
    bool admits = false;
  };

  bool begin_take_at_most() noexcept;
  KeyedCounter& add_counter(const Charge& charge);
  void note_limit(std::size_t counter, const Charge& charge);
  void count_new(std::size_t part) noexcept;
  void make_key(const Charge& charge, std::string& key) const;
  std::size_t part_of(std::optional<std::uint16_t> slot);
  std::uint64_t script_verb(const Part& part) const noexcept;
  bool is_single(const Part& part) const noexcept;
  void write_keys(std::size_t part, bool with_blocks, Command& command) const;
  void write_request(std::size_t part, std::uint64_t verb, Command& command) const;
  void append_blocks(std::size_t part, std::string& out) const;
  void append_request(std::uint64_t verb, std::string& out) const;
  void append_argument(const KeyedCounter& keyed, FamilySet families, std::uint64_t verb,
                       std::string& out) const;
  void write_for_module(std::size_t part, Command& command) const;
  Read read_status(std::size_t part, std::string_view text) noexcept;
  bool note_windows(std::size_t part, std::string_view text) noexcept;
  bool read_counters(std::size_t part, bool is_alone, std::string_view& rest, core::Ticks now);
  bool read_blocks(std::size_t part, std::string_view& rest, core::Ticks now);
  void share_units() noexcept;
  bool decide(std::size_t part);
  bool decide_blocks(std::size_t part, bool all_admit);

  std::string prefix_;
  bool by_slot_ = false;
  bool uses_module_ = false;
  std::uint64_t explicit_expiry_ms_ = 0;
  Action action_ = Verb::kTake;
  std::uint64_t units_for_each_ = 0;  // kTakeAtMost
  std::optional<Instant> now_;
  const Clock* clock_ = nullptr;
  std::vector<KeyedCounter> counters_;  // the first count_ are of this request
  std::size_t count_ = 0;
  std::vector<Part> parts_;
  std::vector<std::uint8_t> counter_of_;  // of each charge
};

}  // namespace sluice::redis
