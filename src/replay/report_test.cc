#include "replay/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <sstream>
#include <stdexcept>

#include "replay/test_logs.h"
#include "replay/text.h"

namespace sluice::replay::report_test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(version: 1
domain: test
rules:
  - name: agents
    limits:
      - { name: agent, key: "{header.user-agent}", algorithm: token_bucket, limit: 1, per: 1h }
)";

// Ten requests of each agent; nine of them are denied.
ReplayReport report_of(const RuleSet& rules, const std::vector<std::string>& agents) {
  TemporaryFiles files;
  std::string text;
  for (int i = 0; i < 10; ++i) {
    for (const std::string& agent : agents) text += line_at(i, "10.0.0.1", "GET /", agent);
  }
  ReplayOptions options;
  options.logs = {files.write("<b>log", text)};
  return replay(rules, options);
}

RuleSet agent_rules() {
  auto rules = RuleSet::parse(kRules, "test.yaml");
  if (!rules) throw std::runtime_error(rules.error().front().to_string());
  return *rules;
}

TEST(JsonReport, IsValidForAnyKeys) {
  const RuleSet rules = agent_rules();
  const std::string text =
      json_report(report_of(rules, {R"(a\"b\\c)", "\xff\xfe", R"(\x00\x01)", "é"}));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const auto json = boost::json::parse(text);
  std::vector<std::string> keys;
  for (const auto& top : json.at("rules").at(0).at("limits").at(0).at("top_denied").as_array()) {
    EXPECT_EQ(top.at("denied").to_number<int>(), 9);
    keys.emplace_back(top.at("key").as_string());
  }
  EXPECT_EQ(keys,
            (std::vector<std::string>{std::string("\0\1", 2), "a\"b\\c", "é", "\uFFFD\uFFFD"}));
}

TEST(Reports, SayWhatRulesInShadowModeWouldDeny) {
  const auto report_in = [](const char* mode) {
    auto yaml = std::string(kRules);
    yaml.insert(yaml.find("    limits"), mode);
    auto rules = RuleSet::parse(yaml, "test.yaml");
    if (!rules) throw std::runtime_error(rules.error().front().to_string());
    const ReplayReport report = report_of(*rules, {"a"});
    return std::array{text_report(report, false), json_report(report), html_report(report)};
  };
  const auto [text, json, page] = report_in("    mode: shadow\n");
  EXPECT_NE(text.find("  would deny                9     90.0 %  allowed, and denied without"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  would deny  ·█████████  maximum 1"), std::string::npos) << text;
  EXPECT_NE(text.find("    would deny 9 of 10 requests, 1 of 1 key\n"), std::string::npos) << text;
  EXPECT_NE(json.find(R"("denied":0,"would_deny":9,)"), std::string::npos) << json;
  for (const char* shown :
       {"<dt>Would deny</dt><dd>9<small>90.0 %, in shadow mode", "</i>would be denied</li>",
        "<path class=\"trial\"", "1 would be denied</title>", "<th scope=\"col\">Would deny</th>",
        "1 key that it would deny"}) {
    EXPECT_NE(page.find(shown), std::string::npos) << shown;
  }
  EXPECT_EQ(page.find("<path class=\"denied\""), std::string::npos);
  for (const std::string& each : report_in("")) {
    EXPECT_EQ(each.find("ould deny 9"), std::string::npos);
    EXPECT_EQ(each.find(">Would deny<"), std::string::npos);
  }
}

TEST(Reports, TellBlockedRequestsFromLimitedOnes) {
  const auto rules = RuleSet::parse(
      "version: 1\nrules: [ { name: r, limits: [ { key: '{ip}', algorithm: fixed_window, limit: 4, "
      "per: 1d, block: { after: 3, within: 1m, for: 1h } } ] } ]\n",
      "test.yaml");
  ASSERT_TRUE(rules);
  const ReplayReport report = report_of(*rules, {"a"});  // of six, the third blocks
  const std::string text = text_report(report, false);
  EXPECT_NE(text.find("denied 6 of 10 requests, 1 of 1 key\n    4 blocked, 2 limited\n"), text.npos)
      << text;
  const auto json = boost::json::parse(json_report(report));
  const auto& limit = json.at("rules").at(0).at("limits").at(0);
  EXPECT_EQ(limit.at("denied").to_number<int>(), 6);
  EXPECT_EQ(limit.at("blocked").to_number<int>(), 4);
  EXPECT_NE(html_report(report).find(". Of the denials: 4 blocked, 2 limited.</p>"), text.npos);
  const RuleSet without = agent_rules();
  EXPECT_EQ(text_report(report_of(without, {"a"}), false).find("limited"), text.npos);
}

TEST(Reports, NameTheKeyOfALimitWithoutOne) {
  auto rules = RuleSet::parse(
      "version: 1\nrules:\n  - name: r\n    limits: [ { algorithm: fixed_window, limit: 4, per: 1d "
      "} "
      "]\n",
      "test.yaml");
  ASSERT_TRUE(rules);
  const ReplayReport report = report_of(*rules, {"a"});
  EXPECT_NE(
      text_report(report, false).find("\n    (all requests)           6          10    60.0 %"),
      std::string::npos)
      << text_report(report, false);
  EXPECT_NE(html_report(report).find(">(all requests)</span>"), std::string::npos);
}

TEST(Reports, SayHowManyKeysTheyDoNotList) {
  const RuleSet rules = agent_rules();
  std::vector<std::string> agents;
  for (int i = 0; i < 10; ++i) agents.push_back("agent-" + std::to_string(i));
  const auto more_in_json = [](const ReplayReport& report) {
    return boost::json::parse(json_report(report))
        .at("rules")
        .at(0)
        .at("limits")
        .at(0)
        .at("more_denied")
        .to_number<int>();
  };
  EXPECT_EQ(more_in_json(report_of(rules, agents)), 0);
  EXPECT_EQ(text_report(report_of(rules, agents), false).find("more key"), std::string::npos);
  agents.insert(agents.end(), {"x", "y"});
  const ReplayReport report = report_of(rules, agents);
  EXPECT_EQ(more_in_json(report), 2);
  EXPECT_NE(text_report(report, false).find("    and 2 more keys\n"), std::string::npos)
      << text_report(report, false);
}

TEST(JsonReport, SaysWhatTheDeniedRequestsOfAKeyWere) {
  const RuleSet rules = agent_rules();
  const auto json = boost::json::parse(json_report(report_of(rules, {"curl/8"})));
  const auto& limit = json.at("rules").at(0).at("limits").at(0);
  EXPECT_EQ(limit.at("requests").to_number<int>(), 10);
  const auto& top = limit.at("top_denied").at(0);
  EXPECT_EQ(top.at("agents").at(0).at("value").as_string(), "curl/8");
  EXPECT_EQ(top.at("requests").at(0).at("value").as_string(), "GET /");
  EXPECT_EQ(top.at("requests").at(0).at("denied").to_number<int>(), 9);
  EXPECT_EQ(top.at("statuses").at(0).at("value").as_string(), "200");
}

TEST(HtmlReport, ShowsMarkupOfTheLogAsText) {
  const RuleSet rules = agent_rules();
  const std::string page =
      html_report(report_of(rules, {"<script>alert(1)</script>", "</title><img src=x onerror=y>"}));
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("<b>log"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;/script&gt;"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt;log"), std::string::npos);
}

TEST(HtmlReport, NeedsNothingButItself) {
  const RuleSet rules = agent_rules();
  const std::string page = html_report(report_of(rules, {"agent"}));
  for (const char* reference : {"http://", "https://", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
}

TEST(HtmlReport, DescribesItsCharts) {
  const RuleSet rules = agent_rules();
  const std::string page = html_report(report_of(rules, {"agent"}));
  EXPECT_NE(page.find("10 requests in steps of 1 s, 9 denied"), std::string::npos);
  EXPECT_NE(page.find("<path class=\"denied\" d=\"M"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"col\">Denied</th>"), std::string::npos);
}

TEST(HtmlReport, ClosesEveryTag) {
  const RuleSet rules = agent_rules();
  const std::string page = html_report(report_of(rules, {"a", "b"}));
  const auto count = [&page](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = page.find(text, at)) != page.npos; ++at) ++found;
    return found;
  };
  for (const std::string tag :
       {"section", "table", "tr", "svg", "div", "p", "h2", "h3", "main", "details", "span"}) {
    EXPECT_EQ(count("<" + tag + ">") + count("<" + tag + " "), count("</" + tag + ">")) << tag;
  }
}

TEST(HtmlReport, FoldsTablesOfManyRows) {
  const RuleSet rules = agent_rules();
  std::vector<std::string> agents;
  for (int i = 0; i < 30; ++i) agents.push_back("agent-" + std::to_string(i));
  const std::string page = html_report(report_of(rules, agents));
  EXPECT_NE(page.find("<summary>20 more keys</summary>"), std::string::npos);
  EXPECT_EQ(html_report(report_of(rules, {"a"})).find("<summary>"), std::string::npos);
}

// Ten requests of an address, by rules with these limits of one key, and by others.
class Comparison : public ::testing::Test {
 protected:
  static RuleSet rules_of(const std::string& limit, const std::string& mode = "enforce") {
    auto rules = RuleSet::parse("version: 1\nrules:\n  - name: pages\n    mode: " + mode +
                                    "\n    limits:\n      - { name: ip"
                                    ", key: \"{ip}\", algorithm: fixed_window, per: 1h, limit: " +
                                    limit + " }\n",
                                "test.yaml");
    if (!rules) throw std::runtime_error(rules.error().front().to_string());
    return *rules;
  }
  ReplayReport compare() {
    std::string text;
    for (int i = 0; i < 10; ++i) text += line_at(i, "10.0.0.1", "GET /a", "curl/8");
    ReplayOptions options;
    options.logs = {files_.write("log", text)};
    options.against = &against_;
    options.rules_name = "rules.yaml";
    options.against_name = "new<b>.yaml";
    return replay(rules_, options);
  }

  TemporaryFiles files_;
  RuleSet rules_ = rules_of("9"), against_ = rules_of("4");
};

TEST_F(Comparison, NamesTheFilesAndLeavesOutWhatIsAlwaysAll) {
  const std::string text = text_report(compare(), false);
  EXPECT_NE(text.find("rules.yaml compared with new<b>.yaml"), std::string::npos) << text;
  EXPECT_NE(text.find("only new<b>.yaml, rule pages: denied 5 requests"), std::string::npos)
      << text;
  EXPECT_NE(text.find("    denied 5 requests of 1 key\n"), std::string::npos) << text;
  EXPECT_NE(text.find("      GET /a; status 200; curl/8\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("--"), std::string::npos) << "no names of options";
  EXPECT_EQ(text.find("100.0 %"), std::string::npos) << text;
}

// One limit denies the fourth request of 10.0.0.1, and the limit of all requests the last two, of
// other addresses.
TEST_F(Comparison, CountsOnlyTheKeysThatEachLimitDenies) {
  const auto rules_with = [](const std::string& limit, const std::string& all) {
    return *RuleSet::parse(
        "version: 1\nrules:\n  - name: pages\n    limits:\n"
        "      - { name: all, algorithm: fixed_window, per: 1h, limit: " +
            all +
            " }\n      - { name: ip, key: \"{ip}\", algorithm: fixed_window, per: 1h, limit: " +
            limit + " }\n",
        "test.yaml");
  };
  const RuleSet rules = rules_with("9", "9"), against = rules_with("3", "6");
  std::string text;
  for (const char* ip : {"1", "1", "1", "1", "2", "2", "2", "3", "4"}) {
    text += line_at(0, std::string("10.0.0.") + ip, "GET /a");
  }
  ReplayOptions options;
  options.logs = {files_.write("log", text)};
  options.against = &against;
  const ReplayReport report = replay(rules, options);
  const std::string shown = text_report(report, false);
  EXPECT_NE(shown.find("{ip}\n    denied 1 request of 1 key\n"), std::string::npos) << shown;
  EXPECT_NE(shown.find("all requests\n    denied 2 requests of 1 key\n"), std::string::npos)
      << shown;
  const auto json = boost::json::parse(json_report(report));
  const auto& limits = json.at("denied_only_by_against").at("rules").at(0).at("limits");
  EXPECT_EQ(limits.at(1).at("keys").to_number<int>(), 3);
  EXPECT_EQ(limits.at(1).at("keys_denied").to_number<int>(), 1);
}

TEST_F(Comparison, SaysWhatRulesInShadowModeWouldDeny) {
  rules_ = rules_of("9", "shadow");
  against_ = rules_of("4", "shadow");
  EXPECT_NE(
      text_report(compare(), false)
          .find("rules in shadow mode deny nothing; they would deny 1 and 6: `mode: enforce`"),
      std::string::npos);
}

TEST_F(Comparison, ShowsTheDifferenceAsAPicture) {
  const std::string page = html_report(compare());
  EXPECT_NE(page.find("Requests that only new&lt;b&gt;.yaml denies over time"), std::string::npos);
  EXPECT_NE(page.find("5 denied only by new&lt;b&gt;.yaml; the busiest step"), std::string::npos);
  EXPECT_NE(page.find("0 denied only by rules.yaml; the busiest step"), std::string::npos);
  EXPECT_EQ(page.find("<b>"), std::string::npos);
}

TEST_F(Comparison, SaysWhoIsDeniedByARuleWithoutLimits) {
  against_ = *RuleSet::parse("version: 1\nrules: [ { name: all, action: deny } ]\n", "test.yaml");
  const std::string text = text_report(compare(), false);
  EXPECT_NE(text.find("only new<b>.yaml, rule all: denied 9 requests\n\n  action: deny; {ip}\n"
                      "    denied 9 requests of 1 key\n"),
            std::string::npos)
      << text;
  const std::string page = html_report(compare());
  const std::size_t at = page.find("</code>, rule all: 9 requests</h3>");
  EXPECT_NE(page.find("<span class=\"mono\">10.0.0.1</span>", at), std::string::npos);
}

TEST(Reports, SayWhoIsDeniedByARuleWithoutLimits) {
  const auto deny = [](const std::string& mode) {
    return *RuleSet::parse("version: 1\nrules: [ { name: robots, mode: " + mode +
                               ", action: deny, match: { header.user-agent: '*Bot*' } } ]\n",
                           "test.yaml");
  };
  const RuleSet rules = deny("enforce");
  const ReplayReport report = report_of(rules, {"EvilBot/1", "curl/8"});
  const std::string text = text_report(report, false);
  EXPECT_NE(text.find("\n  action: deny; {ip}\n    denied 10 requests of 1 key\n"), text.npos)
      << text;
  EXPECT_NE(text.find("\n    10.0.0.1          10  2016-02-20 00:00\n      GET /; status 200; "
                      "EvilBot/1\n"),
            text.npos)
      << text;
  const auto json = boost::json::parse(json_report(report));
  const auto& rule = json.at("rules").at(0);
  EXPECT_EQ(rule.at("keys_denied").to_number<int>(), 1);
  EXPECT_EQ(rule.at("more_denied").to_number<int>(), 0);
  const auto& top = rule.at("top_denied").at(0);
  EXPECT_EQ(top.at("key").as_string(), "10.0.0.1");
  EXPECT_EQ(top.at("denied").to_number<int>(), 10);
  EXPECT_EQ(top.at("agents").at(0).at("value").as_string(), "EvilBot/1");
  const std::string page = html_report(report);
  for (const char* shown :
       {"<strong>robots</strong><br><span class=\"soft\">action: deny</span></th><td>10</td>",
        "<caption>1 denied key</caption>", "<span class=\"mono\">10.0.0.1</span>",
        "<span class=\"soft small\">EvilBot/1</span>"}) {
    EXPECT_NE(page.find(shown), page.npos) << shown;
  }
  const RuleSet shadow = deny("shadow");
  const std::string would = text_report(report_of(shadow, {"EvilBot/1"}), false);
  EXPECT_NE(would.find("\n    would deny 10 requests of 1 key\n"), would.npos) << would;
}

TEST(TextReport, WarnsAboutLimitsThatAppliedToNoRequest) {
  auto rules = RuleSet::parse(R"(version: 1
rules:
  - name: users
    continue: true
    limits:
      - { name: user, key: "{header.x-user}", algorithm: token_bucket, limit: 1, per: 1h }
  - name: login
    match: { path: /login }
    limits:
      - { name: ip, key: "{ip}", algorithm: token_bucket, limit: 1, per: 1h }
)",
                              "test.yaml");
  ASSERT_TRUE(rules);
  const ReplayReport report = report_of(*rules, {"a"});
  EXPECT_EQ(
      warnings_of(report),
      (std::vector<std::string>{"rule users, limit user: applied to no request; the log has no "
                                "value for {header.x-user}; expected --field "
                                "header.x-user=remote_user, or a log of JSON lines with this value",
                                "rule login matched no request"}));
  EXPECT_NE(text_report(report, false).find("warning: rule login matched no request\n"),
            std::string::npos);
  EXPECT_NE(html_report(report).find("Warning: rule login matched no request."), std::string::npos);
}

TEST(TextReport, FitsAHundredColumnsAndPrintsNoControls) {
  const RuleSet rules = agent_rules();
  const std::string text =
      text_report(report_of(rules, {std::string(300, 'x'), "\x1b[2J", "plain"}), false);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 100u) << line;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("denied 27 of 30 requests, 3 of 3 keys"), std::string::npos) << text;
}

TEST(TextReport, HasColoursOnlyWhenAsked) {
  const RuleSet rules = agent_rules();
  const ReplayReport report = report_of(rules, {"agent"});
  EXPECT_EQ(text_report(report, false).find('\x1b'), std::string::npos);
  EXPECT_NE(text_report(report, true).find("\x1b[31m"), std::string::npos);
}

TEST(LimitText, NamesTheNumbers) {
  EXPECT_EQ(limit_text(token_bucket(1000).per(1s).burst(2000)),
            "token_bucket, 1,000 per 1 s, burst 2,000");
  EXPECT_EQ(limit_text(gcra(30).per(60s).burst(15)), "gcra, 30 per 1 min, burst 15");
  EXPECT_EQ(limit_text(fixed_window(5).per(250ms)),
            "fixed_window, 5 per 250 ms, from the first request");
  EXPECT_EQ(limit_text(fixed_window(5).per(1s).aligned_to_clock()),
            "fixed_window, 5 per 1 s, aligned to the clock");
  EXPECT_EQ(limit_text(sliding_window_log(5).per(1s)), "sliding_window_log, 5 per 1 s");
  EXPECT_EQ(limit_text(gcra(0).per(1s)), "gcra, 0 per 1 s, denies every request");
}

TEST(LimitText, NamesTheNumbersOfEachPlan) {
  const auto rules = RuleSet::parse(R"(version: 1
plans:
  free: { requests: { limit: 2, per: 1m } }
  pro: { requests: { limit: 5000, per: 1m, burst: 9000 } }
rules:
  - name: api
    plan: { from: "{user.plan}", default: free }
    limits:
      - { name: requests, key: "{ip}", algorithm: token_bucket }
)",
                                    "test.yaml");
  ASSERT_TRUE(rules);
  const ReplayReport report = report_of(*rules, {"a"});
  const std::string numbers = "token_bucket, free: 2 per 1 min; pro: 5,000 per 1 min, burst 9,000";
  for (const std::string& shown : {text_report(report, false), html_report(report)}) {
    EXPECT_NE(shown.find(numbers + "; "), shown.npos) << shown;
  }
}

}  // namespace
}  // namespace sluice::replay::report_test
