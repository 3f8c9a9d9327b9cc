#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/rules/rules_files.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// What there is to say about the rules in force.
struct RulesStatus {
  std::uint64_t version = 0;  // 1 for the first rules; counts every swap
  std::vector<std::string> sources;
  Instant loaded_at{};
  std::size_t rules = 0;
  std::size_t limits = 0;
  std::uint64_t reloads = 0;           // of files, that changed the rules
  std::uint64_t failures = 0;          // of files, that were refused; the rules in force stayed
  std::vector<RuleError> last_errors;  // of the newest reading; empty where it went well
  Instant last_failure_at{};           // meaningful where failures > 0
};

// Rules together with what they were read from.
struct ActiveRules {
  std::uint64_t version;
  RuleSet rules;
  std::shared_ptr<const std::vector<RulesText>> texts;  // in the order of the files
};

std::size_t count_limits(const RuleSet& rules) noexcept;

// The rules in force, and their change: validated as a whole, swapped at once, a bad file leaves
// them as they are. They come from files, or from a source that somebody else looks at (follow()).
// What replace() was given holds until the files or the source change, or reload() is called.
//
// Thread-safety: any member from any thread; readers never wait for files or parsing. Ownership:
// borrows the clock. Cost: version() is one atomic load, current() a lock and a counted pointer.
class RulesManager {
 public:
  using Errors = std::vector<RuleError>;

  // Rules from files or directories (of *.yaml, *.yml in the order of their names) as one set, or
  // the built-in example where there are none. Errors: all that is wrong with them.
  static Expected<std::unique_ptr<RulesManager>, Errors> open(
      std::vector<std::string> paths, const Clock& clock = SystemClock::instance(),
      const RuleTerms& terms = {});
  // Rules from another source: what it has now. Errors: as above.
  static Expected<std::unique_ptr<RulesManager>, Errors> open_source(
      std::vector<RulesText> texts, const Clock& clock = SystemClock::instance(),
      const RuleTerms& terms = {});

  // Reads the files again (of a source, what it had last) and puts them in force if their text is
  // another. Answers whether it was (never where the rules are built in). Errors: all that is
  // wrong; also in status().
  Expected<bool, Errors> reload();
  // What the source has now: as reload(), but nothing is done where it had the same before.
  Expected<bool, Errors> follow(std::vector<RulesText> texts);
  // Checks `yaml`, called `name` in errors, and puts it in the place of all files' rules. Errors:
  // what is wrong with it; none where rules other than those of version `expected` are in force.
  Expected<ActiveRules, Errors> replace(std::string yaml, std::string name,
                                        std::optional<std::uint64_t> expected = {});

  // Whether the files look other than when they were last read or reported, and have not changed
  // since the call before: so what is half written is not read. Reports a change once; then
  // reload(). Call it about twice a second. Cost: a stat() for each file.
  bool changed_on_disk();

  RuleSet current() const;
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  ActiveRules active() const;
  RulesStatus status() const;
  bool built_in() const noexcept { return origin_ == Origin::kBuiltIn; }

 private:
  using Texts = std::vector<RulesText>;
  enum class Origin : std::uint8_t { kBuiltIn, kFiles, kSource };

  RulesManager(Origin origin, const Clock& clock, const RuleTerms& terms, RuleSet rules,
               Texts texts);
  Expected<bool, Errors> adopt(FilesRead read);
  ActiveRules activate(RuleSet rules, Texts texts);
  Unexpected<Errors> refuse(Errors errors);

  const Origin origin_;
  std::vector<std::string> paths_;
  const Clock* clock_;
  const RuleTerms terms_;
  std::atomic<std::uint64_t> version_{1};

  mutable std::mutex mutex_;  // held for moments; all that readers see
  ActiveRules active_;
  Instant loaded_at_;
  std::uint64_t reloads_ = 0;
  std::uint64_t failures_ = 0;
  Errors last_errors_;
  Instant last_failure_at_{};

  std::mutex change_mutex_;  // held by whoever changes the rules or looks at the files; taken first
  Picture known_;            // when the files were last read or reported
  Picture last_look_;
  Texts brought_;  // what the source had last, right or wrong
};

}  // namespace sluice::server
