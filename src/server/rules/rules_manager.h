#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "rules/rule_changes.h"
#include "server/rules/rules_files.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// The name of the built-in rules, which are active if no rules are configured.
inline constexpr std::string_view kBuiltInName = "built-in";

// The text of these rules: an example to try.
std::string_view built_in_rules() noexcept;

// Another value of a key of a rule or of a plan, in this process only and on top of the active
// rules, whose texts stay as they are. A plain value.
struct TemporaryChange {
  std::string rule;              // or a plan
  std::string key;               // "mode", "on_store_error"; of a limit: "limit", "per"
  std::string value;             // "shadow", "deny", "20"
  std::optional<Instant> until;  // absent: until other rules are active
  // False: the active rules have no such rule or limit, or no such value of it.
  bool has_effect = true;
  std::string limit = {};  // the one with the key; empty: the rule has it
  bool of_plan = false;

  std::string place() const;  // "login"; of a plan "plans/free"
  std::string name() const;   // "mode"; of a limit "user.per"
  // Whether both are of one limit, or of one rule itself.
  bool is_of_same(const TemporaryChange& other) const;
};

// Writes the change into the texts of rules. Returns false if they have no such rule or limit.
bool write_change(std::vector<RulesText>& texts, const TemporaryChange& change);

// The state of the active rules.
struct RulesStatus {
  std::uint64_t version = 0;  // 1 for the first rules; counts every swap
  std::vector<std::string> sources;
  Instant loaded_at{};
  std::string by = {};  // who or what has made them active
  // What a source of other rules said that it is: "push 7 to Redis by alice@host". Empty: there is
  // no such source.
  std::string source = {};
  std::size_t rules = 0;
  std::size_t limits = 0;
  std::size_t warnings = 0;
  static constexpr std::size_t kFirst = 3;
  std::vector<RuleError> first_warnings = {};  // at most kFirst
  std::uint64_t reloads = 0;                   // reloads of files that changed the rules
  std::uint64_t failures = 0;                  // reloads of files that were refused
  std::vector<RuleError> last_errors;          // of the latest reading; empty if it succeeded
  Instant last_failure_at{};                   // only meaningful if failures > 0
  // Set while the rules of a source cannot be read, so that those from before are active.
  std::optional<Instant> lost_since = {};
  std::string why_lost = {};
  std::optional<Instant> older_since = {};  // the source came back with older rules
  std::string why_older = {};
  bool from_cache = false;  // the server started with those that it had last
  std::vector<TemporaryChange> temporary = {};
  // What the administration has changed since the files or the source were last read, without
  // temporary changes; and who made the latest change.
  std::vector<rules::RuleDifference> differences = {};
  std::string differ_by = {};
  // Which of these changes the latest reading has undone: other values, or absent.
  std::vector<rules::RuleDifference> undone = {};

  std::string undone_text() const;  // "login/ip: limit 10 -> 5; rule api: mode shadow -> enforce"
};

// The rules with the texts they were read from.
struct ActiveRules {
  std::uint64_t version;
  RuleSet rules;
  std::shared_ptr<const std::vector<RulesText>> texts;  // in file order
};

std::size_t count_limits(const RuleSet& rules) noexcept;

// Rules that are or were active.
struct PastRules {
  std::uint64_t version = 0;
  Instant at{};                            // when they became active
  std::string by;                          // who or what made them active
  std::vector<TemporaryChange> temporary;  // on top of the texts
  std::shared_ptr<const std::vector<RulesText>> texts;

  std::size_t bytes() const noexcept;
};

// Holds the active rules and replaces them: a set is validated as a whole and swapped at once; an
// invalid file leaves the active rules unchanged. Rules come from files, or from a source that the
// caller watches (follow()). Rules given to replace() or revise() stay active until the files or
// the source change, or reload() is called. Only rules from files read lists (`in: FILE`); a change
// of a list is a change of the files.
//
// Thread-safety: any member from any thread; readers never wait for files or parsing. Ownership:
// borrows the clock. Cost: version() is one atomic load; current() is a lock and a reference count.
class RulesManager {
 public:
  using Errors = std::vector<RuleError>;

  // Opens files and directories (of *.yaml and *.yml in the order of their names) as one set, or
  // the built-in example if there are none. Errors: all errors of the files.
  static Expected<std::unique_ptr<RulesManager>, Errors> open(
      std::vector<std::string> paths, const Clock& clock = SystemClock::instance(),
      const RuleTerms& terms = {});
  // Opens the present rules of another source. `by`: what they are there. Errors: as above.
  static Expected<std::unique_ptr<RulesManager>, Errors> open_source(
      std::vector<RulesText> texts, const Clock& clock = SystemClock::instance(),
      const RuleTerms& terms = {}, std::string by = {});

  // Reads the files again, or the last texts of a source, and activates them if a text has changed.
  // Returns whether one had changed (never for built-in rules). Errors: all errors of the files;
  // they are also in status().
  Expected<bool, Errors> reload();
  // Takes the present rules of a source: as reload(), but does nothing if the texts are unchanged.
  // `by` is for the history, and RulesStatus::source.
  Expected<bool, Errors> follow(std::vector<RulesText> texts, std::string by);
  // Validates `yaml`, named `name` in errors, and activates it instead of the rules of all files.
  // Errors: all errors of the text; empty if the active version is not `expected`.
  // `by` is for the history; empty: `name`.
  Expected<ActiveRules, Errors> replace(std::string yaml, std::string name,
                                        std::optional<std::uint64_t> expected = {},
                                        std::string by = {});

  // Returns the rules that replace() would make active. Errors: as replace().
  Expected<RuleSet, Errors> validate(std::string yaml, std::string name) const;
  // Returns the rules that revise() would make active. Errors: all errors of the texts.
  Expected<RuleSet, Errors> check(std::vector<RulesText> texts) const;
  // Validates other texts of the active rules and activates them. Texts of files may name the lists
  // that they named before, so give it only texts in which other values were written.
  // Errors: as replace().
  Expected<ActiveRules, Errors> revise(std::vector<RulesText> texts, std::uint64_t expected,
                                       std::string by);

  // Puts the changes on top of the active rules, in place of earlier ones of the same keys. Those
  // with an end also hold for later rules that have the rule, and leave those without an end below
  // them, which count again afterwards. Reads files only for numbers of limits: the lists of the
  // rules, which are parsed again. Errors: the rules are wrong with the numbers; nothing has
  // changed then.
  Expected<ActiveRules, Errors> change_for_now(const std::vector<TemporaryChange>& changes,
                                               std::string by);
  // Ends temporary changes, and returns those that have ended. Reads files as above, if numbers of
  // limits stay changed.
  std::vector<TemporaryChange> end_changes(
      const std::function<bool(const TemporaryChange&)>& has_ended);

  // Reports that the rules of the source cannot be read. It counts as a reload that failed, and
  // status() reports it until found() is called. `from_cache`: see RulesStatus.
  void lose(RuleError why, bool from_cache = false);
  void found();
  // Reports that the source came back with older rules than it had, which are active now. status()
  // reports it for an hour, or until the source has others.
  void go_back(std::string why);

  // Returns whether the files differ from when they were last read or reported, and have not
  // changed since the previous call, so half-written files are not read. Reports each change once;
  // then call reload(). Call it about twice a second. Cost: one stat() for each file
  // and list.
  bool changed_on_disk();

  RuleSet current() const;
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  ActiveRules active() const;
  RulesStatus status() const;
  // The warnings about the active rules, and about temporary changes without effect, that there
  // were not at the previous call.
  std::vector<std::string> new_warnings();
  // The active rules and those before them, the latest first: at most kMostPast, and of the earlier
  // ones at most kMostPastBytes of text.
  std::vector<PastRules> history() const;
  static constexpr std::string_view kStart = "the start";
  static constexpr std::chrono::hours kShown{1};  // for go_back()
  static constexpr std::size_t kMostPast = 50;
  static constexpr std::size_t kMostPastBytes = std::size_t{8} << 20;
  bool built_in() const noexcept { return !from_source_ && paths_.empty(); }
  bool from_source() const noexcept { return from_source_; }

 private:
  using Texts = std::vector<RulesText>;

  // Parses the rules of files. `lists`: how their list files (`in: FILE`) looked before they were
  // read.
  static Expected<RuleSet, Errors> parse_files(FilesRead& read, const RuleTerms& terms,
                                               Picture& lists);
  RulesManager(bool from_source, std::vector<std::string> paths, const Clock& clock,
               const RuleTerms& terms, RuleSet rules, Texts texts);
  Expected<bool, Errors> adopt(FilesRead read, std::string by);
  Expected<RuleSet, Errors> parse_again(Texts texts, Picture& lists) const;
  void watch(const Picture& more);
  Expected<RuleSet, Errors> with_changes(const RuleSet& rules, const Texts& texts,
                                         std::vector<TemporaryChange>& changes) const;
  RuleSet with_fitting(const RuleSet& rules, const Texts& texts,
                       std::vector<TemporaryChange>& changes) const;
  ActiveRules activate(RuleSet rules, Texts texts, std::string by);
  ActiveRules swap(RuleSet rules, std::shared_ptr<const Texts> texts,
                   std::vector<TemporaryChange> temporary, std::string by);
  Unexpected<Errors> refuse(Errors errors);

  const bool from_source_;
  const std::vector<std::string> paths_;  // as opened; none: a source, or the built-in rules
  const Clock* clock_;
  const RuleTerms terms_;
  std::atomic<std::uint64_t> version_{1};

  mutable std::mutex mutex_;  // held briefly; guards what readers see
  ActiveRules active_;
  std::deque<PastRules> past_;  // the active rules first
  // What status() fills in is not kept here. `temporary` changes with both locks.
  RulesStatus status_;
  RuleError why_lost_;
  std::set<std::string> warned_;

  std::mutex change_mutex_;  // held while rules change or files are examined; locked before mutex_
  RuleSet unchanged_;        // the active rules without temporary changes
  Picture lists_;            // the list files of the active rules
  Picture refused_lists_;    // those of the latest reading, if it was refused
  Picture known_;            // the files and lists when last read or reported
  Picture last_look_;
  Texts read_;     // of the files or the source, as last taken
  Texts brought_;  // the last texts of the source, valid or not
};

}  // namespace sluice::server
