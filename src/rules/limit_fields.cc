// Reads keys of limits that are maps of their own, and checks limits.

#include <string>

#include "core/limit.h"
#include "core/log.h"
#include "core/period.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/rule_set.h"
#include "sluice/block.h"

namespace sluice::rules {
namespace {

constexpr std::size_t kMostInRow = 4;

// Warns about a limit whose log can need more than a log gets: the half that all shards share.
void warn_of_memory(const Limit& limit, const RuleTerms& terms, std::size_t at, const Warn& warn) {
  const std::size_t needed = core::most_log_bytes(limit);
  const std::size_t given = terms.max_log_bytes / 2;
  if (given == 0 || needed <= given) return;
  warn(at,
       "a log of " + std::to_string(limit.limit()) + " units can need " + std::to_string(needed) +
           " bytes, and max_log_bytes allows " + std::to_string(given) +
           " for one; a longer log counts by slices, which is stricter",
       "expected fewer units, 'sliding_window_counter', or max_log_bytes of at least " +
           std::to_string(2 * needed));
}

// Warns about a limit whose requests can block Redis: see docs/reference/state-format.md, "Long
// values".
void warn_of_redis(const Limit& limit, std::size_t at, const Warn& warn) {
  constexpr std::uint64_t kMostPermits = 5'000;
  constexpr std::uint64_t kMostLogUnits = 100'000;
  const std::string units = std::to_string(limit.limit());
  if (holds_permits(limit.algorithm()) && limit.limit() > kMostPermits) {
    warn(at,
         "a release looks at all permits of a key, and " + units +
             " of them can block Redis for longer than 1 ms (docs/reference/state-format.md, Long "
             "values)",
         "expected at most " + std::to_string(kMostPermits) +
             " permits for each key, or Redis with the module of Sluice");
  }
  if (limit.algorithm() == Algorithm::kSlidingWindowLog && limit.limit() > kMostLogUnits) {
    warn(at,
         "a log is copied when it grows, and one of " + units +
             " units can block Redis for longer than 10 ms (docs/reference/state-format.md, Long "
             "values)",
         "expected at most " + std::to_string(kMostLogUnits) +
             " units, 'sliding_window_hybrid' or 'sliding_window_counter'");
  }
}

}  // namespace

std::string_view field_of(LimitError error, const LimitSpec& spec) {
  if (const auto option = core::option_of(error, spec)) return core::info(*option).name;
  if (error == LimitError::kCalendarDoesNotApply) return "per";
  if (core::is_about_lease(error)) return "lease";
  if (error != LimitError::kPeriodOutOfRange) return "limit";
  return holds_permits(spec.algorithm) ? "lease" : "per";
}

std::optional<Block> read_block(const Fields& limit, const RuleTerms& terms,
                                Diagnostics& diagnostics) {
  const Fields* const fields = limit.map("block");
  if (fields == nullptr) return std::nullopt;
  if (!terms.scripting) {
    diagnostics.add(limit.at("block"),
                    "'block' needs scripts, and the store has none (scripting: off)",
                    "expected no 'block'");
  }
  const auto after = fields->integer("after");
  const auto within = fields->period("within");
  const auto time = fields->period("for");
  if (!after || !within || !time) return std::nullopt;
  const BlockSpec spec{.after = *after,
                       .within = *within,
                       .time = *time,
                       .growth = 100 * fields->integer("grow").value_or(1),
                       .at_most = fields->period("at_most").value_or(Duration{0})};
  if (spec.at_most != Duration{0} && spec.at_most < spec.time) {
    diagnostics.add(fields->at("at_most"),
                    "'at_most' is " + core::format_period(spec.at_most) + ", and 'for' is " +
                        core::format_period(spec.time),
                    "expected at least " + core::format_period(spec.time));
    return std::nullopt;
  }
  const auto block = Block::make(spec);
  return block ? std::optional(*block) : std::nullopt;
}

void check_share(const Fields& limit, const RuleLimit& read, const RuleTerms& terms,
                 Diagnostics& diagnostics) {
  const Algorithm algorithm = read.limit.algorithm();
  const bool is_kept = holds_permits(algorithm) || holds_amounts(algorithm);
  const std::string what = is_kept ? std::string(to_string(algorithm)) : "a limit with 'count'";
  if (terms.assigned && limit.has("block")) {
    diagnostics.add(limit.at("block"), "'block' needs a store in memory or Redis",
                    "expected no 'block', because another server assigns parts of this limit");
  }
  if (!is_kept && !read.counts_responses) return;
  if (terms.assigned) {
    diagnostics.add(limit.at(is_kept ? "algorithm" : "count"),
                    what + " cannot be divided among servers",
                    "expected another limit, or a store in memory or Redis, because each request "
                    "must ask for such a limit");
  } else if (limit.has("share")) {
    diagnostics.add(limit.at("share"), "'share' does not apply to " + what,
                    "expected no 'share', because each request must ask for such a limit");
  }
}

bool check_overflow(const Fields& limit, const Rule& rule, const RuleTerms& terms,
                    Diagnostics& diagnostics) {
  bool is_right = true;
  const auto refuse = [&](std::string_view key, std::string what, std::string expected) {
    diagnostics.add(limit.at(key), std::move(what), std::move(expected));
    is_right = false;
  };
  const Algorithm algorithm = rule.limits.back().limit.algorithm();
  if (!holds_amounts(algorithm)) {
    refuse("overflow", "'overflow' does not apply to " + std::string(to_string(algorithm)),
           "expected 'algorithm: budget', or no 'overflow'");
  }
  for (const char* key : {"block", "count"}) {
    if (!limit.has(key)) continue;
    refuse(key, in_quotes(key) + " and 'overflow' in one limit",
           "expected a limit of its own with " + in_quotes(key));
  }
  std::size_t in_row = 1;  // with the latest one
  for (auto at = rule.limits.rbegin(); at->alternative; ++at) ++in_row;
  if (in_row == kMostInRow) {
    refuse("overflow", "more than 4 budgets in a row",
           "expected at most 4, with the first; leave out this 'overflow'");
  }
  if (terms.in_cluster && rule.tag.empty()) {
    refuse("overflow", "budgets in a row need a tag in a Redis Cluster",
           "expected 'tag:' in the rule, such as \"{header.x-org}\"");
  }
  return is_right;
}

void warn_of_sizes(const Limit& limit, const RuleTerms& terms, std::size_t at, const Warn& warn) {
  warn_of_memory(limit, terms, at, warn);
  if (terms.in_redis) warn_of_redis(limit, at, warn);
}

}  // namespace sluice::rules
