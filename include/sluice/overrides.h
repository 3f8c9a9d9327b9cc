#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/calendar.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice {

// What an override gives one key of one limit. A plain value.
struct Override {
  // What counts instead of the limit's own numbers: others, those of another plan, a denial of all
  // requests, or no limit. A block of the key (Charge::block) comes before all of them.
  enum class Kind : std::uint8_t { kNumbers, kPlan, kBlocked, kUnlimited };

  Kind kind = Kind::kNumbers;
  std::uint64_t limit = 0;           // kNumbers: units per period
  std::optional<Duration> per = {};  // kNumbers: the period or lease; absent: that of the limit
  // kNumbers: instead of `per`, windows of the calendar, in the time zone of the limit's own
  // calendar, or in UTC. They begin where the limit's begin if it has the same unit.
  std::optional<CalendarUnit> calendar = {};
  std::optional<std::uint64_t> burst = {};  // kNumbers; absent: the algorithm's default
  std::string plan = {};                    // kPlan: a plan of the rule's file
  std::optional<Instant> until = {};        // when it ends; absent: never

  friend bool operator==(const Override&, const Override&) = default;
};

// Names the counter of a limit of a rule for these attributes, and checks that its key can have the
// override. Errors: which rules, limits, attributes, plans or numbers were expected.
Expected<std::string> name_override(const RuleSet& rules, std::string_view rule,
                                    std::string_view limit, const AttributeSource& attributes,
                                    const Override& given);

// The overrides of a set of rules, by the keys of counters (LimitAnswer::counter).
//
//   sluice::Overrides overrides;
//   const auto key = name_override(rules, "api", "requests", customer, {.limit = 100});
//   if (key) overrides.set(*key, {.limit = 100});
//   sluice::RuleDecider decider(limiter, {.overrides = &overrides});
//
// An override whose plan or numbers the limit cannot have, because the rules have changed since,
// has no effect. Blocks and `unlimited` do not depend on the rules.
//
// Thread-safety: any member from any thread. Ownership: keeps copies. Cost: a request takes one of
// 256 locks for about 20 ns if there are overrides; an override takes about 70 bytes.
class Overrides {
 public:
  static constexpr std::size_t kDefaultMost = 2'000'000;
  // The longest key of a counter that can have an override.
  static constexpr std::size_t kLongestKey = 2048;

  // The maximum number of overrides.
  explicit Overrides(std::size_t most = kDefaultMost);
  ~Overrides();
  Overrides(const Overrides&) = delete;
  Overrides& operator=(const Overrides&) = delete;

  // Sets the override of a counter, or replaces it. Returns whether it is new. Errors: there are as
  // many as there may be, or the key is too long.
  Expected<bool> set(std::string_view counter, const Override& given);
  // Returns whether there was one.
  bool unset(std::string_view counter);
  void clear();
  // Takes all of `next` instead of its own. A request meanwhile finds one of both.
  void replace(Overrides&& next);
  // The override that counts at `now` (absent: by the system's clock).
  std::optional<Override> find(std::string_view counter, std::optional<Instant> now = {}) const;

  // A page of a list.
  struct Page {
    // An override, and the counter that it is for.
    struct Entry {
      std::string counter;
      Override given;
    };
    std::vector<Entry> entries;
    std::optional<std::uint64_t> next = {};  // where the next page begins; absent: nowhere
  };
  // At most `most` overrides, of all rules or of those with a name in any domain, in no order. The
  // pages from 0 on have every override exactly once that is there all the time.
  Page list(std::uint64_t from, std::size_t most,
            const std::optional<std::string>& rule = {}) const;

  // Drops those that have ended. Returns how many.
  std::size_t drop_ended(Instant now);
  // Drops at most `most` of those that have ended, and returns them.
  std::vector<Page::Entry> take_ended(Instant now, std::size_t most);
  // How many there are, with those that have ended and are not dropped yet.
  std::size_t size() const noexcept;
  // How many there may be.
  std::size_t most() const noexcept;
  // The bytes that they take.
  std::size_t bytes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A file of overrides, as a server with a memory store keeps it: a line "sluice overrides 1", for
// each override a line "limit=100 per=1m<TAB>COUNTER", and a line "end COUNT" (docs/keys.md).

// Makes `into` what the file says. A request meanwhile finds an override that was there before and
// still is. Returns whether there is such a file; if not, or after an error, `into` is unchanged.
// Errors: "FILE:LINE: WHAT; EXPECTED", or why the file cannot be read.
Expected<bool> read_overrides(const std::string& path, Overrides& into);

// Writes a new file, flushes it to the disk, and gives it the name of the old one: whenever the
// process ends, the file is whole. Errors: why not; then the old file is unchanged.
Status write_overrides(const std::string& path, const Overrides& from);

}  // namespace sluice
