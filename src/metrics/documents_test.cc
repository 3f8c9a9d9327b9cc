// What is written about the metrics, in docs/reference/metrics.md, in the alert rules and on the
// dashboard, against the metrics themselves.

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <array>
#include <boost/json.hpp>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "metrics/metrics.h"

namespace sluice::metrics {
namespace {

// What the server adds to the registry.
constexpr std::array kOfServer = {"sluice_store_keys",
                                  "sluice_store_log_bytes",
                                  "sluice_store_breaker_open",
                                  "sluice_store_connections",
                                  "sluice_store_pending",
                                  "sluice_lease_counters",
                                  "sluice_rules_version",
                                  "sluice_rules_last_reload_successful",
                                  "sluice_ready",
                                  "sluice_waiting_requests",
                                  "sluice_overrides",
                                  "sluice_quota_proxies",
                                  "sluice_quota_buckets",
                                  "sluice_quota_not_renewed_limits",
                                  "sluice_upstream_connected",
                                  "sluice_upstream_buckets",
                                  "sluice_snapshot_timestamp_seconds",
                                  "sluice_snapshot_duration_seconds",
                                  "sluice_snapshot_bytes",
                                  "sluice_snapshot_counters",
                                  "sluice_store_evictions_total",
                                  "sluice_store_swept_total",
                                  "sluice_rules_reloads_total",
                                  "sluice_rules_reload_failures_total",
                                  "sluice_log_lines_dropped_total",
                                  "sluice_overrides_lost_total",
                                  "sluice_store_asked_total",
                                  "sluice_store_timeouts_total",
                                  "sluice_store_errors_total",
                                  "sluice_store_redirects_total",
                                  "sluice_store_given_back_total",
                                  "sluice_store_not_asked_total",
                                  "sluice_deny_cache_hits_total",
                                  "sluice_store_merged_logs_total",
                                  "sluice_lease_local_total",
                                  "sluice_lease_batches_total",
                                  "sluice_lease_units_taken_total",
                                  "sluice_lease_units_given_back_total",
                                  "sluice_recorded_requests_total",
                                  "sluice_recorded_bytes_total",
                                  "sluice_recorded_dropped_total",
                                  "sluice_recorded_rotations_total",
                                  "sluice_snapshot_failures_total",
                                  "sluice_store_freed_keys_total",
                                  "sluice_ledger_entries_total",
                                  "sluice_ledger_lost_total",
                                  "sluice_ledger_errors_total",
                                  "sluice_quota_reports_total",
                                  "sluice_quota_assigned_units_total",
                                  "sluice_quota_used_units_total",
                                  "sluice_quota_wasted_units_total",
                                  "sluice_quota_reassignments_total",
                                  "sluice_upstream_reports_total",
                                  "sluice_upstream_assignments_total",
                                  "sluice_otlp_spans_total",
                                  "sluice_otlp_spans_dropped_total",
                                  "sluice_otlp_errors_total"};
// With the label `server`.
constexpr std::array kOfRedis = {"sluice_redis_memory_used_bytes",
                                 "sluice_redis_memory_max_bytes",
                                 "sluice_redis_replicas",
                                 "sluice_redis_replication_lag_bytes",
                                 "sluice_redis_replication_lag_seconds",
                                 "sluice_redis_commands_total",
                                 "sluice_redis_evicted_keys_total"};
constexpr std::array kOfListeners = {"sluice_connections", "sluice_connections_max"};

std::string read(const std::string& path) {
  std::ifstream file(SLUICE_SOURCE_DIR "/" + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::set<std::string> matches(const std::string& text, const std::string& expression) {
  const RE2 regex(expression);
  re2::StringPiece rest(text);
  std::set<std::string> found;
  for (std::string match; RE2::FindAndConsume(&rest, regex, &match);) found.insert(match);
  return found;
}

// Names of metrics, but those of recording rules, which hold colons.
std::set<std::string> names_in(const std::string& text) {
  return matches(text, "(?:^|[^\\w:])((?:sluice|process)_[a-z_]+)");
}

// Type and names of labels.
struct Description {
  std::string type;
  std::set<std::string> labels;
  bool operator==(const Description&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Description& one) {
  to << one.type;
  for (const auto& label : one.labels) to << ' ' << label;
  return to;
}
using Descriptions = std::map<std::string, Description>;

// A histogram's series end in what its name does not.
std::string family_of(const std::string& series, const Descriptions& known) {
  std::string family = series;
  RE2::Replace(&family, "_(bucket|sum|count)$", "");
  const auto found = known.find(family);
  return found != known.end() && found->second.type == "histogram" ? family : series;
}

std::string exercised_text() {
  const auto rules = RuleSet::parse(
      "version: 1\nrules:\n  - name: r\n    mode: shadow\n    limits: [{ key: '{ip}', algorithm: "
      "gcra, limit: 1, per: 1s, warn: 80%, block: { after: 1, within: 1s, for: 1s } }]\n"
      "  - name: p\n    plan: { default: a }\n    limits: [{ name: x, algorithm: gcra }]\n"
      "plans: { a: { x: { limit: 1, per: 1s } } }\n",
      "test");
  Registry registry;
  registry.make_recorder().use(rules.value());
  for (const char* name : kOfServer) registry.add(name, "Of the server.", [] { return 1.; });
  const auto rows = [] { return std::vector<Registry::Row>{{{"a:6379"}, 1.}}; };
  for (const char* name : kOfRedis) {
    registry.add_rows(name, "Of the server.", {"server"}, rows);
  }
  for (const char* name : kOfListeners) {
    registry.add_rows(name, "Of the server.", {"listener"}, rows);
  }
  registry.add_histogram("sluice_store_duration_seconds", "Of the server.",
                         [] { return DurationCounts{}; });
  registry.add_rows("sluice_store_events_total", "Of the server.", {"event"}, [] {
    return std::vector<Registry::Row>{{{"connected"}, 1.}, {{"breaker_opened"}, 0.}};
  });
  registry.add_rows("sluice_envoy_decisions_total", "Of the server.", {"descriptor", "outcome"},
                    [] { return std::vector<Registry::Row>{{{"a", "ok"}, 1.}}; });
  return registry.text();
}

Descriptions of_text() {
  Descriptions found;
  std::istringstream text(exercised_text());
  for (std::string line, name, rest; std::getline(text, line);) {
    if (RE2::FullMatch(line, "# TYPE (\\S+) (\\S+)", &name, &rest)) found[name].type = rest;
    if (!RE2::FullMatch(line, "([a-z_]+)(\\{.*\\})? .*", &name, &rest)) continue;
    for (const auto& label : matches(rest, "(\\w+)=\"")) {
      if (label != "le") found[family_of(name, found)].labels.insert(label);
    }
  }
  return found;
}

// The rows "| `name` | type | `label`, ... | meaning |".
Descriptions of_page() {
  Descriptions found;
  const RE2 row("\\| `(\\w+)` \\| (counter|gauge|histogram) \\| ([^|]*)\\| [^|]+ \\|");
  std::istringstream page(read("docs/reference/metrics.md"));
  for (std::string line, name, type, labels; std::getline(page, line);) {
    if (!RE2::FullMatch(line, row, &name, &type, &labels)) continue;
    found[name] = {type, matches(labels, "`(\\w+)`")};
  }
  return found;
}

TEST(MetricsPage, DescribesEachMetricWithItsTypeAndLabelsAndNoOther) {
  EXPECT_EQ(of_page(), of_text());
}

TEST(MetricsPage, NamesEachReasonAndEachAlert) {
  const std::string page = read("docs/reference/metrics.md");
  for (int i = 0; i <= static_cast<int>(Reason::kInvalid); ++i) {
    const std::string reason(to_string(static_cast<Reason>(i)));
    EXPECT_NE(page.find("`" + reason + "`"), page.npos) << reason;
  }
  const auto alerts = matches(read("deploy/prometheus/sluice.rules.yml"), "alert: (\\w+)");
  EXPECT_EQ(matches(page, "\\| `(Sluice\\w+)` \\|"), alerts);
}

class Names : public ::testing::TestWithParam<const char*> {};

TEST_P(Names, AreThoseOfMetricsThatExist) {
  const Descriptions known = of_text();
  const auto names = names_in(read(GetParam()));
  EXPECT_GT(names.size(), 10U);
  for (const auto& name : names) {
    EXPECT_TRUE(known.contains(family_of(name, known))) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(OfMetrics, Names,
                         ::testing::Values("deploy/prometheus/sluice.rules.yml",
                                           "deploy/prometheus/sluice.rules.test.yml",
                                           "deploy/prometheus/grafana/sluice.json"));

TEST(AlertRules, EachHaveATestInWhichTheyFireAndDoNotFire) {
  const auto alerts = matches(read("deploy/prometheus/sluice.rules.yml"), "alert: (\\w+)");
  const std::string tests = read("deploy/prometheus/sluice.rules.test.yml");
  EXPECT_GT(alerts.size(), 10U);
  EXPECT_EQ(matches(tests, "alertname: (\\w+), exp_alerts: \\[\\]"), alerts);
  EXPECT_EQ(matches(tests, "alertname: (\\w+)\n +exp_alerts:\n +- exp_labels"), alerts);
}

TEST(AlertRules, EachHaveASectionOfThePageOfAlertsAndItsAddress) {
  const std::string rules = read("deploy/prometheus/sluice.rules.yml");
  const auto alerts = matches(rules, "alert: (\\w+)");
  EXPECT_EQ(matches(read("docs/reference/alerts.md"), "\n### (Sluice\\w+)\n"), alerts);
  std::string name, url;
  std::size_t found = 0;
  const RE2 one(R"re((?s)alert: (\w+)\n.*?annotations:\n +runbook_url: "([^"]+)")re");
  for (re2::StringPiece rest(rules); RE2::FindAndConsume(&rest, one, &name, &url); ++found) {
    std::string anchor = name;  // of a heading
    for (char& letter : anchor) letter = static_cast<char>(std::tolower(letter));
    EXPECT_EQ(url, "file:///usr/share/doc/sluice/docs/reference/alerts.md#" + anchor);
  }
  EXPECT_EQ(found, alerts.size());
}

TEST(AlertRules, EachSectionSaysWhatItMeansWhereToLookAndWhatToDo) {
  const std::string page = read("docs/reference/alerts.md");
  std::string name, text;
  std::size_t found = 0;
  const RE2 section("### (Sluice\\w+)\n([^#]*(?:#[^#]+)*)");
  for (re2::StringPiece rest(page); RE2::FindAndConsume(&rest, section, &name, &text); ++found) {
    for (const char* part : {"- **Means.** ", "\n- **Look here.** ", "\n- **Do this.** "}) {
      EXPECT_NE(text.find(part), text.npos) << name << ": " << part;
    }
  }
  EXPECT_EQ(found, matches(page, "\n### (Sluice\\w+)\n").size());
}

TEST(Dashboard, IsJsonThatShowsEachMetric) {
  const std::string dashboard = read("deploy/prometheus/grafana/sluice.json");
  const auto json = boost::json::parse(dashboard);
  std::string asked;
  std::set<std::int64_t> ids;
  for (const auto& panel : json.at("panels").as_array()) {
    EXPECT_TRUE(ids.insert(panel.at("id").as_int64()).second);
    if (panel.at("type") == "row") continue;
    for (const auto& target : panel.at("targets").as_array()) {
      asked += std::string(target.at("expr").as_string()) + "\n";
    }
  }
  const Descriptions known = of_text();
  std::set<std::string> shown;
  for (const auto& name : names_in(asked)) {
    shown.insert(family_of(name, known));
  }
  for (const auto& [name, description] : known) {
    if (name == "process_virtual_memory_bytes") continue;
    EXPECT_TRUE(shown.contains(name)) << name;
  }
}

}  // namespace
}  // namespace sluice::metrics
