#include "replay/replay.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/civil_time.h"
#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/limit.h"
#include "core/period.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kTopDenied = 10;
constexpr std::size_t kTopValues = 3;

using base::JsonWriter;

void write_values(JsonWriter& out, std::string_view name, const FrequentValues& values) {
  out.key(name).begin_array();
  for (const FrequentValues::Value& each : values.most(kTopValues)) {
    out.begin_object().member("value", each.text).member("denied", each.least).end_object();
  }
  out.end_array();
}

// The number of denied keys besides the `shown` ones with most denials.
std::uint64_t more_denied(const KeyTally& keys, std::size_t shown) {
  return keys.keys_denied() - std::min<std::uint64_t>(keys.keys_denied(), shown);
}

void write_denied_keys(JsonWriter& out, const KeyTally& keys) {
  out.member("keys_denied", keys.keys_denied());
  out.key("top_denied").begin_array();
  for (const DeniedKey& key : keys.most_denied(kTopDenied)) {
    out.begin_object().member("key", key.label).member("denied", key.denied);
    if (key.traits != nullptr) {
      write_values(out, "agents", key.traits->agents);
      write_values(out, "requests", key.traits->requests);
      write_values(out, "statuses", key.traits->statuses);
    }
    out.end_object();
  }
  out.end_array().member("more_denied", more_denied(keys, kTopDenied));
}

// Whether requests have costs for all limits. Costs of single limits are no units of a total.
bool has_units(const Tally& tally) { return tally.units != tally.requests - tally.invalid; }

void write_limit(JsonWriter& out, const LimitTally& limit) {
  out.begin_object().member("name", limit.limit->name).member("keys", limit.keys.keys());
  out.member("requests", limit.requests);
  out.member("denied", limit.denied).member("blocked", limit.blocked);
  out.member("invalid", limit.invalid);
  out.member("units", limit.units).member("denied_units", limit.denied_units);
  write_denied_keys(out, limit.keys);
  out.end_object();
}

void write_rule(JsonWriter& out, const RuleTally& rule) {
  out.begin_object().member("name", rule.rule->name).member("matched", rule.matched);
  out.member("allowed", rule.matched - rule.denied).member("denied", rule.denied);
  out.key("limits").begin_array();
  for (const LimitTally& limit : rule.limits) write_limit(out, limit);
  out.end_array();
  if (rule.clients) write_denied_keys(out, *rule.clients);
  out.end_object();
}

void write_rules(JsonWriter& out, const Tally& tally) {
  out.key("rules").begin_array();
  for (const RuleTally& rule : tally.rules) write_rule(out, rule);
  out.end_array();
}

// Requests that one set of rules denies and the other does not.
void write_difference(JsonWriter& out, std::string_view name, const Tally& tally) {
  out.key(name).begin_object().member("denied", tally.denied);
  write_rules(out, tally);
  out.end_object();
}

void write_comparison(JsonWriter& out, const ReplayComparison& comparison) {
  const Tally& tally = comparison.tally;
  out.key("against").begin_object().member("allowed", tally.allowed());
  out.member("denied", tally.denied).member("would_deny", tally.would_deny);
  out.member("invalid", tally.invalid).member("unmatched", tally.unmatched);
  write_rules(out, tally);
  out.end_object().member("denied_both", comparison.denied_both);
  write_difference(out, "denied_only_by_rules", comparison.only_rules);
  write_difference(out, "denied_only_by_against", comparison.only_against);
}

}  // namespace

void write_totals(JsonWriter& out, const LogTotals& totals) {
  out.member("lines", totals.lines).member("parsed", totals.parsed());
  out.member("skipped", totals.skipped).member("wrong_costs", totals.wrong_costs);
  out.member("without_rules", totals.without_rules).member("late", totals.late);
}

void write_instant(JsonWriter& out, std::string_view name, const std::optional<Instant>& at) {
  out.key(name);
  at ? out.value(base::to_rfc3339(*at)) : out.null();
}

std::string json_report(const ReplayReport& report) {
  JsonWriter out;
  out.begin_object();
  write_totals(out, report);
  out.key("formats").begin_array();
  for (const LogFormat format : report.formats) out.value(to_string(format));
  out.end_array();
  write_instant(out, "first", report.first);
  write_instant(out, "last", report.last);
  out.member("allowed", report.tally.allowed()).member("denied", report.tally.denied);
  out.member("would_deny", report.tally.would_deny);
  out.member("invalid", report.tally.invalid).member("unmatched", report.tally.unmatched);
  if (has_units(report.tally)) {
    out.member("units", report.tally.units).member("denied_units", report.tally.denied_units);
    out.member("would_deny_units", report.tally.would_deny_units);
  }
  out.array("denied_by_hour", report.tally.denied_by_hour);
  out.array("would_deny_by_hour", report.tally.would_deny_by_hour);
  write_rules(out, report.tally);
  if (report.comparison) write_comparison(out, *report.comparison);
  out.array("warnings", warnings_of(report));
  out.member("elapsed_ms", static_cast<std::uint64_t>(report.elapsed.count())).end_object();
  return std::string(out.view()) + "\n";
}

namespace {

constexpr std::size_t kShownKeys = 10;
constexpr std::size_t kTextColumns = 64;
constexpr std::size_t kLabelColumns = 35;
constexpr std::size_t kNameColumns = 50;
constexpr std::size_t kTraitsIndent = 8;  // with a margin

// Returns one bar per value. A value above 0 has a bar of at least an eighth of the line height.
std::string sparkline(const std::vector<std::uint64_t>& values) {
  constexpr std::array<const char*, 9> kBars = {"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::uint64_t most = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string line;
  for (const std::uint64_t value : values) {
    const double share = most == 0 ? 0 : static_cast<double>(value) / static_cast<double>(most);
    const auto eighths = static_cast<std::size_t>(std::lround(share * 8));
    line += kBars[value == 0 ? 0 : std::clamp<std::size_t>(eighths, 1, 8)];
  }
  return line;
}

class TextReport {
 public:
  TextReport(const ReplayReport& report, bool has_colours, std::size_t columns)
      : report_(report),
        series_(report.tally.series().in_columns(kTextColumns)),
        has_colours_(has_colours),
        columns_(columns) {}

  std::string write() {
    headline();
    totals();
    chart();
    if (report_.comparison) {
      comparison();
    } else {
      for (std::size_t i = 0; i < report_.tally.rules.size(); ++i) rule(i);
    }
    cautions();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }

  std::string bold(const std::string& text) const { return paint("1", text); }
  std::string dim(const std::string& text) const { return paint("2", text); }
  std::string red(const std::string& text) const { return paint("31", text); }
  std::string yellow(const std::string& text) const { return paint("33", text); }
  std::string paint(const char* code, const std::string& text) const {
    return has_colours_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }

  void headline() {
    line(bold(plural(report_.lines, "line")) + " of " + report_.logs_text() + ", decided by " +
         plural(report_.tally.rules.size(), "rule") + speed());
    if (report_.first) {
      line(dim(span_text(*report_.first, *report_.last) + "; " + format_titles(report_)));
    }
    line("");
  }

  std::string speed() const {
    const double seconds = std::max(static_cast<double>(report_.elapsed.count()), 1.0) / 1000;
    std::string text = " in " + decimal(seconds, 2) + " s";
    if (report_.lines < 10'000) return text;
    const auto rate = static_cast<std::uint64_t>(static_cast<double>(report_.lines) / seconds);
    return text + " (" + grouped(rate / 1000 * 1000) + " lines/s)";
  }

  void total(const std::string& name, std::uint64_t count, const std::string& remark) {
    line("  " + pad_right(name, 12) + pad_left(grouped(count), 15) +
         (remark.empty() ? "" : "  " + remark));
  }

  void totals() {
    const Tally& tally = report_.tally;
    total("requests", tally.requests, "");
    total("allowed", tally.allowed(), pad_left(percent(tally.allowed(), tally.requests), 9));
    const std::string share = pad_left(percent(tally.denied, tally.requests), 9);
    total("denied", tally.denied, tally.denied > 0 ? red(share) : share);
    if (tally.would_deny > 0) {
      total("would deny", tally.would_deny,
            yellow(pad_left(percent(tally.would_deny, tally.requests), 9)) +
                "  allowed, and denied without shadow mode");
    }
    if (const std::string units = units_text(tally); !units.empty()) {
      total("units", tally.units, units);
    }
    total("unmatched", tally.unmatched,
          pad_left(percent(tally.unmatched, tally.requests), 9) + "  no rule matched; allowed");
    if (tally.invalid > 0)
      total("invalid", tally.invalid, "the server refuses these with 400; see the note below");
    if (report_.skipped > 0) total("skipped", report_.skipped, report_.skipped_text());
    if (report_.without_rules > 0)
      total("not replayed", report_.without_rules,
            "requests that name their limits themselves, or have one of Envoy's files");
    if (report_.late > 0)
      total("late", report_.late,
            "out-of-order lines, decided at the latest time read so far: sort the log to be exact");
  }

  void chart() {
    if (report_.tally.requests == 0) return;
    line("");
    bars("requests", Tally::kRequests, false);
    bars("denied", Tally::kDenied, true);
    if (report_.tally.would_deny > 0) bars("would deny", Tally::kWouldDeny, true);
    const std::string from = plain_time(series_.start()).substr(0, 16);
    const std::string to = plain_time(*report_.last).substr(0, 16);
    const std::size_t ends = columns_of(from) + columns_of(to);
    const std::size_t gap = series_.buckets() > ends + 2 ? series_.buckets() - ends : 4;
    line("  " + pad_right("", 12) + dim(from + std::string(gap, ' ') + to));
    line("  " + pad_right("", 12) +
         dim("one column is " + duration_text(series_.width()) + "; times are UTC"));
    if (*report_.last - *report_.first < std::chrono::days{1}) return;
    const Tally& tally = report_.tally;
    hours("denied", tally.denied_by_hour, tally.denied);
    hours("would deny", tally.would_deny_by_hour, tally.would_deny);
  }

  // The hours of the day, and those with the most denials.
  void hours(const std::string& name, const Tally::ByHour& denied, std::uint64_t all) {
    if (all == 0) return;
    std::array<std::size_t, 24> hours{};
    std::iota(hours.begin(), hours.end(), std::size_t{0});
    std::stable_sort(hours.begin(), hours.end(),
                     [&](std::size_t a, std::size_t b) { return denied[a] > denied[b]; });
    constexpr std::size_t kMost = 3;
    std::string most;
    for (std::size_t i = 0; i < kMost && denied[hours[i]] > 0; ++i) {
      const std::string hour = std::to_string(hours[i]);
      most += (most.empty() ? "" : ", ") + std::string(2 - hour.size(), '0') + hour + ":00 " +
              percent(denied[hours[i]], all);
    }
    line("");
    line("  " + pad_right(name, 12) + red(sparkline({denied.begin(), denied.end()})) +
         "  by hour, UTC; most " + most);
    line("  " + pad_right("", 12) + dim("00    06    12    18"));
  }

  void bars(const std::string& name, std::size_t channel, bool denials) {
    const auto counts = series_.channel(channel);
    if (counts.empty()) return;
    const std::uint64_t most = *std::max_element(counts.begin(), counts.end());
    const std::string line_of_bars = sparkline(counts);
    line("  " + pad_right(name, 12) +
         (most == 0 ? dim(line_of_bars)
          : denials ? red(line_of_bars)
                    : line_of_bars) +
         "  maximum " + grouped(most));
  }

  void rule(std::size_t index) {
    const RuleTally& rule = report_.tally.rules[index];
    const bool shadow = rule.rule->mode == RuleMode::kShadow;
    line("");
    line(bold("rule " + printable(rule.rule->name)) +
         (shadow ? yellow("  shadow mode: it denies no request") : ""));
    if (rule.matched == 0) return line(yellow("  matched no request"));
    total("matched", rule.matched,
          pad_left(percent(rule.matched, report_.tally.requests), 9) + "  of all requests");
    const std::string share = pad_left(percent(rule.denied, rule.matched), 9);
    total(shadow ? "would deny" : "denied", rule.denied,
          (rule.denied > 0 ? red(share) : share) + "  of matched requests");
    if (rule.denied > 0) bars("when", Tally::rule_channel(index) + 1, true);
    for (const LimitTally& each : rule.limits) {
      limit(*rule.rule, each, shadow ? "would deny" : "denied");
    }
    if (rule.clients) clients(rule, shadow ? "would deny" : "denied");
  }

  // Writes the addresses that a rule with `action: deny` denies.
  void clients(const RuleTally& rule, const std::string& denied) {
    line("");
    line("  action: deny; {ip}");
    line("    " + denied + " " + plural(rule.denied, "request") + " of " + at_least(*rule.clients) +
         plural(rule.clients->keys(), "key"));
    denied_keys(*rule.clients, denied, true);
  }

  void comparison() {
    const ReplayComparison& both = *report_.comparison;
    const std::string rules = printable(report_.rules_name, kNameColumns);
    const std::string against = printable(report_.against_name, kNameColumns);
    const std::uint64_t requests = both.tally.requests;
    const std::size_t width = 16 + std::max(columns_of(rules), columns_of(against));
    const auto row = [&](const std::string& name, std::uint64_t count) {
      line("  " + pad_right(name, width) + pad_left(grouped(count), 12) +
           pad_left(percent(count, requests), 10));
    };
    line("");
    line(bold(rules + " compared with " + against));
    row("denied by " + rules, report_.tally.denied);
    row("denied by " + against, both.tally.denied);
    row("denied by both", both.denied_both);
    row("denied only by " + rules, both.only_rules.denied);
    row("denied only by " + against, both.only_against.denied);
    const std::uint64_t first = report_.tally.would_deny;
    const std::uint64_t second = both.tally.would_deny;
    if (first != second) {
      line(yellow("  rules in shadow mode deny nothing; they would deny " + grouped(first) +
                  " and " + grouped(second) + ": `mode: enforce` compares them"));
    }
    difference(rules, both.only_rules);
    difference(against, both.only_against);
  }

  // What one set of rules denies and the other does not, by rule, limit and key.
  void difference(const std::string& by, const Tally& tally) {
    for (const RuleTally& rule : tally.rules) {
      if (rule.denied == 0 || rule.rule->mode == RuleMode::kShadow) continue;
      line("");
      line(bold("only " + by + ", rule " + printable(rule.rule->name)) + ": denied " +
           red(grouped(rule.denied)) + (rule.denied == 1 ? " request" : " requests"));
      for (const LimitTally& each : rule.limits) {
        if (each.denied > 0) limit(*rule.rule, each, "denied", true);
      }
      if (rule.clients) clients(rule, "denied");
    }
  }

  // `is_difference`: all requests of the tally were denied, some only by other limits, so shares
  // say nothing.
  void limit(const Rule& rule, const LimitTally& limit, const std::string& denied,
             bool is_difference = false) {
    const std::string key =
        limit.limit->key.empty() ? "one counter for all requests" : limit.limit->key;
    const std::string keys =
        at_least(limit.keys) +
        plural(is_difference ? limit.keys.keys_denied() : limit.keys.keys(), "key");
    const std::string units = denied_units_text(limit);
    line("");
    line("  limit " + bold(printable(limit.limit->name)) + "  " +
         printable(limit_text(rule, *limit.limit)) + "; " + printable(key));
    if (is_difference) {
      line("    denied " + plural(limit.denied, "request") + " of " + keys);
    } else if (limit.requests + limit.invalid == 0) {
      const std::string spared = spared_text(limit);
      line(spared.empty() ? yellow("    applied to no request") : "    " + spared);
    } else {
      line("    " + denied + " " + grouped(limit.denied) + " of " + grouped(limit.requests) +
           " requests, " + grouped(limit.keys.keys_denied()) + " of " + keys +
           (units.empty() ? "" : ", " + units));
      if (const std::string blocked = blocked_text(limit); !blocked.empty()) {
        line("    " + blocked);
      }
    }
    if (const std::string row = row_text(limit); !row.empty()) line("    " + printable(row));
    if (limit.invalid > 0) line(yellow("    " + wrong_costs(limit)));
    denied_keys(limit.keys, denied, is_difference);
  }

  void denied_keys(const KeyTally& keys, const std::string& denied, bool is_difference) {
    const auto most = keys.most_denied(kShownKeys);
    if (most.empty()) return;
    key_table(most, denied, is_difference);
    if (const std::uint64_t more = more_denied(keys, most.size()); more > 0) {
      line(dim("    and " + at_least(keys) + plural(more, "more key")));
    }
  }

  static std::string at_least(const KeyTally& keys) { return keys.overflowed() ? "at least " : ""; }

  static std::string label_of(const DeniedKey& key) {
    return key.label.empty() ? "(all requests)" : printable(key.label, kLabelColumns);
  }

  void key_table(const std::vector<DeniedKey>& keys, const std::string& denied_name,
                 bool is_difference) {
    std::size_t width = 8;
    for (const DeniedKey& key : keys) {
      width = std::max(width, columns_of(label_of(key)));
    }
    const auto row = [&](const std::string& name, const std::string& denied, const std::string& of,
                         const std::string& share) {
      return "    " + pad_right(name, width) + pad_left(denied, 12) +
             (is_difference ? "" : pad_left(of, 12) + pad_left(share, 10)) + "  ";
    };
    line(dim(row("key", denied_name, "of", "share") + "from, to (UTC)"));
    for (const DeniedKey& key : keys) {
      line(row(label_of(key), grouped(key.denied), grouped(key.requests),
               percent(key.denied, key.requests)) +
           dim(when(key)));
      if (key.traits != nullptr) traits_of(key);
    }
  }

  // What was denied, and the user agent: a customer or a robot?
  void traits_of(const DeniedKey& key) {
    const std::string all = fitted_text(*key.traits, key.label, columns_ - kTraitsIndent);
    if (!all.empty()) line(dim("      " + all));
  }

  // The times of the first and last denial. Without hours if they are on different days.
  static std::string when(const DeniedKey& key) {
    std::string first = plain_time(key.first).substr(0, 16);
    const std::string last = plain_time(key.last).substr(0, 16);
    if (first == last) return first;
    if (first.substr(0, 10) == last.substr(0, 10)) return first + " to " + last.substr(11);
    return first.substr(0, 10) + " to " + last.substr(0, 10);
  }

  void cautions() {
    const auto warnings = warnings_of(report_);
    const Tally& tally = report_.tally;
    if (tally.invalid > 0 || !warnings.empty()) line("");
    if (tally.invalid > 0) line(yellow("note: ") + invalid_text(tally));
    for (const std::string& each : warnings) line(yellow("warning: ") + printable(each));
  }

  const ReplayReport& report_;
  const TimeSeries series_;
  const bool has_colours_;
  const std::size_t columns_;
  std::string out_;
};

std::string options_text(const Limit& limit) {
  if (limit.limit() == 0) return ", denies every request";
  const LimitSpec spec = core::spec_of(limit);
  const bool has_default_burst = limit.capacity() == limit.limit() && spec.burst == spec.limit;
  if (spec.burst && !has_default_burst) return ", burst " + grouped(*spec.burst);
  if (!spec.align) return "";
  return spec.align == Align::kClock ? ", aligned to the clock" : ", from the first request";
}

std::string numbers_text(const Limit& limit) {
  return grouped(limit.limit()) +
         core::format_pace(limit, limit.calendar() != nullptr ? core::format_period(limit)
                                                              : duration_text(limit.period())) +
         options_text(limit);
}

}  // namespace

std::string limit_text(const Limit& limit) {
  return std::string(to_string(limit.algorithm())) + ", " + numbers_text(limit);
}

std::string limit_text(const Rule& rule, const RuleLimit& limit) {
  if (limit.by_plan.empty()) return limit_text(limit.limit);
  std::string text(to_string(limit.limit.algorithm()));
  for (std::size_t i = 0; i < limit.by_plan.size(); ++i) {
    text += (i > 0 ? "; " : ", ") + rule.plans[i] + ": " + numbers_text(limit.by_plan[i]);
  }
  return text;
}

std::string units_text(const Tally& tally) {
  const auto share = [&](std::uint64_t units) {
    return grouped(units) + " (" + percent(units, tally.units) + ")";
  };
  if (!has_units(tally)) return "";
  return share(tally.units - tally.denied_units) + " allowed, " + share(tally.denied_units) +
         " denied" +
         (tally.would_deny == 0 ? "" : ", " + share(tally.would_deny_units) + " would be denied");
}

std::string denied_units_text(const LimitTally& limit) {
  if (limit.units == limit.requests) return "";
  return grouped(limit.denied_units) + " of " + plural(limit.units, "unit");
}

std::string blocked_text(const LimitTally& limit) {
  if (!limit.limit->block || limit.denied == 0) return "";
  return grouped(limit.blocked) + " blocked, " + grouped(limit.denied - limit.blocked) + " limited";
}

namespace {

// Returns the first budget of the row, whose denials are those of the row.
const LimitTally& first_of_row(const LimitTally& limit) {
  const LimitTally* first = &limit;
  while (first->limit->alternative) --first;
  return *first;
}

}  // namespace

std::string spared_text(const LimitTally& limit) {
  if (limit.requests + limit.invalid > 0 || limit.passed_over == 0) return "";
  const bool has_denied = first_of_row(limit).denied > 0;
  return limit.limit->alternative && !has_denied
             ? "never needed: the budgets before it had room for every request"
             : "charged for no request";
}

std::string row_text(const LimitTally& limit) {
  const LimitTally& first = first_of_row(limit);
  if (!limit.limit->alternative || first.denied == 0) return "";
  return "denials of the row are listed at limit " + first.limit->name;
}

std::string invalid_text(const Tally& tally) {
  const std::string mistake = tally.mistake.empty() ? "" : "; the first: " + tally.mistake;
  return "the server refuses " + plural(tally.invalid, "request") +
         " with 400, and no limit counts " + (tally.invalid == 1 ? "it" : "them") +
         printable(mistake);
}

std::string wrong_costs(const LimitTally& limit) {
  return plural(limit.invalid, "more request") +
         (limit.invalid == 1 ? " has a cost that is" : " have a cost that is") +
         " no number of units";
}

namespace {

// Says what a limit without `cost` counts next to one that counts something else.
std::string missing_cost(const RuleTally& rule, const LimitTally& limit) {
  if (limit.units != limit.requests) {
    return "it has no 'cost', so it took the cost that the log gives, and at a gateway it takes 1 "
           "unit of each request; expected 'cost: 1' to count requests, or 'cost: request'";
  }
  const std::string& cost = limit.costly_limit->cost;
  const std::string other =
      "limit " + limit.costly_limit->name +
      (limit.costly_rule == rule.rule ? "" : " of rule " + limit.costly_rule->name);
  return "it has no 'cost', so each request took 1 unit, and " + other + " took its own cost, " +
         cost + "; expected the same cost, or 'cost: 1' to count requests";
}

// Says that the requests lack what the key is read from, and how they were decided; else empty.
std::string missing_key(const RuleTally& rule, const LimitTally& limit, const LogTotals& logs) {
  const KeyPart* const part = limit.requests > 0 ? lacking_part(limit.key_from) : nullptr;
  if (part == nullptr) return "";
  return lack_text(*part, limit.requests, rule.rule->mode == RuleMode::kShadow) +
         logs.expected_source(part->names[0]);
}

// Says that the limit applied to no request, or lacks the costs of requests; else empty.
std::string warning_of(const RuleTally& rule, const LimitTally& limit, const LogTotals& logs) {
  const std::string& key = limit.limit->key;
  if (holds_permits(limit.limit->limit.algorithm())) {
    return "'concurrency' is skipped: a log does not say when a request ends";
  }
  if (limit.requests + limit.invalid == 0) {
    if (limit.passed_over > 0) return "";
    const KeyPart* const part = lacking_part(limit.key_from);
    const bool has_key = part == nullptr || part->absent < part->names.size();
    if (has_key && !key.empty() && limit.cost_from.empty()) return "applied to no request";
    const std::string cost = "its cost" + (limit.cost_from.empty() ? "" : ", " + limit.limit->cost);
    return "applied to no request; the log has no value for " +
           (key.empty()               ? cost
            : limit.cost_from.empty() ? key
                                      : key + " or " + cost) +
           (has_key ? "" : logs.expected_source(part->names[0]));
  }
  if (limit.costly_limit != nullptr) return missing_cost(rule, limit);
  if (!limit.lacks_cost) return "";
  if (limit.cost_from.empty()) {
    return "it has 'cost: request', and the log has no cost, so each request took 1 unit" +
           logs.expected_source("cost");
  }
  const std::string source = logs.expected_source(limit.cost_from[0]);
  if (limit.limit->on_missing == OnMissing::kDeny && limit.keys.keys() == 0) {
    const KeyPart part{limit.cost_from, limit.cost_from.size()};
    return lack_text(part, limit.requests, rule.rule->mode == RuleMode::kShadow) + source;
  }
  return "the log has no attribute of its cost, " + limit.limit->cost + ", so the default counted" +
         source;
}

void add_warnings(const Tally& tally, const LogTotals& logs, const std::string& prefix,
                  std::vector<std::string>& all) {
  if (tally.requests == 0) return;
  for (const RuleTally& rule : tally.rules) {
    const std::string name = prefix + "rule " + rule.rule->name;
    if (rule.matched == 0) {
      all.push_back(name + " matched no request");
      continue;
    }
    for (const LimitTally& limit : rule.limits) {
      for (const std::string& text :
           {missing_key(rule, limit, logs), warning_of(rule, limit, logs)}) {
        if (text.empty()) continue;
        all.push_back(name);
        all.back().append(", limit ").append(limit.limit->name).append(": ").append(text);
      }
    }
  }
  if (tally.undecided > 0) {
    all.push_back(prefix + plural(tally.undecided, "request") +
                  " could not be counted because memory ran out; the failure policy decided them");
  }
}

}  // namespace

std::string LogTotals::logs_text() const {
  return logs.size() == 1 ? printable(logs[0], 60) : grouped(logs.size()) + " logs";
}

std::string LogTotals::skipped_text() const {
  const std::string costs = "a cost that is no whole number";
  if (wrong_costs == skipped) return "lines with " + costs;
  return "lines that are not access log lines" +
         (wrong_costs == 0 ? "" : ", and " + grouped(wrong_costs) + " with " + costs);
}

std::string LogTotals::expected_source(std::string_view name) const {
  const auto has = [&](LogFormat format) {
    return std::find(formats.begin(), formats.end(), format) != formats.end();
  };
  const std::string option = "; expected --field " + std::string(name) + "=";
  if (has(LogFormat::kJson) || has(LogFormat::kCsv)) return option + "COLUMN";
  if (name.starts_with("query.")) return "";  // part of each request in every format
  const bool may_be_user =
      has(LogFormat::kCommon) && !has_user &&
      target_of_name(name, 0).kind == FieldKind::kAttribute &&
      (name.starts_with("header.") || (name.find('.') == name.npos && name != "host"));
  return (may_be_user ? option + std::string(kUserField) + ", or " : "; expected ") +
         "a log of JSON lines with this value";
}

std::vector<std::string> warnings_of(const ReplayReport& report) {
  std::vector<std::string> all = report.problems;
  add_warnings(report.tally, report, "", all);
  if (report.comparison) {
    add_warnings(report.comparison->tally, report, report.against_name + ": ", all);
  }
  if (report.evictions > 0) {
    all.push_back("results are approximate: " + plural(report.evictions, "counter") +
                  " in use were evicted; raise --max");
  } else if (report.approximate()) {
    all.emplace_back("numbers of keys are lower bounds; raise --max");
  }
  return all;
}

std::string format_titles(const ReplayReport& report) {
  std::vector<std::string_view> titles;
  for (const LogFormat format : report.formats) titles.push_back(title_of(format));
  return base::joined(titles);
}

std::string text_report(const ReplayReport& report, bool has_colours, std::size_t columns) {
  return TextReport(report, has_colours, columns).write();
}

}  // namespace sluice::replay
