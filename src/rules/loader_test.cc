#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "rules/diagnostics.h"
#include "rules/rule_set.h"
#include "sluice/rule_set.h"

namespace sluice::loader_test {
namespace {

using namespace std::chrono_literals;

// Returns every error of a file, one per line, or "ok".
std::string errors_of(std::string_view yaml) {
  const auto rules = RuleSet::parse(yaml, "f");
  if (rules) return "ok";
  std::string out;
  for (const RuleError& error : rules.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

// Returns a file with one rule that has these lines below its name. The first is line 4.
std::string rule(const std::string& lines) { return "version: 1\nrules:\n  - name: r\n" + lines; }

// Returns the errors of a rule with one limit of these keys. The first character of `keys` is in
// line 4, column 16.
std::string limit_errors(const std::string& keys) {
  return errors_of(rule("    limits: [ { " + keys + " } ]\n"));
}

constexpr const char* kAlgorithms =
    "fixed_window, sliding_window_log, sliding_window_counter, sliding_window_hybrid, "
    "leaky_bucket, "
    "token_bucket, gcra, concurrency or budget";

TEST(Loader, ReadsEveryKey) {
  const auto rules = RuleSet::parse(R"(
version: 1
domain: shop
defaults: { on_store_error: deny, on_missing: deny }
rules:
  - name: first
    match: { method: [GET, HEAD], path: /a/** }
    limits:
      - { name: w, key: "{ip}", algorithm: fixed_window, limit: 5, per: 1m, align: clock }
      - { key: "{ip/64}", algorithm: sliding_window_counter, limit: 6, per: 500ms, slices: 4,
          weighting: none, on_missing: skip }
      - { algorithm: leaky_bucket, limit: 7, per: 1h, burst: 9, mode: queue }
      - { algorithm: token_bucket, limit: 8, per: 7d, refill: interval }
    reject: { status: 503, body: "no\n", content_type: text/x-no }
    mode: shadow
    continue: true
    on_store_error: local
    headers: legacy
    tag: "t {ip}"
  - name: second
    limits: [ { algorithm: gcra, limit: 0, per: 5m } ]
)",
                                    "f");
  ASSERT_TRUE(rules.has_value()) << rules.error().front().to_string();
  EXPECT_EQ(rules->domain(), "shop");
  ASSERT_EQ(rules->rules().size(), 2u);
  const Rule& first = rules->rules()[0];
  EXPECT_EQ(first.name, "first");
  EXPECT_EQ(first.mode, RuleMode::kShadow);
  EXPECT_EQ(first.on_store_error, FailurePolicy::kLocal);
  EXPECT_TRUE(first.continues);
  EXPECT_EQ(first.reject.status, 503);
  EXPECT_EQ(first.reject.body, "no\n");
  EXPECT_EQ(first.reject.content_type, "text/x-no");
  EXPECT_EQ(first.headers, HeaderFields::kLegacy);
  EXPECT_EQ(first.domain, "shop");
  EXPECT_EQ(first.tag, "t {ip}");
  ASSERT_EQ(first.limits.size(), 4u);
  EXPECT_EQ(first.limits[0].name, "w");
  EXPECT_EQ(first.limits[0].key, "{ip}");
  EXPECT_EQ(first.limits[0].on_missing, OnMissing::kDeny);
  EXPECT_EQ(first.limits[0].limit, fixed_window(5).per(1min).aligned_to_clock());
  EXPECT_EQ(first.limits[1].name, "first/1");
  EXPECT_EQ(first.limits[1].on_missing, OnMissing::kSkip);
  EXPECT_EQ(first.limits[1].limit,
            sliding_window_counter(6).per(500ms).slices(4).counting_oldest_whole());
  EXPECT_EQ(first.limits[2].limit, leaky_bucket(7).per(1h).burst(9).queueing());
  EXPECT_EQ(first.limits[3].limit,
            token_bucket(8).per(std::chrono::days{7}).refilled_at_intervals());
  const Rule& second = rules->rules()[1];
  EXPECT_EQ(second.mode, RuleMode::kEnforce);
  EXPECT_EQ(second.tag, "");
  EXPECT_EQ(second.on_store_error, FailurePolicy::kDeny);
  EXPECT_FALSE(second.continues);
  EXPECT_EQ(second.reject.status, 429);
  EXPECT_EQ(second.limits[0].limit, gcra(0).per(5min));
  EXPECT_EQ(rules->find("second"), &second);
  EXPECT_EQ(rules->find("third"), nullptr);
}

TEST(Loader, ReportsThePositionOfAnErrorInATag) {
  const std::string limits = "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n";
  EXPECT_EQ(errors_of(rule("    tag: \"a{ip\"\n" + limits)),
            "f:4:12: error: '{' without '}'; expected {ATTRIBUTE}, or '{{' for the character "
            "itself");
  EXPECT_EQ(errors_of(rule("    tag: [a]\n" + limits)),
            "f:4:10: error: 'tag' is a list; expected a template in quotes, such as \"{ip}\"");
}

// Returns the errors of a rule with one limit of these keys, for a store without scripts.
std::string errors_without_scripts(const std::string& keys) {
  const auto rules = RuleSet::parse(rule("    limits: [ { limit: 1, per: 1s, " + keys + " } ]\n"),
                                    "f", {.scripting = false});
  return rules ? "ok" : rules.error().front().to_string();
}

TEST(Loader, RefusesAMaximumOfNewKeysWithoutScripts) {
  const std::string limits =
      "    max_new_keys: 1\n    limits: [ { algorithm: sliding_window_counter, limit: 1, per: 1s } "
      "]\n";
  EXPECT_EQ(errors_of(rule(limits)), "ok");
  const auto rules = RuleSet::parse(rule(limits), "f", {.scripting = false});
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().front().to_string(),
            "f:4:19: error: 'max_new_keys' needs scripts, and the store has none (scripting: off); "
            "expected no 'max_new_keys'");
}

TEST(Loader, AcceptsWithoutScriptsOnlyLimitsThatPlainCommandsCanCount) {
  EXPECT_EQ(errors_without_scripts("algorithm: sliding_window_counter"), "ok");
  EXPECT_EQ(errors_without_scripts("algorithm: sliding_window_counter, slices: 1"), "ok");
  EXPECT_EQ(errors_without_scripts("algorithm: fixed_window, align: clock"), "ok");
  EXPECT_EQ(errors_without_scripts("algorithm: fixed_window"),
            "f:4:47: error: 'fixed_window' that opens at its first request cannot be stored "
            "without scripts (scripting: off); expected 'align: clock'");
  EXPECT_EQ(errors_without_scripts("algorithm: fixed_window, align: first_request").substr(0, 14),
            "f:4:68: error:");
  for (const std::string name :
       {"sliding_window_log", "sliding_window_hybrid", "leaky_bucket", "token_bucket", "gcra"}) {
    EXPECT_EQ(errors_without_scripts("algorithm: " + name),
              "f:4:47: error: '" + name +
                  "' cannot be stored without scripts (scripting: off); expected "
                  "sliding_window_counter, or fixed_window with align: clock");
  }
}

TEST(Loader, HasDefaults) {
  const auto rules = RuleSet::parse("version: 1\nrules: []\n", "f");
  ASSERT_TRUE(rules.has_value());
  EXPECT_EQ(rules->domain(), "default");
  EXPECT_TRUE(rules->rules().empty());
  const auto one =
      RuleSet::parse(rule("    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"), "f");
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->rules()[0].on_store_error, FailurePolicy::kAllow);
  EXPECT_EQ(one->rules()[0].limits[0].on_missing, OnMissing::kSkip);
}

TEST(Loader, NeedsAVersionAndRules) {
  EXPECT_EQ(errors_of("{}"),
            "f:1:1: error: file lacks 'rules'; expected 'rules:' with a list of rules, each "
            "starting with "
            "'- '\n"
            "f:1:1: error: file lacks 'version'; expected 'version:' with 1");
  EXPECT_EQ(errors_of("version: 2\nrules: []"), "f:1:10: error: 'version' is '2'; expected 1");
  EXPECT_EQ(errors_of("- version"),
            "f:1:1: error: file is a list; expected a map; its keys are one of: version, domain, "
            "defaults, trusted, plans, prices, rules");
  EXPECT_EQ(errors_of("version: 1\nrules:\n"),
            "f:2:1: error: 'rules' is nothing; expected a list of rules, each starting with '- '");
}

TEST(Loader, ReadsHowALimitIsDividedAmongProxies) {
  const auto rules = RuleSet::parse(R"(
version: 1
rules:
  - name: api
    limits:
      - { algorithm: gcra, limit: 5, per: 1s, share: { weight: "{x-weight|2}", at_least: 5% } }
      - { algorithm: gcra, limit: 5, per: 1s }
)",
                                    "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  const auto& limits = rules->rules().front().limits;
  EXPECT_EQ(limits[0].share_weight, "{x-weight|2}");
  EXPECT_EQ(limits[0].share_at_least, 5);
  EXPECT_EQ(limits[1].share_weight, "");
  EXPECT_EQ(limits[1].share_at_least, 1);
  EXPECT_EQ(
      limit_errors("algorithm: concurrency, limit: 5, lease: 1m, share: { at_least: 5% }"),
      "f:4:69: error: 'share' does not apply to concurrency; expected no 'share', because each "
      "request must ask for such a limit");
}

TEST(Loader, RefusesUnknownKeysEverywhere) {
  EXPECT_EQ(errors_of("version: 1\nrules: []\ndomian: x\n"),
            "f:3:1: error: unknown key 'domian'; expected one of: version, domain, defaults, "
            "trusted, plans, prices, rules; did "
            "you mean 'domain'?");
  EXPECT_EQ(errors_of("version: 1\nrules: []\ndefaults: { on_error: deny }\n"),
            "f:3:13: error: unknown key 'on_error'; expected one of: on_store_error, on_missing, "
            "headers");
  EXPECT_EQ(
      limit_errors("limt: 1, limit: 1, per: 1s, algorithm: gcra"),
      "f:4:17: error: unknown key 'limt'; expected one of: name, key, algorithm, limit, per, "
      "lease, cost, price, count, burst, align, zone, starts, slices, weighting, mode, refill, "
      "on_expiry, holds, remember, block, warn, share, on_missing, overflow; did you mean "
      "'limit'?");
  EXPECT_EQ(errors_of(rule("    reject: { Status: 429 }\n"
                           "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n")),
            "f:4:15: error: unknown key 'Status'; expected one of: status, body, content_type, "
            "headers; did "
            "you mean 'status'?");
  EXPECT_EQ(
      errors_of(rule("    when: x\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n")),
      "f:4:5: error: unknown key 'when'; expected one of: name, match, plan, limits, action, "
      "reject, degrade, mode, continue, tag, max_new_keys, on_store_error, headers");
}

TEST(Loader, RefusesNumbersThatAreNotExact) {
  const std::string expected = "; expected a whole number from 0 to 9007199254740991";
  EXPECT_EQ(limit_errors("per: 1s, algorithm: gcra, limit: 0.5"),
            "f:4:50: error: 'limit' is '0.5'" + expected +
                ", in plain digits; 0.5 per second is 'limit: 1, per: 2s'");
  for (const char* number : {"1e3", "-1", "+1", "1__000", "0x10", "010", "ten", "1 000", ".inf",
                             "99999999999999999999999"}) {
    EXPECT_EQ(
        limit_errors("per: 1s, algorithm: gcra, limit: " + std::string(number)),
        "f:4:50: error: 'limit' is '" + std::string(number) + "'" + expected + ", in plain digits");
  }
  EXPECT_EQ(limit_errors("per: 1s, algorithm: gcra, limit: 99999999999"),
            "f:4:50: error: limit 99999999999 is out of range; it must be 0 to 4294967295");
  EXPECT_EQ(limit_errors("per: 1s, algorithm: budget, limit: 9007199254740992"),
            "f:4:52: error: 'limit' is '9007199254740992'" + expected);
  EXPECT_EQ(limit_errors("per: 1s, algorithm: gcra, limit: \"10\""),
            "f:4:50: error: 'limit' is the text '10'" + expected + " without quotes");
  EXPECT_EQ(limit_errors("per: 1s, algorithm: gcra, limit: [1]"),
            "f:4:50: error: 'limit' is a list" + expected);
  EXPECT_EQ(limit_errors("per: 1s, algorithm: gcra, limit: 4294967295"), "ok");
}

TEST(Loader, ReadsBudgets) {
  const auto rules = RuleSet::parse(
      "version: 1\nrules:\n  - name: a\n    limits:\n"
      "      - { algorithm: budget, limit: 9007199254740991, per: never, cost: 5000000000 }\n"
      "      - { algorithm: budget, limit: 5, per: month, zone: UTC, on_expiry: release, holds: "
      "9,\n"
      "          remember: 2h, name: b }\n",
      "f");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  const auto& limits = rules->rules().front().limits;
  EXPECT_EQ(limits[0].limit, Limit(budget(kMaxAmount).never()));
  EXPECT_EQ(limits[1].limit, Limit(budget(5)
                                       .per(calendar_month("UTC"))
                                       .releasing_unsettled()
                                       .holds(9)
                                       .remember(std::chrono::hours{2})));
}

TEST(Loader, RefusesBudgetsThatCannotBe) {
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: never"),
            "f:4:49: error: per never is out of range; it must be 1ms to 366d");
  EXPECT_EQ(limit_errors("algorithm: budget, limit: 1, per: 1d, holds: 65536"),
            "f:4:62: error: 'holds' is '65536'; expected a whole number from 1 to 65535");
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 1d, remember: 1h"),
            "f:4:63: error: remember does not apply to gcra; it applies to budget");
  EXPECT_EQ(
      limit_errors("algorithm: budget, limit: 1, per: 1d, lease: 1s"),
      "f:4:62: error: a quota lease does not apply to budget; it applies to all algorithms but "
      "concurrency and budget");
  EXPECT_EQ(limit_errors("algorithm: budget, limit: 1, per: 1d, burst: 1"),
            "f:4:62: error: burst does not apply to budget; it applies to leaky_bucket, "
            "token_bucket and gcra");
}

TEST(Loader, RefusesWrongTypes) {
  EXPECT_EQ(limit_errors("key: {ip}, algorithm: gcra, limit: 1, per: 1s"),
            "f:4:22: error: 'key' is a map; expected a template in quotes, such as \"{ip}\"");
  EXPECT_EQ(limit_errors("name: [], algorithm: gcra, limit: 1, per: 1s"),
            "f:4:23: error: 'name' is an empty list; expected text of 1 to 128 bytes, in quotes");
  EXPECT_EQ(limit_errors("name: '', algorithm: gcra, limit: 1, per: 1s"),
            "f:4:23: error: 'name' is empty; expected text of 1 to 128 bytes");
  EXPECT_EQ(limit_errors("name: \"a\\nb\", algorithm: gcra, limit: 1, per: 1s"),
            "f:4:23: error: 'name' is the text 'a\\x0Ab'; expected text of 1 to 128 bytes without "
            "control characters");
  const std::string limits = "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n";
  EXPECT_EQ(errors_of(rule("    continue: yes\n" + limits)),
            "f:4:15: error: 'continue' is 'yes'; expected true or false");
  EXPECT_EQ(errors_of(rule("    continue: \"true\"\n" + limits)),
            "f:4:15: error: 'continue' is the text 'true'; expected true or false");
  EXPECT_EQ(
      errors_of(rule("    mode: shadows\n" + limits)),
      "f:4:11: error: 'mode' is 'shadows'; expected enforce or shadow; did you mean 'shadow'?");
  EXPECT_EQ(errors_of(rule("    reject: 503\n" + limits)),
            "f:4:13: error: 'reject' is '503'; expected a map of reject");
  EXPECT_EQ(errors_of(rule("    reject: { status: 200 }\n" + limits)),
            "f:4:23: error: 'status' is '200'; expected a whole number from 400 to 599");
  EXPECT_EQ(
      errors_of(rule("    match: /a\n" + limits)),
      "f:4:12: error: 'match' is '/a'; expected a map of attributes and patterns, such as { path: "
      "/api/** }");
  EXPECT_EQ(errors_of(rule("    limits: { algorithm: gcra }\n")),
            "f:4:13: error: 'limits' is a map; expected a list of limits, each starting with '- '");
  EXPECT_EQ(
      errors_of(rule("    limits: [ gcra ]\n")),
      "f:4:15: error: limit is 'gcra'; expected a map; its keys are one of: name, key, algorithm, "
      "limit, per, lease, cost, price, count, burst, align, zone, starts, slices, weighting, mode, "
      "refill, on_expiry, holds, remember, block, warn, share, on_missing, overflow");
}

TEST(Loader, RefusesPeriodsWithoutUnit) {
  const std::string expected =
      "; expected a whole number and its unit (ms, s, m, h or d), such as ";
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 60"),
            "f:4:49: error: 'per': '60' has no unit" + expected + "60s");
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 500us"),
            "f:4:49: error: 'per': '500us' has an unknown unit 'us'" + expected + "500s");
}

TEST(Loader, ReportsThePositionOfAnImpossibleLimit) {
  EXPECT_EQ(limit_errors("algorithm: gcra, limit: 1, per: 367d"),
            "f:4:49: error: per 367d is out of range; it must be 1ms to 366d");
  EXPECT_EQ(limit_errors("algorithm: token_bucket, limit: 1, per: 1s, burst: 0"),
            "f:4:68: error: burst 0 is out of range; it must be 1 to 4294967295");
  EXPECT_EQ(
      limit_errors("algorithm: token_bucket, limit: 1, per: 366d, burst: 1000000"),
      "f:4:70: error: a burst of 1000000 at 1 per 366d would need over 142 years to refill; lower "
      "burst, raise limit or shorten per");
  EXPECT_EQ(
      limit_errors("algorithm: gcra, limit: 1, per: 1s, slices: 3, align: clock, mode: meter"),
      "f:4:61: error: slices does not apply to gcra; it applies to sliding_window_counter and "
      "sliding_window_hybrid\n"
      "f:4:71: error: align does not apply to gcra; it applies to fixed_window\n"
      "f:4:84: error: mode does not apply to gcra; it applies to leaky_bucket");
  EXPECT_EQ(
      limit_errors("algorithm: gcra, limit: 1, per: 1s, weighting: none, refill: interval"),
      "f:4:64: error: weighting does not apply to gcra; it applies to sliding_window_counter\n"
      "f:4:78: error: refill does not apply to gcra; it applies to token_bucket");
}

TEST(Loader, SaysEverythingThatALimitLacks) {
  EXPECT_EQ(
      limit_errors(""),
      std::string("f:4:15: error: limit lacks 'algorithm'; expected 'algorithm:' with ") +
          kAlgorithms +
          "\nf:4:15: error: limit lacks 'limit'; expected 'limit:' with a whole number from 0 to "
          "9007199254740991\n"
          "f:4:15: error: limit lacks 'per'; expected 'per:' with a whole number and its unit "
          "(ms, s, m, h or d), such as 60s, or day, week, month, year or never");
}

TEST(Loader, RefusesDuplicateNames) {
  const std::string limit = "{ algorithm: gcra, limit: 1, per: 1s }";
  EXPECT_EQ(
      errors_of("version: 1\nrules:\n  - { name: a, limits: [ " + limit +
                " ] }\n  - { name: a, limits: [ " + limit + " ] }\n"),
      "f:4:13: error: duplicate rule 'a'; expected a name other than that of line 3, column 13");
  EXPECT_EQ(
      errors_of(rule("    limits:\n"
                     "      - { name: a, algorithm: gcra, limit: 1, per: 1s }\n"
                     "      - { name: a, algorithm: gcra, limit: 1, per: 1s }\n"
                     "      - { name: r/3, algorithm: gcra, limit: 1, per: 1s }\n"
                     "      - { algorithm: gcra, limit: 1, per: 1s }\n")),
      "f:6:17: error: duplicate limit 'a'; expected a name other than that of line 5, column 17\n"
      "f:8:9: error: duplicate limit 'r/3'; expected a name other than that of line 7, column 17");
}

TEST(Loader, TakesOneTo64Limits) {
  const auto with = [](int count) {
    std::string lines = "    limits:\n";
    for (int i = 0; i < count; ++i) lines += "      - { algorithm: gcra, limit: 1, per: 1s }\n";
    return errors_of(rule(lines));
  };
  EXPECT_EQ(errors_of(rule("    limits: []\n")),
            "f:4:13: error: 'limits' has 0 items; expected 1 to 64");
  EXPECT_EQ(with(64), "ok");
  EXPECT_EQ(with(65), "f:5:7: error: 'limits' has 65 items; expected 1 to 64");
}

TEST(Loader, PointsIntoTemplates) {
  const std::string rest = ", algorithm: gcra, limit: 1, per: 1s";
  const std::string alone = "error: '}' without '{'; expected '}}' for the character itself";
  EXPECT_EQ(
      limit_errors("key: \"é{ip\"" + rest),
      "f:4:24: error: '{' without '}'; expected {ATTRIBUTE}, or '{{' for the character itself");
  EXPECT_EQ(limit_errors("key: 'a}'" + rest), "f:4:24: " + alone);
  EXPECT_EQ(errors_of(rule("    limits:\n      - key: éa}\n        algorithm: gcra\n"
                           "        limit: 1\n        per: 1s\n")),
            "f:5:16: " + alone);
  // If escapes hide the position, the error has the position of the template.
  EXPECT_EQ(limit_errors("key: \"\\x41}\"" + rest), "f:4:22: " + alone);
}

TEST(Loader, PointsAtWrongPatterns) {
  const std::string limits = "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n";
  EXPECT_EQ(
      errors_of(rule("    match:\n      path: [/a, '~(']\n" + limits)),
      "f:5:18: error: the regex '~(' is not valid: missing ): (; expected an RE2 expression after "
      "'~'");
  EXPECT_EQ(errors_of(rule("    match: { method: post }\n" + limits)),
            "f:4:22: error: the method 'post' would match no request; expected 'POST': methods are "
            "case-sensitive");
  EXPECT_EQ(errors_of(rule("    match: { path: [] }\n" + limits)),
            "f:4:20: error: 'path' has no patterns; expected a pattern, or a list of patterns");
  EXPECT_TRUE(errors_of(rule("    match: { path：/x }\n" + limits))
                  .ends_with("; did you mean ':' instead of the full-width '：'?"));
  EXPECT_EQ(errors_of(rule("    match: { path: { a: b } }\n" + limits)),
            "f:4:22: error: unknown key 'a'; expected a pattern, a list of patterns, 'in: FILE' or "
            "'network: [...]'");
  EXPECT_EQ(
      errors_of(rule("    match: { path: }\n" + limits)),
      "f:4:14: error: 'path' is nothing; expected a pattern of at most 4096 bytes, or a list of "
      "patterns");
  EXPECT_EQ(errors_of(rule("    match: { header.: a }\n" + limits)),
            "f:4:14: error: 'header.' lacks its name; expected header.NAME");
  EXPECT_EQ(
      errors_of(rule("    match: { header.a: a, header.A: b }\n" + limits)),
      "f:4:27: error: duplicate attribute 'header.a'; expected a name other than that of line 4, "
      "column 14");
}

TEST(Loader, BoundsTheExpressionsOfAFileAlsoByAliases) {
  std::string patterns = "~a";
  for (int i = 1; i < 100; ++i) patterns += ", ~a";
  const auto with = [&](int times) {
    std::string match = "q0: &p [" + patterns + "]";
    for (int i = 1; i < times; ++i) match += ", q" + std::to_string(i) + ": *p";
    return errors_of(rule("    match: { " + match +
                          " }\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"));
  };
  EXPECT_EQ(with(100), "ok");
  EXPECT_EQ(with(102),
            "f:4:22: error: too many expressions (aliases count as their values); expected at "
            "most 10000 in a file");
}

TEST(Loader, SaysAllErrorsOfAFileInItsOrder) {
  const std::string errors = errors_of(R"(version: 1
rules:
  - name: a
    limits: [ { algorithm: gcra, limit: x, per: 1s } ]
    mode: y
  - limits: [ { algorithm: z, limit: 1, per: 1 } ]
unknown: 1
)");
  EXPECT_EQ(
      errors,
      "f:4:41: error: 'limit' is 'x'; expected a whole number from 0 to 9007199254740991, in plain "
      "digits\n"
      "f:5:11: error: 'mode' is 'y'; expected enforce or shadow\n"
      "f:6:5: error: rule lacks 'name'; expected 'name:' with text of 1 to 128 bytes\n" +
          ("f:6:28: error: 'algorithm' is 'z'; expected " + std::string(kAlgorithms)) +
          "\nf:6:46: error: 'per': '1' has no unit; expected a whole number and its unit (ms, s, "
          "m, h or d), such as 1s\n"
          "f:7:1: error: unknown key 'unknown'; expected one of: version, domain, defaults, "
          "trusted, plans, prices, "
          "rules");
}

TEST(Loader, ExpandsAliasesAndReportsTheirErrorsOnce) {
  EXPECT_EQ(errors_of("version: 1\nrules:\n"
                      "  - { name: a, limits: &l [ { algorithm: gcra, limit: 1, per: 1s } ] }\n"
                      "  - { name: b, limits: *l }\n"),
            "ok");
  EXPECT_EQ(
      errors_of("version: 1\nrules:\n"
                "  - { name: a, limits: &l [ { algorithm: gcra, limit: x, per: 1s } ] }\n"
                "  - { name: b, limits: *l }\n"),
      "f:3:55: error: 'limit' is 'x'; expected a whole number from 0 to 9007199254740991, in plain "
      "digits");
}

TEST(Loader, LoadsFilesAndReportsFailures) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice-loader-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "rules.yaml";
  std::ofstream(path) << "version: 1\nrules: []\n";
  EXPECT_TRUE(RuleSet::load(path).has_value());
  const auto missing = RuleSet::load(folder / "none.yaml");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(
      missing.error().front().to_string(),
      (folder / "none.yaml").string() +
          ":1:1: error: the file cannot be opened: No such file or directory; expected a file "
          "that can be read");
  EXPECT_FALSE(RuleSet::load(folder).has_value());
  const std::vector<std::string> paths{folder / "none.yaml", path, folder / "wrong.yaml"};
  std::ofstream(paths[2]) << "version: 1\n";
  const auto several = RuleSet::load(paths);
  ASSERT_FALSE(several.has_value());
  ASSERT_EQ(several.error().size(), 2u);
  EXPECT_EQ(several.error()[0].file, paths[0]);
  EXPECT_EQ(several.error()[1].file, paths[2]);
  EXPECT_TRUE(RuleSet::load(std::span(paths).subspan(1, 1)).has_value());
  std::filesystem::remove_all(folder);
}

// Returns the rule of a file with one limit and these lines below its name. The first is line 4.
Rule read_rule(const std::string& lines) {
  auto rules =
      RuleSet::parse(rule(lines + "    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"), "f");
  EXPECT_TRUE(rules.has_value()) << rules.error().front().to_string();
  return rules ? rules->rules()[0] : Rule{};
}

TEST(Loader, UsesTheHeaderFieldsOfTheRuleOrElseOfItsFile) {
  EXPECT_EQ(read_rule("").headers, HeaderFields::kBoth);
  EXPECT_EQ(read_rule("    headers: draft\n").headers, HeaderFields::kDraft);
  EXPECT_EQ(read_rule("    headers: legacy\n").headers, HeaderFields::kLegacy);
  const std::string limits = "limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n";
  const auto rules =
      RuleSet::parse("version: 1\ndefaults: { headers: none }\nrules:\n  - { name: a, " + limits +
                         "  - { name: b, headers: both, " + limits,
                     "f");
  ASSERT_TRUE(rules.has_value());
  EXPECT_EQ(rules->rules()[0].headers, HeaderFields::kNone);
  EXPECT_EQ(rules->rules()[1].headers, HeaderFields::kBoth);
  EXPECT_EQ(
      errors_of(rule("    headers: drafts\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } "
                     "]\n")),
      "f:4:14: error: 'headers' is 'drafts'; expected draft, legacy, both or none; did you "
      "mean 'draft'?");
}

TEST(Loader, ReadsTheKindOfADenialsBody) {
  const auto type = [](const std::string& reject) {
    return read_rule("    reject: { " + reject + " }\n").reject.content_type;
  };
  EXPECT_EQ(type("body: '{}'"), "application/json; charset=utf-8");
  EXPECT_EQ(type("body: \" \\n[1]\""), "application/json; charset=utf-8");
  EXPECT_EQ(type("body: no"), "text/plain; charset=utf-8");
  EXPECT_EQ(type("body: ' '"), "text/plain; charset=utf-8");
  EXPECT_EQ(type("body: <p>, content_type: text/html"), "text/html");
  EXPECT_EQ(type("status: 503"), "");
  EXPECT_EQ(type("body: ''"), "");
}

TEST(Loader, RefusesKindsThatNoHeaderFieldCarries) {
  const auto errors = [](const std::string& reject) {
    return errors_of(rule("    reject: { " + reject +
                          " }\n    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"));
  };
  const std::string right = "; expected a media type in ASCII, such as text/html; charset=utf-8";
  for (const std::string type : {"json", "/json", "text/", "text/é"}) {
    EXPECT_EQ(errors("body: x, content_type: " + type),
              "f:4:38: error: 'content_type' is '" + type + "'" + right);
  }
  EXPECT_EQ(errors("body: x, content_type: ' a/b'"),
            "f:4:38: error: 'content_type' is the text ' a/b'" + right);
  EXPECT_EQ(errors("body: x, content_type: \"a/b\\r\\nc\""),
            "f:4:38: error: 'content_type' is the text 'a/b\\x0D\\x0Ac'; expected text of 1 to 128 "
            "bytes without control characters");
  EXPECT_EQ(errors("content_type: text/html"),
            "f:4:29: error: 'content_type' without 'body'; expected also a 'body'");
}

const std::string kOneLimit = "limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n";

TEST(Loader, ReadsSeveralFilesAsOneSet) {
  const std::string first =
      "version: 1\ndomain: shop\ndefaults: { on_store_error: deny }\nrules:\n  - { name: a, " +
      kOneLimit;
  const std::string second =
      "version: 1\nrules:\n  - { name: b, " + kOneLimit + "  - { name: c, " + kOneLimit;
  const RuleText files[] = {{"1.yaml", first}, {"2.yaml", second}};
  const auto rules = RuleSet::parse(files);
  ASSERT_TRUE(rules.has_value()) << rules.error().front().to_string();
  EXPECT_EQ(rules->domain(), "shop");
  ASSERT_EQ(rules->rules().size(), 3u);
  EXPECT_EQ(rules->rules()[0].domain, "shop");
  EXPECT_EQ(rules->rules()[0].on_store_error, FailurePolicy::kDeny);
  EXPECT_EQ(rules->rules()[1].name, "b");
  EXPECT_EQ(rules->rules()[1].domain, "default");
  EXPECT_EQ(rules->rules()[1].on_store_error, FailurePolicy::kAllow);
  EXPECT_EQ(rules->find("c"), &rules->rules()[2]);
  EXPECT_EQ(rules->impl().compiled[0].limits[0].prefix, "shop|a|a/0");
  EXPECT_EQ(rules->impl().compiled[2].limits[0].prefix, "default|c|c/0");
  EXPECT_EQ(RuleSet::parse(std::span<const RuleText>{})->domain(), "default");
}

TEST(Loader, ReportsTheErrorsOfSeveralFilesAndRepeatedNames) {
  const std::string first = "version: 1\nrules:\n  - { name: a, " + kOneLimit;
  const std::string second =
      "version: 2\nrules:\n  - { name: b, " + kOneLimit + "  - { name: a, " + kOneLimit;
  const RuleText files[] = {{"1.yaml", first}, {"2.yaml", second}, {"3.yaml", "rules: []"}};
  const auto rules = RuleSet::parse(files);
  ASSERT_FALSE(rules.has_value());
  ASSERT_EQ(rules.error().size(), 3u);
  EXPECT_EQ(rules.error()[0].to_string(), "2.yaml:1:10: error: 'version' is '2'; expected 1");
  EXPECT_EQ(rules.error()[1].to_string(),
            "2.yaml:4:13: error: duplicate rule 'a'; expected a name other than that of "
            "1.yaml:3:13");
  EXPECT_EQ(rules.error()[2].to_string(),
            "3.yaml:1:1: error: file lacks 'version'; expected 'version:' with 1");
}

TEST(Loader, HandsOutOneSetThatLivesWithItsCopies) {
  std::optional<RuleSet> copy;
  const Rule* first = nullptr;
  {
    auto rules =
        RuleSet::parse(rule("    limits: [ { algorithm: gcra, limit: 1, per: 1s } ]\n"), "f");
    ASSERT_TRUE(rules.has_value());
    first = &rules->rules()[0];
    copy = *rules;
  }
  EXPECT_EQ(copy->find("r"), first);
}

TEST(DidYouMean, SuggestsSimilarWords) {
  using rules::did_you_mean;
  EXPECT_EQ(did_you_mean("algoritm", {"algorithm", "align"}), "; did you mean 'algorithm'?");
  EXPECT_EQ(did_you_mean("On-Missing", {"on_missing"}), "; did you mean 'on_missing'?");
  EXPECT_EQ(did_you_mean("pre", {"per"}), "; did you mean 'per'?");
  EXPECT_EQ(did_you_mean("window", {"algorithm", "align"}), "");
  EXPECT_EQ(did_you_mean(std::string(100000, 'a'), {"algorithm"}), "");
}

TEST(Loader, BoundsTheCostOfExpressions) {
  std::string yaml = "version: 1\nrules:\n";
  for (int i = 0; i < 40; ++i) {
    yaml += "  - { name: r" + std::to_string(i) +
            ", match: { path: '~/([a-z]{1,200}|[0-9]{1,200}x){1,4}' }, limits: [] }\n";
  }
  const auto refused = RuleSet::parse(yaml, "f");
  ASSERT_FALSE(refused.has_value());
  std::size_t costs = 0;
  for (const RuleError& error : refused.error()) {
    if (error.what.find("instructions") == std::string::npos) continue;
    ++costs;
    EXPECT_GT(error.line, 3) << "the first ones fit";
    EXPECT_EQ(error.column, 32 + (error.line > 12)) << "of the expression";
    EXPECT_NE(error.expected.find("at most 200000 in a file"), std::string::npos);
  }
  EXPECT_EQ(costs, 1u);
}

TEST(RuleWarnings, NameLimitsWhoseLogMayNotFit) {
  constexpr std::string_view kRules =
      "version: 1\n"
      "rules:\n"
      "  - name: a\n"
      "    limits:\n"
      "      - { algorithm: sliding_window_log, limit: 4793487, per: 1h }\n"
      "      - { algorithm: sliding_window_log, limit: 4793488, per: 1h }\n"
      "      - { algorithm: sliding_window_hybrid, per: 1h, limit: 4793488 }\n"
      "      - { algorithm: sliding_window_counter, limit: 4000000000, per: 1h }\n";
  EXPECT_TRUE(RuleSet::parse(kRules, "f")->warnings().empty());
  const auto rules = RuleSet::parse(kRules, "f", {.max_log_bytes = std::size_t{256} << 20});
  ASSERT_EQ(rules->warnings().size(), 2u);
  const RuleError& log = rules->warnings()[0];
  EXPECT_EQ(log.line, 6);
  EXPECT_EQ(log.column, 49);
  EXPECT_TRUE(log.to_string().starts_with("f:6:49: warning: a log of 4793488 units can need "))
      << log.to_string();
  EXPECT_EQ(rules->warnings()[1].line, 7);
}

}  // namespace
}  // namespace sluice::loader_test
