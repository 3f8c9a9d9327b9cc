#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/expected.h"
#include "sluice/rule.h"

namespace sluice {

// One thing wrong with a rules file, at its place (line and column from 1).
struct RuleError {
  std::string file;
  int line = 1;
  int column = 1;
  std::string what;      // "unknown key 'limt'"
  std::string expected;  // "expected one of: name, key, algorithm, ..."

  // "FILE:LINE:COLUMN: error: WHAT; EXPECTED"
  std::string to_string() const;
};

// A file of rules that has been read.
struct RuleText {
  std::string_view file;  // its name, for errors
  std::string_view yaml;
};

// What rules have to keep to beside their format, as the store that they are for asks it of them.
struct RuleTerms {
  // False: limits that a Redis store without scripts cannot keep are errors (RedisOptions): all
  // but fixed windows that are aligned to the clock, and sliding window counters.
  bool scripting = true;
};

// A checked, immutable set of rules.
//
// Thread-safety: const, so any thread. Ownership: a cheap handle that shares the rules; pointers
// into them live as long as a copy does. Cost: matching is linear in the rules tried.
class RuleSet {
 public:
  // Reads YAML (docs/rules.md). `file` names it in errors. Errors: all that is wrong with it.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::string_view yaml,
                                                         std::string_view file,
                                                         const RuleTerms& terms = {});
  // Reads a file, at most 4 MiB of it. Errors: also that it cannot be read.
  static Expected<RuleSet, std::vector<RuleError>> load(const std::string& path,
                                                        const RuleTerms& terms = {});
  // Several files as one set: their rules in the order of the files, each with the domain and the
  // defaults of its own file; the names of rules differ over all. Errors: those of every file.
  static Expected<RuleSet, std::vector<RuleError>> parse(std::span<const RuleText> files,
                                                         const RuleTerms& terms = {});
  static Expected<RuleSet, std::vector<RuleError>> load(std::span<const std::string> paths,
                                                        const RuleTerms& terms = {});

  // Of the first file.
  const std::string& domain() const noexcept;
  std::span<const Rule> rules() const noexcept;
  // The rule of that name, or null.
  const Rule* find(std::string_view name) const noexcept;

  class Impl;  // src/rules only
  const Impl& impl() const noexcept { return *impl_; }

 private:
  explicit RuleSet(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace sluice
