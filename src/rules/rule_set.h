#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "limiter/new_key_limit.h"
#include "rules/attributes.h"
#include "rules/cost_template.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/key_template.h"
#include "rules/list_files.h"
#include "rules/networks.h"
#include "sluice/calendar.h"
#include "sluice/expected.h"
#include "sluice/rule.h"
#include "sluice/rule_set.h"

namespace re2 {
class RE2;
}

namespace sluice::rules {

// A compiled pattern of `match` (docs/rules.md, Matching):
//
//   text     exactly this text
//   *        any characters; in a pattern that begins with '/', any characters except '/', and at
//            least one character if it is a whole segment
//   **       any characters including '/'; a segment '/**' also matches nothing
//   ~regex   an RE2 expression that must match the whole value
//
// Thread-safety: immutable; use it from any thread. Cost: a text comparison, linear in the value
// unless one segment has several stars; a regex may allocate.
class Pattern {
 public:
  // Errors: "WHAT; EXPECTED".
  static Expected<Pattern> compile(std::string_view text);

  bool matches(std::string_view value) const;
  // Returns whether RE2 does the matching.
  bool is_expression() const noexcept { return kind_ == Kind::kRegex; }
  // Whether it matches every value that `other` matches. False if that is hard to find out.
  bool covers(const Pattern& other) const;
  // The work of covers(), in bytes that it looks at.
  std::size_t work_to_cover(const Pattern& other) const noexcept {
    return 1 + (is_expression() ? other.text_.size() : 0);
  }
  // Whether it matches every value, of paths if `of_path`: they begin with a slash.
  bool covers_all(bool of_path) const noexcept {
    return text_.empty() && (kind_ == Kind::kPrefix || (of_path && kind_ == Kind::kBelow));
  }
  // Whether it is an expression that matches no text with a leading slash. False if that is hard to
  // find out.
  bool matches_no_path() const;
  // Returns the instructions of its programs in RE2: the steps that a byte of a value may take.
  std::size_t instructions() const noexcept;

 private:
  enum class Kind { kExact, kPrefix, kBelow, kStars, kSegments, kRegex };
  // The texts between stars. A value begins with the first, ends with the last, and contains the
  // others in between.
  using Pieces = std::vector<std::string>;

  static Pattern glob(std::string_view text);
  static Pattern segments(std::string_view text);
  static Expected<Pattern> regex(const std::string& expression, std::string_view shown);
  static Pieces pieces(std::string_view text);
  static bool match_pieces(const Pieces& pieces, std::string_view value);
  static bool match_segment(const Pieces& pieces, std::string_view value);
  bool match_segments(std::string_view value) const;
  bool match_regex(std::string_view value) const;
  std::string literal_start() const;

  Kind kind_ = Kind::kExact;
  bool open_ended_ = false;  // kSegments: the pattern ends with '/**'
  std::string text_;         // kExact, kPrefix; kBelow: without the final slash
  std::vector<Pieces> segments_;
  std::shared_ptr<const re2::RE2> regex_;
  std::shared_ptr<const re2::RE2> byte_regex_;  // the same regex for values that are not UTF-8
};

// An attribute that must match at least one of several patterns, networks and lists, or none of
// them.
struct Condition {
  std::uint32_t attribute = 0;
  bool negated = false;
  std::string written;  // the patterns as people read them, cut short
  bool has_networks = false;
  std::uint32_t expressions = 0;  // in `any_of`
  std::vector<Pattern> any_of;
  NetworkSet own_networks;
  std::vector<std::shared_ptr<const NetworkSet>> networks;
  std::vector<std::shared_ptr<const TextSet>> texts;

  // Does not hold if the expressions of a request would read too much, which `values` then knows.
  bool holds(AttributeValues& values) const {
    const std::optional<std::string_view>& value = values.get(attribute);
    if (expressions > 0 && value && !values.may_read(attribute, expressions)) return false;
    return matches(value) != negated;
  }
  // Whether it holds for every value that is there.
  bool is_presence() const {
    return !negated && std::ranges::any_of(any_of, [](const Pattern& pattern) {
      return pattern.covers_all(false);
    });
  }
  // Whether every value that `other` lists is listed here. False if that is hard to find out.
  // Reduces `steps` by the work, and returns false once none is left.
  bool covers(const Condition& other, bool of_path, std::size_t& steps) const;

 private:
  bool matches(const std::optional<std::string_view>& value) const;
  bool matches_network(std::string_view value) const;
};

struct CompiledLimit {
  std::string prefix;  // of the counters' keys: "domain|rule|limit"
  std::uint32_t id;    // RuleCharge::limit_id: a hash of the prefix
  KeyTemplate key;
  CostTemplate cost;
  PriceChoice price = {};  // that the cost reads
  std::optional<ResponseCount> count = {};
  CostTemplate weight = {};  // of `share`
  // When the budget left its row in a file: see keep_removed().
  std::optional<Instant> removed = {};
};

// The compiled parts of the Rule with the same index.
struct CompiledRule {
  std::vector<Condition> conditions;
  std::vector<CompiledLimit> limits;
  KeyTemplate tag;                             // of all counters of the rule; empty: no tag
  std::shared_ptr<NewKeyLimit> new_keys = {};  // null: no maximum; copies of the rule share it
  // If Rule::plans is not empty: where a request names its plan, and the index of the default.
  KeyTemplate plan_from = {};
  std::size_t default_plan = 0;

  bool matches(AttributeValues& values) const { return mismatch(values) == nullptr; }
  // The first condition that does not hold. Null: the rule matches.
  const Condition* mismatch(AttributeValues& values) const;
  // Returns the index of the request's plan in Rule::plans, and whether the request named one that
  // is not there.
  std::pair<std::size_t, bool> choose_plan(const Rule& rule, AttributeValues& values) const;
};

// Whether the rules after this one are tried for a request that it matches.
inline bool lets_others_match(const Rule& rule) noexcept {
  return rule.continues || (rule.action == RuleAction::kDeny && rule.mode == RuleMode::kShadow);
}

// Returns an earlier rule that decides every request that the rule with this index matches, so that
// it is never reached. Null: there is none, or it is hard to find. `steps` bounds the work: each
// look at a rule, pair of patterns, network and byte for an expression takes one, and nothing is
// found with none left.
const Rule* find_cover(const RuleSet::Impl& set, std::size_t rule, std::size_t& steps);

// Returns an earlier shadow rule that keeps this one from deciding all requests of the shadow rule,
// likewise.
const Rule* find_trial(const RuleSet::Impl& set, std::size_t rule, std::size_t& steps);

// Returns whether another rule has all requests that this one would match if this condition of it
// did not hold, and all of its others did. Nothing is found with no `steps` left, likewise.
bool has_rest(const RuleSet::Impl& set, std::size_t rule, const Condition& condition,
              std::size_t& steps);

// Returns the condition of a rule that excludes all values that another one demands, so that the
// rule matches nothing. Null: there is none, or it is hard to find, likewise.
const Condition* find_contradiction(const RuleSet::Impl& set, std::size_t rule, std::size_t& steps);

// Returns the RuleCharge::limit_id of a limit with this name. It differs between processes.
std::uint32_t limit_id_of(std::string_view name) noexcept;

}  // namespace sluice::rules

namespace sluice {

// Filled by a loader, then constant.
class RuleSet::Impl {
 public:
  std::string domain;
  std::vector<Rule> rules;
  std::vector<RuleError> warnings;
  std::vector<rules::CompiledRule> compiled;  // by index of the rule
  rules::AttributeTable attributes;
  std::unordered_map<std::string_view, std::size_t> by_name;  // views into `rules`

  // The compiled parts of a rule of this set.
  const rules::CompiledRule& compiled_of(const Rule& rule) const noexcept {
    return compiled[static_cast<std::size_t>(&rule - rules.data())];
  }
  const rules::CompiledLimit& compiled_of(const Rule& rule, const RuleLimit& limit) const noexcept {
    return compiled_of(rule).limits[static_cast<std::size_t>(&limit - rule.limits.data())];
  }
  // Fills in `by_name`, again after a copy.
  void index_names();
};

}  // namespace sluice

namespace sluice::rules {

// Checks the `overflow` of the latest limit of the rule. Returns false if something is wrong, which
// is reported.
bool check_overflow(const Fields& limit, const Rule& rule, const RuleTerms& terms,
                    Diagnostics& diagnostics);
// Returns the schema key that the error of a limit is about.
std::string_view field_of(LimitError error, const LimitSpec& spec);

// Reports a `share` of a limit that cannot be divided among proxies, and a limit that a store with
// parts of limits cannot have.
void check_share(const Fields& limit, const RuleLimit& read, const RuleTerms& terms,
                 Diagnostics& diagnostics);

// Warns about a limit whose log may not fit into the memory store, or that can block Redis.
void warn_of_sizes(const Limit& limit, const RuleTerms& terms, std::size_t at, const Warn& warn);

// Reads the block of a limit. Returns nothing if it has none, or if that is wrong.
std::optional<Block> read_block(const Fields& limit, const RuleTerms& terms,
                                Diagnostics& diagnostics);

// Completes Rule::reject and Rule::degrade from the keys of the rule, which are read into it
// already with its action. Reports wrong values, and warns about names in braces that it does not
// know.
void read_reject(const Fields& fields, Rule& rule, Diagnostics& diagnostics, const Warn& warn);

// Returns the names in braces of a text for a rejection (docs/rules.md, Rejections). Calls
// `unknown` with the place and the name of each part that looks like one; it is sent as it is.
std::vector<RejectPart> parse_reject_text(
    std::string_view text, bool is_json,
    const std::function<void(std::size_t at, std::string_view name)>& unknown);

// Warns about a pattern of `match` that matches nothing that a front end sends, or hardly anything.
// `text`: the pattern as in the file.
void warn_of_pattern(std::string_view attribute, std::string_view text, const Pattern& pattern,
                     std::size_t at, const Warn& warn);

// Reads YAML files as one set of rules that meets the terms, or returns all errors, file by file.
// Does not throw for bad input. `warnings`: all warnings, of rules with errors too.
Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::span<const RuleText> files, const RuleTerms& terms,
    std::vector<RuleError>* warnings = nullptr);

}  // namespace sluice::rules
