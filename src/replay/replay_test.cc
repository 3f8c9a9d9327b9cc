#include "replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <map>
#include <random>
#include <stdexcept>

#include "base/civil_time.h"
#include "replay/test_logs.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kRules = R"(version: 1
domain: test
rules:
  - name: writes
    match: { method: POST }
    limits:
      - { name: posts, key: "{ip}", algorithm: sliding_window_log, limit: 2, per: 10s }
    continue: true
  - name: trial
    match: { path: /t/** }
    limits:
      - { name: all, algorithm: fixed_window, limit: 20, per: 1h, align: clock }
    mode: shadow
    continue: true
  - name: clients
    match: { path: [/a/**, /t/**] }
    limits:
      - { name: client, key: "{ip}", algorithm: sliding_window_log, limit: 3, per: 10s }
)";

RuleSet rules_of(std::string_view yaml) {
  auto rules = RuleSet::parse(yaml, "test.yaml");
  if (!rules) throw std::runtime_error(rules.error().front().to_string());
  return *rules;
}

std::uint64_t number(const boost::json::value& value) { return value.to_number<std::uint64_t>(); }

class ReplayTest : public ::testing::Test {
 protected:
  ReplayReport replay_text(const std::string& text, const RuleSet& rules) {
    return replay_logs({files_.write("log", text)}, rules);
  }
  ReplayReport replay_logs(const std::vector<std::string>& logs, const RuleSet& rules) {
    ReplayOptions options;
    options.logs = logs;
    options.max_keys = max_keys_;
    options.against = against_;
    options.format = format_;
    options.fields = fields_;
    options.complain = [this](std::string_view text) { complaints_.emplace_back(text); };
    return replay(rules, options);
  }

  TemporaryFiles files_;
  std::size_t max_keys_ = 10000;
  const RuleSet* against_ = nullptr;
  std::optional<LogFormat> format_;
  std::vector<FieldMapping> fields_;
  std::vector<std::string> complaints_;
  const RuleSet rules_ = rules_of(kRules);
};

TEST_F(ReplayTest, DecidesAtTheInstantsOfTheLog) {
  std::string text;
  for (const int second : {0, 1, 2, 3, 9, 10, 11, 12, 13}) text += line_at(second, "x", "GET /a/b");
  const ReplayReport report = replay_text(text, rules_);
  // The requests at 3 and 9 are denied. At 10 the request of 0 has left the window, and so on.
  EXPECT_EQ(report.tally.denied, 3u);
  EXPECT_EQ(report.tally.allowed(), 6u);
  EXPECT_EQ(report.parsed(), 9u);
}

TEST_F(ReplayTest, ChargesTheCostsOfTheRules) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: reads
    limits:
      - { name: calls, algorithm: fixed_window, limit: 9, per: 1h, cost: 3 }
      - { name: rows, algorithm: fixed_window, limit: 100, per: 1h, cost: "{query.rows|10}" }
      - { name: one, algorithm: fixed_window, limit: 3, per: 1h, cost: request }
)");
  const std::string text = line_at(0, "x", "GET /a?rows=70") + line_at(1, "x", "GET /a?rows=many") +
                           line_at(2, "x", "GET /a?rows=31") + line_at(3, "x", "GET /a?rows=11") +
                           line_at(4, "x", "GET /a") + line_at(5, "x", "GET /a?rows=0");
  const ReplayReport report = replay_text(text, rules);
  const auto& limits = report.tally.rules[0].limits;
  EXPECT_EQ(report.tally.allowed(), 3u);
  EXPECT_EQ(limits[0].denied, 1u) << "the last";
  EXPECT_EQ(limits[1].denied, 1u) << "31 rows";
  EXPECT_EQ(limits[1].invalid, 1u) << "what is no number";
  EXPECT_EQ(limits[2].denied, 1u) << "the last";
  EXPECT_EQ(limits[1].keys.keys(), 1u);
}

TEST_F(ReplayTest, CountsRequestsWithWrongCostsAsInvalid) {
  const auto yaml = [](const std::string& mode) {
    return rules_of("version: 1\nrules:\n  - name: calls\n    mode: " + mode + R"(
    limits:
      - { name: tokens, key: "{ip}", algorithm: fixed_window, limit: 10, per: 1h, cost: "{query.t|7}" }
)");
  };
  std::string text;
  for (const char* cost : {"5", "5", "1", "x", "-1", "1.5", "y", "9z"}) {
    text += line_at(0, "a", "GET /?t=" + std::string(cost));
  }
  const RuleSet rules = yaml("enforce");
  const RuleSet shadow = yaml("shadow");
  against_ = &shadow;
  const ReplayReport report = replay_text(text, rules);
  const Tally& tally = report.tally;
  EXPECT_EQ(tally.denied, 1u);
  EXPECT_EQ(tally.invalid, 5u);
  EXPECT_EQ(report.tally.allowed(), 2u);
  EXPECT_EQ(tally.rules[0].matched, 8u);
  EXPECT_EQ(tally.rules[0].denied, 1u);
  EXPECT_EQ(tally.rules[0].limits[0].requests, 3u);
  EXPECT_EQ(tally.rules[0].limits[0].denied, 1u);
  const ReplayComparison& both = *report.comparison;
  EXPECT_EQ(both.tally.invalid, 0u) << "a rule in shadow mode refuses nothing";
  EXPECT_EQ(both.tally.rules[0].denied, 1u);
  EXPECT_EQ(both.tally.rules[0].limits[0].invalid, 5u);
  EXPECT_EQ(both.only_rules.denied, 1u);
}

TEST_F(ReplayTest, ExplainsInvalidRequestsInAllReports) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: calls
    limits:
      - { name: tokens, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: "{query.t}" }
)");
  std::string text;
  for (const char* cost : {"9", "1", "x", "y"}) {
    text += line_at(0, "a", "GET /?t=" + std::string(cost));
  }
  const ReplayReport report = replay_text(text, rules);
  const std::string summary = text_report(report, false);
  EXPECT_NE(summary.find("denied 1 of 2 requests, 1 of 1 key, 1 of 10 units\n    2 more requests "
                         "have a cost that is "
                         "no number of units\n"),
            std::string::npos)
      << summary;
  EXPECT_NE(summary.find("note: the server refuses 2 requests with 400"), std::string::npos)
      << summary;
  EXPECT_NE(summary.find("'x'"), std::string::npos) << summary;
  const auto json = boost::json::parse(json_report(report));
  EXPECT_EQ(json.at("allowed").to_number<int>(), 1);
  EXPECT_EQ(json.at("denied").to_number<int>(), 1);
  EXPECT_EQ(json.at("invalid").to_number<int>(), 2);
  EXPECT_EQ(json.at("rules").at(0).at("limits").at(0).at("invalid").to_number<int>(), 2);
  const std::string page = html_report(report);
  EXPECT_NE(page.find("<dt>Invalid</dt><dd class=\"bad\">2"), std::string::npos);
  EXPECT_NE(page.find("2 more requests have a cost"), std::string::npos);
}

TEST_F(ReplayTest, SaysWhichLinesHaveACostThatIsNoNumber) {
  fields_ = {{"cost", "tokens"}};
  const std::string csv = "time,ip,tokens\n1795428000,a,1\n1795428001,a,many\n1795428002,a,-3\n";
  const ReplayReport report = replay_text(csv, rules_);
  EXPECT_EQ(report.skipped, 2u);
  EXPECT_EQ(report.wrong_costs, 2u);
  EXPECT_NE(text_report(report, false).find("2  lines with a cost that is no whole number\n"),
            std::string::npos);
  EXPECT_EQ(boost::json::parse(json_report(report)).at("wrong_costs").to_number<int>(), 2);
  EXPECT_NE(html_report(report).find("2<small>lines with a cost that is no whole number"),
            std::string::npos);
  EXPECT_EQ(replay_text(csv + "x\n", rules_).skipped_text(),
            "lines that are not access log lines, and 2 with a cost that is no whole number");
}

TEST_F(ReplayTest, SaysHowManyRequestsOfALogWithCostsHaveNone) {
  const RuleSet rules = rules_of(
      "version: 1\nrules:\n  - name: models\n    limits:\n      - { name: tokens, algorithm: "
      "fixed_window, limit: 90, per: 1h, cost: request }\n");
  const auto warnings_with = [&](const std::string& name, const std::string& lines) {
    fields_ = {{name, "n"}};
    return warnings_of(replay_text("time,n\n1795428000,7\n" + lines, rules));
  };
  const std::string problem =
      "1 of 3 requests has no cost; it counts as 1 unit, or as the 'cost' of a limit says";
  const std::vector<std::string> one = {files_.path("log") + ": " + problem};
  EXPECT_EQ(warnings_with("cost", "1795428001,\n1795428002,0\n"), one);
  EXPECT_EQ(complaints_, std::vector{files_.path("log") + ": warning: " + problem});
  EXPECT_EQ(warnings_with("costs.tokens", "1795428001,-\n1795428002,9\n"), one);
  EXPECT_EQ(warnings_with("cost", "1795428001,\n1795428002,\n").at(0),
            files_.path("log") +
                ": 2 of 3 requests have no cost; each counts as 1 unit, or as the 'cost' of a "
                "limit says");
  EXPECT_EQ(warnings_with("cost", "1795428001,1\n"), std::vector<std::string>());
  fields_ = {};
  EXPECT_EQ(warnings_of(replay_text("time,n\n1795428000,7\n", rules)).size(), 1u)
      << "the log has no cost at all";
}

TEST_F(ReplayTest, CountsTheResponsesOfTheLog) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: pages
    limits:
      - { name: missing, key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h,
          count: { on: 404 } }
)");
  std::string text;
  for (int second = 0; second < 9; ++second) text += line_at(second, "x", "GET /found");
  for (int second = 10; second < 14; ++second)
    text += line_at(second, "x", "GET /gone", "agent", 404);
  text += line_at(20, "y", "GET /found");
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(report.tally.denied, 2u) << "what was denied has no response";
  EXPECT_EQ(report.tally.allowed(), 12u);
}

TEST_F(ReplayTest, DecidesByTheFieldsAndCostsOfJsonLogs) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: models
    match: { path: /models }
    limits:
      - { name: calls, key: "{user}", algorithm: fixed_window, limit: 9, per: 1h, cost: 1 }
      - { name: tokens, key: "{user}", algorithm: fixed_window, limit: 100, per: 1h }
  - name: pages
    limits:
      - { name: pages, algorithm: fixed_window, limit: 100, per: 1h }
)");
  fields_ = {{"user", "who.id"}, {"costs.tokens", "usage.total"}};
  std::string text;
  for (const char* line :
       {R"("path":"/models","who":{"id":1},"usage":{"total":60}})",    // allowed
        R"("path":"/models","who":{"id":1},"usage":{"total":60}})",    // denied: 120 tokens
        R"("path":"/models","who":{"id":2},"usage":{"total":60}})",    // allowed: another user
        R"("path":"/models","who":{"id":1},"usage":{"total":40}})",    // allowed: 100 tokens
        R"("path":"/models","who":{"id":1}})",                         // denied: one token
        R"("path":"/page","who":{"id":1},"usage":{"total":999}})"}) {  // no limit "tokens"
    text += R"({"ts":1795428000,)" + std::string(line) + "\n";
  }
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(report.parsed(), 6u);
  EXPECT_EQ(report.formats, std::vector{LogFormat::kJson});
  EXPECT_EQ(report.tally.rules[0].denied, 2u);
  EXPECT_EQ(report.tally.rules[0].limits[1].keys.keys(), 2u);
  EXPECT_EQ(report.tally.rules[1].matched, 1u);
  EXPECT_EQ(report.tally.rules[1].denied, 0u) << "a cost is left out where no limit has its name";
}

TEST_F(ReplayTest, CountsUnitsThatAreAllowedAndDenied) {
  const auto rules_in = [](const std::string& mode) {
    return rules_of("version: 1\nrules:\n  - name: models\n    mode: " + mode + R"(
    limits:
      - { name: calls, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: 1 }
      - { name: tokens, key: "{ip}", algorithm: fixed_window, limit: 100, per: 1h, cost: request }
)");
  };
  const RuleSet enforced = rules_in("enforce");
  const RuleSet shadow = rules_in("shadow");
  fields_ = {{"cost", "n"}};
  // The second of a and the third of b are denied.
  const std::string csv =
      "time,ip,n\n1795428000,a,70\n1795428001,a,40\n1795428002,b,90\n1795428003,b,10\n"
      "1795428004,b,2000\n";
  const ReplayReport report = replay_text(csv, enforced);
  const LimitTally& tokens = report.tally.rules[0].limits[1];
  EXPECT_EQ(tokens.units, 2210u);
  EXPECT_EQ(tokens.denied_units, 2040u);
  EXPECT_EQ(report.tally.rules[0].limits[0].units, 5u);
  const std::string text = text_report(report, false);
  EXPECT_NE(
      text.find("  units                 2,210  170 (7.7 %) allowed, 2,040 (92.3 %) denied\n"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("denied 2 of 5 requests, 2 of 2 keys, 2,040 of 2,210 units\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("denied 0 of 5 requests, 0 of 2 keys\n"), std::string::npos) << text;
  const std::string page = html_report(report);
  EXPECT_NE(page.find("<dt>Units</dt><dd>2,210<small>170"), std::string::npos);
  EXPECT_NE(page.find("</code>. Denied 2,040 of 2,210 units.</p>"), std::string::npos);
  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_EQ(number(json.at("units")), 2210u);
  EXPECT_EQ(number(json.at("denied_units")), 2040u);
  EXPECT_EQ(number(json.at("rules").at(0).at("limits").at(1).at("denied_units")), 2040u);

  fields_ = {{"costs.tokens", "n"}};
  const ReplayReport single = replay_text(csv, enforced);
  const auto without_total = boost::json::parse(json_report(single)).as_object();
  for (const char* member : {"units", "denied_units", "would_deny_units"}) {
    EXPECT_FALSE(without_total.contains(member)) << member;
  }
  EXPECT_EQ(number(without_total.at("rules").at(0).at("limits").at(1).at("units")), 2210u);
  EXPECT_EQ(text_report(single, false).find("\n  units "), std::string::npos);
  fields_ = {{"cost", "n"}};

  const ReplayReport trial = replay_text(csv, shadow);
  EXPECT_NE(text_report(trial, false).find("0 (0.0 %) denied, 2,040 (92.3 %) would be denied\n"),
            std::string::npos)
      << text_report(trial, false);
  EXPECT_EQ(number(boost::json::parse(json_report(trial)).at("would_deny_units")), 2040u);
  fields_ = {};
  EXPECT_EQ(text_report(replay_text(csv, enforced), false).find("  units  "), std::string::npos);
}

TEST_F(ReplayTest, WarnsAboutLimitsWhoseCostTheLogLacks) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: models
    limits:
      - { name: calls, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: 1 }
      - { name: total, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: request }
      - { name: out, algorithm: fixed_window, limit: 9, per: 1h, cost: "{body.out|body.max|7}" }
      - { name: in, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: "{body.in}" }
)");
  const std::string lacks_total =
      "rule models, limit total: it has 'cost: request', and the log has no cost, so each request "
      "took 1 unit; expected --field cost=COLUMN";
  const std::string lacks_out =
      "rule models, limit out: the log has no attribute of its cost, {body.out|body.max|7}, so the "
      "default counted; expected --field body.out=COLUMN";
  const std::string lacks_in =
      "rule models, limit in: applied to no request; the log has no value for {ip} or its cost, "
      "{body.in}";
  const std::string csv = "time,ip,n\n1795428000,a,1\n1795428001,a,1\n";
  const ReplayReport report = replay_text(csv, rules);
  EXPECT_EQ(warnings_of(report), (std::vector{lacks_total, lacks_out, lacks_in}));
  EXPECT_NE(text_report(report, false).find("\nwarning: " + lacks_total + "\n"), std::string::npos);
  EXPECT_NE(html_report(report).find("Warning: rule models, limit total: it has"),
            std::string::npos);
  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_EQ(json.at("warnings").at(0).as_string(), lacks_total);
  EXPECT_EQ(json.at("warnings").as_array().size(), 3u);
  const auto warnings_with = [&](const std::string& name) {
    fields_ = {{name, "n"}};
    return warnings_of(replay_text(csv, rules));
  };
  EXPECT_EQ(warnings_with("cost"), (std::vector{lacks_out, lacks_in})) << "all costs are 1";
  EXPECT_EQ(warnings_with("costs.total"), (std::vector{lacks_out, lacks_in}));
  EXPECT_EQ(warnings_with("costs.out"), (std::vector{lacks_total, lacks_in}));
  EXPECT_EQ(warnings_with("body.max"), (std::vector{lacks_total, lacks_in}));
  EXPECT_EQ(warnings_with("body.in"), (std::vector{lacks_total, lacks_out}));
  fields_ = {};
  EXPECT_EQ(warnings_of(replay_text(R"({"time":"2026-11-23T10:00:01Z","attributes":{"ip":"a"}})"
                                    "\n",
                                    rules)),
            (std::vector{lacks_out, lacks_in}))
      << "a recording omits a cost of 1";
  against_ = &rules;
  EXPECT_EQ(warnings_of(replay_text(csv, rules)).at(3), "the second rules: " + lacks_total);
}

TEST_F(ReplayTest, SaysThatRequestsWithoutACostWereDenied) {
  const auto warnings_with = [&](const std::string& cost) {
    const RuleSet rules = rules_of(
        "version: 1\nrules:\n  - name: models\n    limits:\n      - { name: tokens, key: '{ip}', "
        "algorithm: fixed_window, limit: 9, per: 1h, on_missing: deny, cost: '" +
        cost + "' }\n");
    return warnings_of(replay_text("time,ip,n\n1795428000,a,1\n1795428001,a,1\n", rules));
  };
  EXPECT_EQ(warnings_with("{body.in|body.out}"),
            std::vector<std::string>{"rule models, limit tokens: no request has body.in or "
                                     "body.out; all 2 were denied by 'on_missing: deny'; "
                                     "expected --field body.in=COLUMN"});
  EXPECT_EQ(warnings_with("{body.in|5}"),
            std::vector<std::string>{"rule models, limit tokens: the log has no attribute of its "
                                     "cost, {body.in|5}, so the default counted; expected --field "
                                     "body.in=COLUMN"});
}

TEST_F(ReplayTest, WarnsAboutKeysThatNoRequestHas) {
  const RuleSet rules = rules_of(R"(version: 1
defaults: { on_missing: deny }
rules:
  - name: users
    match: { path: /a }
    continue: true
    limits:
      - { name: user, key: "{header.x-user|header.x-team|ip}", algorithm: gcra, limit: 9, per: 1h }
      - { name: query, key: "{ip} {query.q|ip}", algorithm: gcra, limit: 9, per: 1h }
      - { name: client, key: "{ip/24/64|header.x-user}", algorithm: gcra, limit: 9, per: 1h }
  - name: trial
    mode: shadow
    limits:
      - { name: user, key: "{header.x-user}", algorithm: gcra, limit: 9, per: 1h }
)");
  const std::string user =
      "rule users, limit user: no request has header.x-user or header.x-team; all 2 were counted "
      "by ip";
  const std::string query =
      "rule users, limit query: no request has query.q; all 2 were counted by ip";
  const std::string strict =
      "rule strict, limit user: no request has header.x-user; all 3 were denied by 'on_missing: "
      "deny'";
  const std::string trial =
      "rule trial, limit user: no request has header.x-user; all 3 would be denied by 'on_missing: "
      "deny'";
  const std::string common =
      "; expected --field header.x-user=remote_user, or a log of JSON lines with this value";
  const std::string text =
      line_at(0, "x", "GET /a") + line_at(1, "x", "GET /a") + line_at(2, "x", "GET /b?q=1");
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(warnings_of(report), (std::vector{user + common, query, trial + common}))
      << "another rule had a request with query.q";
  EXPECT_EQ(boost::json::parse(json_report(report)).at("warnings").as_array().size(), 3u);
  fields_ = {{"header.x-user", "remote_user"}};
  const std::string json = "; expected a log of JSON lines with this value";
  EXPECT_EQ(warnings_of(replay_text(text, rules)), (std::vector{user + json, query, trial + json}))
      << "no line has a user";
  std::string named = text;
  named.replace(named.find("- ["), 1, "ann");
  EXPECT_EQ(warnings_of(replay_text(named, rules)), std::vector{query}) << "one has a user";
  fields_ = {};
  const std::string line = R"({"ts":1,"path":"/a?q=1","ip":"1.2.3.4"})"
                           "\n";
  EXPECT_EQ(warnings_of(replay_text(line, rules)).at(0),
            "rule users, limit user: no request has header.x-user or header.x-team; the only one "
            "was counted by ip; expected --field header.x-user=COLUMN");
  const std::string team = R"({"ts":1,"path":"/a?q=1","ip":"1.2.3.4","http_x_team":"t"})"
                           "\n";
  EXPECT_EQ(warnings_of(replay_text(team, rules)).at(0),
            "rule users, limit user: no request has header.x-user; the only one was counted by "
            "header.x-team or ip; expected --field header.x-user=COLUMN");
  const RuleSet strict_rules = rules_of(R"(version: 1
rules:
  - name: strict
    limits:
      - { name: user, key: "{query.q|ip} {header.x-user}", algorithm: gcra, limit: 9, per: 1h,
          on_missing: deny }
      - { name: client, key: "{ip}", algorithm: gcra, limit: 9, per: 1h }
)");
  EXPECT_EQ(warnings_of(replay_text(text, strict_rules)),
            (std::vector<std::string>{strict + common,
                                      "rule strict, limit client: applied to no request"}));
}

TEST_F(ReplayTest, WarnsAboutLimitsWithoutTheCostOfOthers) {
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: models
    continue: true
    limits:
      - { name: calls, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: 1 }
      - { name: hour, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h, cost: "{body.n}" }
      - { name: day, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1d }
  - name: all
    match: { ip: a }
    limits: [ { name: month, algorithm: fixed_window, limit: 9, per: month } ]
  - name: others
    limits: [ { name: every, algorithm: fixed_window, limit: 9, per: 1d } ]
)");
  const std::string day =
      "rule models, limit day: it has no 'cost', so each request took 1 unit, and limit hour took "
      "its own cost, {body.n}; expected the same cost, or 'cost: 1' to count requests";
  const std::string month =
      "rule all, limit month: it has no 'cost', so each request took 1 unit, and limit hour of "
      "rule models took its own cost, {body.n}; expected the same cost, or 'cost: 1' to count "
      "requests";
  const auto warnings_of_log = [&](const std::string& name, const std::string& lines) {
    fields_ = {{name, "n"}};
    return warnings_of(replay_text("time,ip,n,m\n" + lines, rules));
  };
  const std::string lines = "1795428000,a,7,1\n1795428001,a,70,1\n1795428002,b,1,1\n";
  EXPECT_EQ(warnings_of_log("body.n", lines), (std::vector{day, month}))
      << "each once, and none for `every`, which saw no such request";
  EXPECT_EQ(warnings_of_log("body.n", "1795428000,a,1,1\n1795428001,b,1,1\n"),
            std::vector<std::string>());
  EXPECT_EQ(warnings_of_log("costs.hour", lines), (std::vector{day, month}));
  fields_ = {{"body.n", "n"}, {"costs.day", "m"}};
  EXPECT_EQ(warnings_of(replay_text("time,ip,n,m\n1795428000,a,7,1\n1795428001,b,1,5\n", rules)),
            std::vector{month})
      << "the requests have a cost for the other one";
}

TEST_F(ReplayTest, WarnsAboutLimitsWithoutCostThatTookTheCostOfTheLog) {
  const auto rules_with = [](const std::string& calls, const std::string& tokens) {
    return rules_of("version: 1\nrules:\n  - name: models\n    limits:\n      - { name: tokens, " +
                    tokens + "algorithm: fixed_window, limit: 1000, per: 1h }\n      - { name: " +
                    "calls, algorithm: fixed_window, limit: 30, per: 1h" + calls + " }\n");
  };
  const std::string csv = "time,n\n1795428000,20\n1795428001,20\n1795428002,1\n";
  const std::string warning =
      "rule models, limit calls: it has no 'cost', so it took the cost that the log gives, and at "
      "a gateway it takes 1 unit of each request; expected 'cost: 1' to count requests, or 'cost: "
      "request'";
  fields_ = {{"cost", "n"}};
  const RuleSet rules = rules_with("", "cost: request, ");
  const ReplayReport report = replay_text(csv, rules);
  EXPECT_EQ(report.tally.rules[0].limits[1].denied, 1u) << "the second";
  EXPECT_EQ(warnings_of(report), std::vector{warning});
  EXPECT_NE(text_report(report, false).find("\nwarning: " + warning + "\n"), std::string::npos);
  EXPECT_EQ(boost::json::parse(json_report(report)).at("warnings").at(0).as_string(), warning);
  EXPECT_NE(html_report(report).find("Warning: rule models, limit calls: it has no"),
            std::string::npos);
  const auto count_of_warnings = [&](const std::string& calls, const std::string& tokens) {
    const RuleSet others = rules_with(calls, tokens);
    return warnings_of(replay_text(csv, others)).size();
  };
  EXPECT_EQ(count_of_warnings("", "cost: '{body.n|1}', "), 2u) << "and that its default counted";
  EXPECT_EQ(count_of_warnings(", cost: 1", "cost: request, "), 0u);
  EXPECT_EQ(count_of_warnings(", cost: request", "cost: request, "), 0u);
  EXPECT_EQ(count_of_warnings("", ""), 0u) << "no limit has a cost";
  fields_.push_back({"costs.calls", "n"});
  EXPECT_EQ(count_of_warnings("", "cost: request, "), 0u) << "this column is for this limit";
}

TEST_F(ReplayTest, DoesNotCountTheHeaderOfColumns) {
  const std::string csv = "time,ip\n1795428000,a\n1795428001,a\n\n1795428002\n";
  const ReplayReport report =
      replay_logs({files_.write("csv", csv), files_.write("log", line_at(0, "x"))}, rules_);
  EXPECT_EQ(report.lines, 5u);
  EXPECT_EQ(report.skipped, 2u);
  EXPECT_EQ(report.formats, (std::vector{LogFormat::kCommon, LogFormat::kCsv}));
  ASSERT_EQ(complaints_.size(), 2u);
  EXPECT_TRUE(
      complaints_[1].starts_with(files_.path("csv") + ":5: skipped: another number of columns"))
      << complaints_[1];
}

TEST_F(ReplayTest, CountsRecordedRequestsThatNoRulesDecideAndDecidesNone) {
  const std::string own = R"({"time":"2026-11-23T10:00:00Z","without_rules":{"key":"user:1",)"
                          R"("algorithm":"gcra","limit":30,"per":"1m","capacity":16},)";
  const std::string text = own + R"("cost":2,"outcome":"allowed"})" + "\n" +
                           R"({"time":"2026-11-23T10:00:01Z","attributes":{"path":"/"},)" +
                           R"("outcome":"allowed"})" + "\n" + own + R"("outcome":"denied"})" + "\n";
  const RuleSet rules = rules_of(R"(version: 1
rules:
  - name: every
    limits: [ { name: all, algorithm: fixed_window, limit: 9, per: 1h } ]
)");
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(report.without_rules, 2u);
  EXPECT_EQ(report.parsed(), 1u);
  EXPECT_EQ(report.tally.rules[0].matched, 1u);
  EXPECT_EQ(complaints_, std::vector<std::string>());
  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_EQ(json.at("without_rules").to_number<int>(), 2);
  EXPECT_EQ(json.at("lines").to_number<int>(), 3);
}

TEST_F(ReplayTest, SaysWhichLinesOfALogHaveAnotherFormat) {
  const ReplayReport report =
      replay_text(line_at(0, "x") + "{\"ts\":1,\"path\":\"/\"}\n" + line_at(1, "x"), rules_);
  EXPECT_EQ(report.skipped, 1u);
  ASSERT_EQ(complaints_.size(), 1u);
  EXPECT_TRUE(complaints_[0].starts_with(files_.path("log") + ":2: skipped: this line is JSON"));
}

TEST_F(ReplayTest, ReadsLogsAsTheFormatThatTheCallerNames) {
  format_ = LogFormat::kCsv;
  const ReplayReport report = replay_text("when,ip\n1795428000,a\n", rules_);
  EXPECT_EQ(report.parsed(), 0u);
  fields_ = {{"time", "when"}};
  EXPECT_EQ(replay_text("when,ip\n1795428000,a\n", rules_).parsed(), 1u);
}

TEST_F(ReplayTest, ComparesTwoSetsOfRulesInOnePass) {
  const RuleSet others = rules_of(R"(version: 1
rules:
  - name: agents
    match: { path: /a/** }
    limits:
      - { name: agent, key: "{header.user-agent}", algorithm: sliding_window_log, limit: 4, per: 10s }
)");
  against_ = &others;
  std::string text;
  for (int i = 0; i < 5; ++i) text += line_at(i, "x", "GET /a/b", "a" + std::to_string(i));
  for (int i = 5; i < 10; ++i) text += line_at(i, "y" + std::to_string(i), "GET /a/b", "b");
  for (int i = 10; i < 15; ++i) text += line_at(i + 10, "z", "GET /a/b", "c");
  const ReplayReport report = replay_text(text, rules_);
  ASSERT_TRUE(report.comparison);
  const ReplayComparison& both = *report.comparison;
  EXPECT_EQ(report.tally.denied, 4u) << "x and z twice";
  EXPECT_EQ(both.tally.denied, 2u) << "the last of agent b, and of c";
  EXPECT_EQ(both.denied_both, 1u);
  EXPECT_EQ(both.only_rules.denied, 3u);
  EXPECT_EQ(both.only_against.denied, 1u);
  const auto mine = both.only_rules.rules[2].limits[0].keys.most_denied(9);
  ASSERT_EQ(mine.size(), 2u);
  EXPECT_EQ(mine[0].label + mine[1].label, "xz");
  const auto theirs = both.only_against.rules[0].limits[0].keys.most_denied(9);
  ASSERT_EQ(theirs.size(), 1u);
  EXPECT_EQ(theirs[0].label, "b");

  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_EQ(json.at("against").at("denied").to_number<int>(), 2);
  EXPECT_EQ(json.at("denied_both").to_number<int>(), 1);
  EXPECT_EQ(json.at("denied_only_by_rules").at("denied").to_number<int>(), 3);
  EXPECT_EQ(json.at("denied_only_by_against").at("rules").at(0).at("denied").to_number<int>(), 1);
  const std::string summary = text_report(report, false);
  EXPECT_NE(summary.find("only the first rules, rule clients: denied 3 requests"),
            std::string::npos);
  EXPECT_NE(summary.find("only the second rules, rule agents: denied 1 request\n"),
            std::string::npos);
  EXPECT_NE(html_report(report).find(
                "Denied only by <code>the second rules</code>, rule agents: 1 request"),
            std::string::npos);
}

TEST_F(ReplayTest, FindsNoDifferenceBetweenEqualRules) {
  const RuleSet same = rules_of(kRules);
  against_ = &same;
  std::string text;
  for (int i = 0; i < 50; ++i) text += line_at(i / 5, "x", "GET /a/b");
  const ReplayReport report = replay_text(text, rules_);
  EXPECT_GT(report.tally.denied, 0u);
  EXPECT_EQ(report.comparison->denied_both, report.tally.denied);
  EXPECT_EQ(report.comparison->only_rules.denied + report.comparison->only_against.denied, 0u);
}

TEST_F(ReplayTest, DecidesLateLinesAtTheRunningMaximum) {
  const std::string text = line_at(0, "x", "GET /a") + line_at(100, "y", "GET /a") +
                           line_at(5, "x", "GET /a") + line_at(6, "x", "GET /a") +
                           line_at(101, "x", "GET /a") + line_at(7, "x", "GET /a");
  const ReplayReport report = replay_text(text, rules_);
  // x at 0 has left the window when the late requests come at 100, 100, 101 and 101: one too many.
  EXPECT_EQ(report.tally.denied, 1u);
  EXPECT_EQ(report.late, 3u);
  EXPECT_NE(text_report(report, false).find("read so far: sort the log to be exact\n"),
            std::string::npos);
  EXPECT_EQ(base::to_rfc3339(report.first.value()), "2016-02-20T00:00:00Z");
  EXPECT_EQ(report.tally.rules[2].limits[0].keys.most_denied(1).at(0).last, *report.last);
}

TEST_F(ReplayTest, MergesTheLogsOfSeveralServers) {
  std::string all;
  std::array<std::string, 2> servers;
  for (int i = 0; i < 100; ++i) {
    const std::string line = line_at(i, i % 3 == 0 ? "x" : "y", "GET /a");
    all += line;
    servers[static_cast<std::size_t>(i) % 2] += line;
  }
  const ReplayReport one = replay_text(all, rules_);
  const ReplayReport two =
      replay_logs({files_.write("2", servers[1]), files_.write("1", servers[0])}, rules_);
  EXPECT_GT(one.tally.denied, 0u);
  EXPECT_EQ(two.tally.denied, one.tally.denied);
  EXPECT_EQ(two.late, 0u);
  EXPECT_EQ(two.first, one.first);
  EXPECT_EQ(two.last, one.last);
}

TEST_F(ReplayTest, WarnsAboutTimesWithoutAZoneNextToOthers) {
  const std::string local =
      files_.write("local", "time,ip\n2016-02-20 01:00:00,a\n2016-02-20 01:00:01.5,a\n");
  const std::string zoned = files_.write("zoned", "time,ip\n2016-02-20T01:00:00+01:00,a\n");
  const std::string seconds = files_.write("seconds", "time,ip\n1455926400,a\n");
  const std::string access = files_.write("access", line_at(0, "a"));
  const std::string what = "its times have no zone and are read as UTC, and other logs have a zone";
  for (const std::string& other : {zoned, seconds, access}) {
    complaints_.clear();
    const ReplayReport report = replay_logs({local, other}, rules_);
    EXPECT_EQ(complaints_, std::vector{local + ": warning: " + what}) << other;
    EXPECT_EQ(report.problems, std::vector{local + ": " + what}) << other;
  }
  complaints_.clear();
  replay_logs({local}, rules_);
  replay_logs({local, files_.write("same", "time,ip\n2016-02-20 01:00:00,a\n")}, rules_);
  replay_logs({zoned, seconds, access}, rules_);
  EXPECT_EQ(complaints_, std::vector<std::string>());
}

TEST_F(ReplayTest, AllowsRequestsWithoutARuleAndInShadowMode) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += line_at(i, "x" + std::to_string(i), "GET /t/x");
  text += line_at(40, "y", "GET /other");
  const ReplayReport report = replay_text(text, rules_);
  EXPECT_EQ(report.tally.denied, 0u);
  EXPECT_EQ(report.tally.allowed(), 31u);
  EXPECT_EQ(report.tally.unmatched, 1u);
  EXPECT_EQ(report.tally.rules[1].matched, 30u);
  EXPECT_EQ(report.tally.rules[1].denied, 10u);
  EXPECT_EQ(report.tally.would_deny, 10u);
}

// Decides by the rules above in the simplest way.
class Naive {
 public:
  void add(int second, const std::string& client, bool post, const std::string& path) {
    now = std::max(now, second);
    const bool a = path == "/a/b";
    const bool t = path == "/t/b";
    ++lines;
    if (!post && !a && !t) ++unmatched;
    if (t) count("all", "", trials++ >= 20);
    const bool posts_full = post && recent(posts[client]) >= 2;
    const bool client_full = (a || t) && recent(clients[client]) >= 3;
    if (post) count("posts", client, posts_full);
    if (a || t) count("client", client, client_full);
    if (posts_full || client_full) {
      ++denied;
      return;
    }
    if (post) posts[client].push_back(now);
    if (a || t) clients[client].push_back(now);
  }
  struct Limit {
    std::uint64_t asked = 0;
    std::uint64_t denied = 0;
    std::map<std::string, std::uint64_t> keys;
  };
  std::map<std::string, Limit> limits;
  std::uint64_t lines = 0, denied = 0, unmatched = 0;

 private:
  std::size_t recent(const std::vector<int>& instants) const {
    return static_cast<std::size_t>(
        std::count_if(instants.begin(), instants.end(), [this](int at) { return at > now - 10; }));
  }
  void count(const std::string& name, const std::string& key, bool full) {
    Limit& limit = limits[name];
    ++limit.asked;
    limit.denied += full ? 1 : 0;
    limit.keys[key] += full ? 1 : 0;
  }
  std::map<std::string, std::vector<int>> posts, clients;
  int now = 0, trials = 0;
};

TEST_F(ReplayTest, PrintsTheNumbersOfANaiveCountAsJson) {
  std::mt19937 random(42);
  Naive naive;
  std::string text;
  for (int i = 0, second = 0; i < 5000; ++i) {
    second += static_cast<int>(random() % 2);
    const int at = std::max(0, second - static_cast<int>(random() % 20 == 0 ? random() % 30 : 0));
    const std::string client = "c" + std::to_string(random() % 5);
    const bool post = random() % 4 == 0;
    const std::string path = std::array{"/a/b", "/t/b", "/other"}[random() % 3];
    text += line_at(at, client, (post ? "POST " : "GET ") + path);
    naive.add(at, client, post, path);
    if (i % 100 == 0) text += "nonsense\n";
  }
  const auto json = boost::json::parse(json_report(replay_text(text, rules_))).as_object();
  EXPECT_EQ(number(json.at("lines")), naive.lines + 50);
  EXPECT_EQ(number(json.at("skipped")), 50u);
  EXPECT_EQ(number(json.at("parsed")), naive.lines);
  EXPECT_EQ(number(json.at("denied")), naive.denied);
  EXPECT_EQ(number(json.at("allowed")), naive.lines - naive.denied);
  EXPECT_EQ(number(json.at("unmatched")), naive.unmatched);
  ASSERT_GT(naive.denied, 100u);
  for (const auto& rule : json.at("rules").as_array()) {
    ASSERT_EQ(rule.at("limits").as_array().size(), 1u);
    const auto& limit = rule.at("limits").at(0);
    const Naive::Limit& expected = naive.limits.at(std::string(limit.at("name").as_string()));
    EXPECT_EQ(number(rule.at("matched")), expected.asked);
    EXPECT_EQ(number(rule.at("denied")), expected.denied);
    EXPECT_EQ(number(rule.at("allowed")), expected.asked - expected.denied);
    EXPECT_EQ(number(limit.at("denied")), expected.denied);
    EXPECT_EQ(number(limit.at("keys")), expected.keys.size());
    std::vector<std::pair<std::int64_t, std::string>> order;
    for (const auto& [key, count] : expected.keys) {
      if (count > 0) order.emplace_back(-static_cast<std::int64_t>(count), key);
    }
    std::sort(order.begin(), order.end());
    EXPECT_EQ(number(limit.at("keys_denied")), order.size());
    const auto& top = limit.at("top_denied").as_array();
    ASSERT_EQ(top.size(), std::min<std::size_t>(order.size(), 10));
    for (std::size_t i = 0; i < top.size(); ++i) {
      EXPECT_EQ(number(top[i].at("denied")), static_cast<std::uint64_t>(-order[i].first));
      if (!order[i].second.empty()) {
        EXPECT_EQ(top[i].at("key").as_string(), order[i].second);
      }
    }
  }
}

TEST_F(ReplayTest, ReportsTheErrorsOfLogs) {
  const ReplayReport report = replay_logs(
      {files_.write("empty", ""), files_.write("binary", std::string(300, '\x01') + "\n"),
       files_.path("none"), files_.write("log", "x\n" + line_at(0, "a"))},
      rules_);
  EXPECT_TRUE(report.failed);
  EXPECT_EQ(report.lines, 3u);
  EXPECT_EQ(report.skipped, 2u);
  ASSERT_EQ(complaints_.size(), 5u);
  EXPECT_EQ(complaints_[0], files_.path("empty") + ": is empty");
  EXPECT_TRUE(complaints_[1].starts_with(files_.path("binary") + ":1: skipped: no client"));
  EXPECT_TRUE(
      complaints_[2].starts_with(files_.path("binary") + ": no line could be read as Common"));
  EXPECT_EQ(complaints_[3], files_.path("none") + ": cannot open: No such file or directory");
  EXPECT_TRUE(complaints_[4].starts_with(files_.path("log") + ":1: skipped: no timestamp"));
}

TEST_F(ReplayTest, SaysWhichHoursOfTheDayDenyMost) {
  const RuleSet rules = rules_of(
      "version: 1\nrules:\n  - name: r\n    limits:\n      - { name: l, key: \"{ip}\", algorithm: "
      "fixed_window, limit: 1, per: 1m }\n");
  constexpr int kMidnight = 1'700'006'400;
  std::string text = "time,ip\n";
  const auto deny = [&](int day, int hour, int times) {
    for (int i = 0; i <= times; ++i) {
      text += std::to_string(kMidnight + day * 86'400 + hour * 3600) + ",a\n";
    }
  };
  deny(0, 3, 5);
  deny(0, 23, 1);
  const ReplayReport short_report = replay_text(text, rules);
  EXPECT_EQ(text_report(short_report, false).find("by hour"), std::string::npos);
  EXPECT_EQ(html_report(short_report).find("by hour"), std::string::npos);
  deny(1, 3, 4);
  deny(1, 14, 2);
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(report.tally.denied_by_hour[3], 9u);
  EXPECT_EQ(report.tally.denied_by_hour[14], 2u);
  EXPECT_NE(text_report(report, false)
                .find("by hour, UTC; most 03:00 75.0 %, 14:00 16.7 %, 23:00 8.3 %\n"),
            std::string::npos)
      << text_report(report, false);
  EXPECT_NE(text_report(report, false).find("from, to (UTC)\n"), std::string::npos);
  const std::string page = html_report(report);
  EXPECT_NE(page.find("by hour of the day, UTC"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">03:00</th><td>9</td>"), std::string::npos);
  EXPECT_EQ(page.find(">04:00<"), std::string::npos) << "no denials";
  const auto json = boost::json::parse(json_report(report));
  EXPECT_EQ(json.at("denied_by_hour").as_array().size(), 24u);
  EXPECT_EQ(number(json.at("denied_by_hour").at(23)), 1u);
}

TEST_F(ReplayTest, SaysInWhichHoursOfTheDayShadowRulesWouldDenyMost) {
  const RuleSet rules = rules_of(
      "version: 1\nrules:\n  - name: r\n    mode: shadow\n    limits:\n      - { key: \"{ip}\", "
      "algorithm: fixed_window, limit: 1, per: 1m }\n");
  const ReplayReport report = replay_text(  // at 3 and 14 o'clock, a day later
      "time,ip\n1700017200,a\n1700017200,a\n1700143200,a\n1700143200,a\n1700143200,a\n", rules);
  const std::string text = text_report(report, false);
  const std::size_t line = text.find("by hour, UTC; most 14:00 66.7 %, 03:00 33.3 %\n");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_EQ(text.find("  would deny", text.rfind('\n', line)), text.rfind('\n', line) + 1);
  const std::string page = html_report(report);
  EXPECT_NE(page.find("Would deny: requests by hour of the day, UTC"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">14:00</th><td>2</td>"), std::string::npos);
  EXPECT_EQ(page.find("Denied: requests by hour"), std::string::npos);
  const auto json = boost::json::parse(json_report(report));
  EXPECT_EQ(number(json.at("would_deny_by_hour").at(14)), 2u);
  EXPECT_EQ(number(json.at("denied_by_hour").at(14)), 0u);
}

TEST_F(ReplayTest, SpendsBudgetsAtTheTimesOfTheLog) {
  const RuleSet rules = rules_of(
      "version: 1\nrules:\n  - name: r\n    limits:\n      - { name: tokens, key: \"{ip}\", "
      "algorithm: "
      "budget, limit: 100, per: day, zone: UTC }\n");
  constexpr int kMidnight = 1'700'006'400;
  fields_ = {{"costs.tokens", "tokens"}};
  std::string text = "time,ip,tokens\n";
  for (int day = 0; day < 2; ++day) {
    for (int i = 0; i < 4; ++i) {
      text += std::to_string(kMidnight + day * 86'400 + i) + ",a,30\n";
    }
  }
  const ReplayReport report = replay_text(text, rules);
  EXPECT_EQ(report.tally.denied, 2u) << "the fourth request of each day";
  EXPECT_EQ(report.tally.rules[0].limits[0].keys.keys_denied(), 1u);
}

// A budget of a day with an overflow, for requests of 30 units.
class RowReplay : public ReplayTest {
 protected:
  ReplayReport replay_row(const std::string& day, const std::string& credits,
                          const std::string& cost) {
    rules_of_row_ = rules_of(
        "version: 1\nrules:\n  - name: r\n    limits:\n      - { name: day, algorithm: budget, "
        "limit: " +
        day + ", per: day, zone: UTC, cost: " + cost +
        ", overflow: { name: credits, limit: " + credits + ", per: never } }\n");
    return replay_text("time,n\n1795428000,30\n1795428001,30\n1795428002,30\n1795428003,30\n",
                       *rules_of_row_);
  }
  static bool shows(const std::string& report, const std::string& text) {
    return report.find(text) != report.npos;
  }

  std::optional<RuleSet> rules_of_row_;
};

TEST_F(RowReplay, SaysThatABudgetWasNeverNeeded) {
  for (const std::string cost : {"request", "'{body.n|500}'"}) {
    fields_ = {{"cost", "n"}, {"body.n", "n"}};
    const ReplayReport report = replay_row("120", "60", cost);
    EXPECT_EQ(warnings_of(report), std::vector<std::string>()) << cost;
    EXPECT_TRUE(shows(text_report(report, false),
                      "    never needed: the budgets before it had room for every request\n"));
    EXPECT_TRUE(shows(html_report(report), "The limit was never needed: the budgets before it"));
    EXPECT_FALSE(shows(html_report(report), "Applied to no request"));
  }
  const ReplayReport report = replay_row("60", "10", "request");
  EXPECT_EQ(report.tally.denied, 2u);
  EXPECT_TRUE(shows(text_report(report, false), "    charged for no request\n"));
  EXPECT_FALSE(shows(text_report(report, false), "never needed"));
}

TEST_F(RowReplay, SaysWhichLimitHasTheDenialsOfARow) {
  const std::string row = "denials of the row are listed at limit day";
  fields_ = {{"cost", "n"}};
  const ReplayReport report = replay_row("60", "30", "request");
  EXPECT_EQ(report.tally.rules[0].limits[0].denied, 1u) << "the last";
  const std::string text = text_report(report, false);
  EXPECT_TRUE(
      shows(text, "    denied 0 of 1 requests, 0 of 1 key, 0 of 30 units\n    " + row + "\n"))
      << text;
  EXPECT_TRUE(shows(html_report(report), "one counter for all requests; " + row + ". Denied 0"));
  EXPECT_FALSE(shows(text_report(replay_row("60", "60", "request"), false), row));
}

TEST_F(RowReplay, TakesTheCostOfTheFirstBudget) {
  fields_ = {{"costs.day", "n"}};
  const ReplayReport report = replay_row("60", "60", "request");
  EXPECT_EQ(report.tally.denied, 0u);
  EXPECT_EQ(report.tally.rules[0].limits[1].units, 60u);
  EXPECT_EQ(warnings_of(report), std::vector<std::string>());
  fields_ = {};
  EXPECT_EQ(warnings_of(replay_row("2", "2", "request")).size(), 2u) << "the log has no cost";
}

TEST_F(ReplayTest, HasNoTimesWithoutRequests) {
  const ReplayReport report = replay_text("", rules_);
  EXPECT_FALSE(report.failed);
  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_TRUE(json.at("first").is_null());
  EXPECT_EQ(number(json.at("lines")), 0u);
  EXPECT_NE(html_report(report).find("There was no request"), std::string::npos);
}

TEST_F(ReplayTest, ReportsTooManyKeys) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += line_at(0, "x" + std::to_string(i), "GET /a");
  EXPECT_FALSE(replay_text(text, rules_).approximate());
  max_keys_ = 100;
  const ReplayReport report = replay_text(text, rules_);
  EXPECT_TRUE(report.approximate());
  EXPECT_LE(report.tally.rules[2].limits[0].keys.keys(), 100u);
  EXPECT_EQ(report.tally.rules[2].limits[0].requests, 1000u);
  const std::string warning = "results are approximate: " + std::to_string(report.evictions) +
                              " counters in use were evicted; raise --max";
  EXPECT_EQ(warnings_of(report).back(), warning);
  EXPECT_NE(text_report(report, false).find("\nwarning: " + warning + "\n"), std::string::npos);
  EXPECT_NE(html_report(report).find("Warning: " + warning + "."), std::string::npos);
  const auto json = boost::json::parse(json_report(report)).as_object();
  EXPECT_EQ(json.at("warnings").as_array().back().as_string(), warning);
}

}  // namespace
}  // namespace sluice::replay
