#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule.h"

namespace sluice {

// One error of a rules file, with its line and column, both counted from 1. A plain value.
struct RuleError {
  std::string file;
  int line = 1;
  int column = 1;
  std::string what;         // "unknown key 'limt'"
  std::string expected;     // "expected one of: name, key, algorithm, ..."
  bool is_warning = false;  // the rules work in spite of it

  // Returns "FILE:LINE:COLUMN: error: WHAT; EXPECTED", or the same with "warning".
  std::string to_string() const;
};

// The text of a rules file. A plain value that borrows both texts.
struct RuleText {
  std::string_view file;  // the name for errors
  std::string_view yaml;
};

// What the store requires of the rules besides their format. A plain value.
struct RuleTerms {
  // False: limits that a Redis store without scripts does not support are errors (RedisOptions).
  // It supports fixed windows that are aligned to the clock, and sliding window counters.
  bool scripting = true;
  // The bytes for window logs of a memory store (MemoryStoreOptions). A limit whose log can need
  // more than one log gets causes a warning. 0: no limit does.
  std::size_t max_log_bytes = 0;
  // Why limits of `concurrency` are errors: it follows "'concurrency' needs permits, ". Empty: they
  // are not.
  std::string_view no_permits = {};
  // Whether another server assigns parts of the limits (docs/quota.md): limits that cannot be
  // divided, and blocks, are errors.
  bool assigned = false;
  // False: a limit with a quota lease causes a warning, because the store decides in this process
  // and takes no leases.
  bool leases = true;
  // Whether the store is Redis, which does nothing else while it decides a request. A limit whose
  // requests can take it longer than 1 ms (permits) or 10 ms (logs) causes a warning.
  bool in_redis = false;
  // Whether it is a Redis Cluster, in which limits with `overflow` need a `tag`: an error without.
  bool in_cluster = false;
  // Whether `in: FILE` reads a list, relative to the folder of the rules file. RuleSet::load()
  // always does. Else it is an error, so that rules from elsewhere cannot read files.
  bool reads_lists = false;
  // Called with the path of each list before it is read, if not empty. A program that watches rules
  // looks at the list then.
  std::function<void(const std::string& path)> on_list = {};
};

// The checked rules of one or several files. Give it to a RuleDecider or to a guard.
//
// Immutable: use it from any thread. Ownership: a handle; copies share the rules, and pointers to
// them are valid as long as a copy. Cost: two words a copy; a request is matched with one rule
// after another.
class RuleSet {
 public:
  // Reads YAML (docs/rules.md); `file` is its name for errors. Errors: everything that is wrong.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::string_view yaml,
                                                         std::string_view file,
                                                         const RuleTerms& terms = {});
  // Reads a file of at most 4 MiB. Errors: everything that is wrong, or that it cannot be read.
  static Expected<RuleSet, std::vector<RuleError>> load(const std::string& path,
                                                        const RuleTerms& terms = {});
  // Reads several files as one set: the rules in the order of the files, each with the domain and
  // the defaults of its own file. A rule's name must be unique. Errors: those of every file.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::span<const RuleText> files,
                                                         const RuleTerms& terms = {});
  static Expected<RuleSet, std::vector<RuleError>> load(std::span<const std::string> paths,
                                                        const RuleTerms& terms = {});

  // The domain of the first file.
  const std::string& domain() const noexcept;
  // The rules, in the order of the files.
  std::span<const Rule> rules() const noexcept;
  // Warnings about the rules, in the order of the files; at most a thousand.
  std::span<const RuleError> warnings() const noexcept;
  // The rule of that name, or null.
  const Rule* find(std::string_view name) const noexcept;

  // For this library.
  class Impl;
  explicit RuleSet(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  const Impl& impl() const noexcept { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

namespace detail {
class RuleDeciders;
}

// Rules that can be replaced while guards use them. Give guards one of these, or a RuleSet that
// does not change.
//
// Thread-safety: any member from any thread. Ownership: a handle; copies share the rules, and each
// guard holds one. Cost: a guarded call reads one atomic number to see whether its rules are
// current.
class LiveRules {
 public:
  // Begins with these rules. A RuleSet converts to it.
  LiveRules(RuleSet rules);

  // The current rules.
  RuleSet current() const;
  // Replaces the rules. Guards use `next` from their next call on. Returns one problem for each
  // guard that could not work with `next`, because its rule is gone or reads an attribute that the
  // guard does not provide; then the rules stay as they are. Returns nothing if `next` is now
  // current.
  [[nodiscard]] std::vector<std::string> replace(RuleSet next);

 private:
  friend class detail::RuleDeciders;
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sluice
