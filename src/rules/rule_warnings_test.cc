// Warnings about rules that limit nothing, or less than they seem to.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rules/rule_set.h"

namespace sluice::rules::rule_warnings_test {
namespace {

std::vector<std::string> warnings_of(const std::string& yaml) {
  const auto rules = RuleSet::parse("version: 1\n" + yaml, "f");
  if (!rules) return {"error: " + rules.error().front().to_string()};
  std::vector<std::string> out;
  for (const RuleError& warning : rules->warnings()) out.push_back(warning.to_string());
  return out;
}

std::string rule(const std::string& name, const std::string& match,
                 const std::string& key = "\"{ip}\"") {
  return "  - name: " + name + "\n" + (match.empty() ? "" : "    match: { " + match + " }\n") +
         "    limits: [ { name: l, key: " + key + ", algorithm: gcra, limit: 1, per: 1s } ]\n";
}

std::vector<std::string> warnings_of_rule(const std::string& match,
                                          const std::string& key = "\"{ip}\"") {
  return warnings_of("rules:\n" + rule("r", match, key));
}

using Texts = std::vector<std::string>;

TEST(RuleWarnings, APathBeginsWithASlash) {
  EXPECT_EQ(warnings_of_rule("path: login"),
            Texts{"f:4:20: warning: the path 'login' matches no request: paths begin with '/'; "
                  "expected a pattern such as /login; did you mean '/login'?"});
  EXPECT_EQ(warnings_of_rule("not: { path: [/a, b] }"),
            Texts{"f:4:32: warning: the path 'b' matches no request: paths begin with '/'; "
                  "expected a pattern such as /login; did you mean '/b'?"});
  EXPECT_EQ(
      warnings_of_rule("path: \"/a?b=1\""),
      Texts{
          "f:4:20: warning: the path '/a?b=1' seems to have a query, and paths have none; expected "
          "the path alone, and a condition such as query.NAME"});
  for (const char* path : {"/login", "\"/**\"", "\"**.php\"", "\"*\"", "~.*login", "\"~/a?b\""}) {
    EXPECT_EQ(warnings_of_rule("path: " + std::string(path)), Texts{}) << path;
  }
}

TEST(RuleWarnings, PathsAndHostsAreAsAGatewaySendsThem) {
  EXPECT_EQ(warnings_of_rule("path: \"/a%20b/**\""),
            Texts{"f:4:20: warning: the path '/a%20b/**' matches no request of a gateway; expected "
                  "a path without escapes such as %20, '//' and '..'; did you mean '/a b/**'?"});
  EXPECT_EQ(warnings_of_rule("path: /q/../x").size(), 1U);
  for (const char* path : {"/.well-known/*", "/a.b/..c", "\"/100%\"", "\"/a/**/b/\""}) {
    EXPECT_EQ(warnings_of_rule("path: " + std::string(path)), Texts{}) << path;
  }
  EXPECT_EQ(warnings_of_rule("host: Example.ORG"),
            Texts{"f:4:20: warning: the host 'Example.ORG' matches no request of a gateway; "
                  "expected a host in lower case and without its port; did you mean "
                  "'example.org'?"});
  EXPECT_EQ(warnings_of_rule("host: \"example.org:8080\"").size(), 1U);
  for (const char* host :
       {"example.org", "\"*.example.org\"", "\"2001:db8::1\"", "\"~.*[A-Z].*\""}) {
    EXPECT_EQ(warnings_of_rule("host: " + std::string(host)), Texts{}) << host;
  }
}

TEST(RuleWarnings, AnExpressionMatchesTheWholeValue) {
  EXPECT_EQ(warnings_of_rule("path: ~wp-login"),
            Texts{"f:4:20: warning: the expression '~wp-login' matches no path: paths begin with "
                  "'/'; expected an expression for the whole path; did you mean "
                  "'~.*wp-login.*'?"});
  EXPECT_EQ(warnings_of_rule("header.user-agent: ~bot"),
            Texts{"f:4:33: warning: the expression '~bot' matches only 'bot'; expected an "
                  "expression for the whole value; did you mean '~.*bot.*'?"});
  for (const auto& [path, meant] :
       std::vector<std::pair<std::string, std::string>>{{"~a|b", "~.*(a|b).*"},
                                                        {"~^admin/.*", "~/admin/.*"},
                                                        {"~(?i)login", "~.*(?i)login.*"},
                                                        {"~[a-z]+[.]php", "~.*[a-z]+[.]php.*"}}) {
    const Texts warnings = warnings_of_rule("path: \"" + path + "\"");
    ASSERT_EQ(warnings.size(), 1U) << path;
    EXPECT_NE(warnings[0].find("did you mean '" + meant + "'?"), std::string::npos) << warnings[0];
    EXPECT_EQ(warnings_of_rule("path: \"" + meant + "\""), Texts{}) << meant;
  }
  for (const char* path :
       {"~/login", "~^/a.*$", "~.*login", "~a|/b", "~[/]a", "~(/a)?", "~(?i)/a", "~.*", "~[^a]*"}) {
    EXPECT_EQ(warnings_of_rule("path: \"" + std::string(path) + "\""), Texts{}) << path;
  }
  EXPECT_EQ(warnings_of_rule("header.user-agent: \"~bot.*\""), Texts{});
}

TEST(RuleWarnings, AKeyWithoutBracesIsTheSameForAll) {
  const auto warning = [](const std::string& key, const std::string& meant) {
    return Texts{"f:4:31: warning: the key '" + key +
                 "' is the same for all requests; expected an attribute in braces; did you mean '" +
                 meant + "'?"};
  };
  for (const auto& [key, meant] :
       std::vector<std::pair<std::string, std::string>>{{"ip", "{ip}"},
                                                        {"$ip", "{ip}"},
                                                        {"{{ip}}", "{ip}"},
                                                        {"$remote_addr", "{ip}"},
                                                        {"header.x-user-id", "{header.x-user-id}"},
                                                        {"user-agent", "{header.user-agent}"}}) {
    EXPECT_EQ(warnings_of_rule("", "\"" + key + "\""), warning(key, meant));
  }
  EXPECT_EQ(warnings_of_rule("", "\"{method}\""),
            Texts{"f:4:31: warning: the key '{method}' is the same for all clients; expected an "
                  "attribute that differs between clients; did you mean '{ip}'?"});
  for (const std::string key :
       {"all", "{path}", "{method} {ip}", "the ip", "tenant", "{ip}", "a {ip}"}) {
    EXPECT_EQ(warnings_of_rule("", "\"" + key + "\""), Texts{}) << key;
  }
}

TEST(RuleWarnings, ALimitOfZeroDeniesEveryRequest) {
  const auto with = [](const std::string& limit, const std::string& of_rule = {}) {
    return warnings_of("rules:\n  - name: r\n" + of_rule + "    limits: [ { name: l, " + limit +
                       " } ]\n");
  };
  const std::string zero = "algorithm: fixed_window, limit: 0, per: 1d";
  EXPECT_EQ(with(zero), Texts{"f:4:58: warning: limit 'l' of rule 'r' is 0, which denies every "
                              "request; expected at least 1, or a rule with 'action: deny'"});
  EXPECT_EQ(with("algorithm: concurrency, limit: 0, lease: 1m").size(), 1U);
  EXPECT_EQ(with("algorithm: fixed_window, limit: 1, per: 1d"), Texts{});
  EXPECT_EQ(with(zero, "    mode: shadow\n"), Texts{});
  EXPECT_EQ(with("algorithm: budget, limit: 0, per: 1d, overflow: { name: m, limit: 5, per: 1d }"),
            Texts{});
  EXPECT_EQ(with("algorithm: budget, limit: 5, per: 1d, overflow: { name: m, limit: 0, per: 1d }"),
            Texts{});
}

TEST(RuleWarnings, ALimitOfZeroInOnePlanIsWhatThePlanIsFor) {
  const auto with = [](const std::string& pro) {
    return warnings_of(
        "plans:\n"
        "  free: { l: { limit: 0, per: 1s } }\n"
        "  pro: { l: { limit: " +
        pro +
        ", per: 1s } }\n"
        "rules:\n  - name: r\n    plan: { from: \"{plan}\", default: free }\n"
        "    limits: [ { name: l, algorithm: gcra } ]\n");
  };
  EXPECT_EQ(with("9"), Texts{});
  EXPECT_EQ(with("0").size(), 1U);
}

TEST(RuleWarnings, FullWidthCharactersAreThoseOfNoRequest) {
  EXPECT_EQ(
      warnings_of_rule("path: ／login/＊＊"),
      Texts{"f:4:20: warning: the path '／login/＊＊' has full-width characters and matches no "
            "request; expected ASCII characters; did you mean '/login/**'?"});
  for (const char* match : {"method: ＰＯＳＴ", "method: [GET、POST]", "host: shop。example"}) {
    EXPECT_EQ(warnings_of_rule(match).size(), 1U) << match;
  }
  EXPECT_EQ(warnings_of_rule("path: /商品（新）/**"), Texts{});
  EXPECT_EQ(
      warnings_of_rule("path: /", "\"｛ip/64｝\""),
      Texts{"f:5:31: warning: the key '｛ip/64｝' has full-width braces, which are plain text; "
            "expected ASCII braces; did you mean '{ip/64}'?"});
  EXPECT_EQ(warnings_of_rule("path: /", "\"{ip／64}\"").size(), 1U);
  EXPECT_EQ(warnings_of_rule("path: /", "\"用户：{ip}\""), Texts{});
}

TEST(RuleWarnings, APathIsNoUrlAndNoRegularExpression) {
  EXPECT_EQ(
      warnings_of_rule("path: \"^/users/.*\""),
      Texts{"f:4:20: warning: the path '^/users/.*' seems to be a regular expression; expected "
            "a pattern such as /users/**, or '~' before an expression; did you mean "
            "'~^/users/.*'?"});
  EXPECT_EQ(warnings_of_rule("path: \"https://shop.example/users/**\""),
            Texts{"f:4:20: warning: the path 'https://shop.example/users/**' matches no request: "
                  "paths begin with '/'; expected a pattern such as /login; did you mean "
                  "'/users/**'?"});
  EXPECT_EQ(warnings_of_rule("path: \"~^/users/.*\""), Texts{});
}

TEST(RuleWarnings, ARequestHasNoStatus) {
  EXPECT_EQ(warnings_of_rule("status: \"401\""),
            Texts{"f:4:14: warning: no front end sends the attribute 'status' with a request; "
                  "expected 'count: { on: ... }' of a limit, for the status of a response"});
}

TEST(RuleWarnings, NoFrontEndSendsASlip) {
  EXPECT_EQ(warnings_of_rule("", "\"{ipp}\""),
            Texts{"f:4:31: warning: no front end sends the attribute 'ipp'; expected method, path, "
                  "host, ip, header.NAME, query.NAME, cookie.NAME, body.NAME, or an attribute that "
                  "a program sends; did you mean 'ip'?"});
  for (const auto& [slip, meant] :
       std::vector<std::pair<std::string, std::string>>{{"pth", "path"},
                                                        {"IP", "ip"},
                                                        {"methd", "method"},
                                                        {"Host", "host"},
                                                        {"headers.x-user", "header.x-user"},
                                                        {"bdy.id", "body.id"},
                                                        {"remote_addr", "ip"},
                                                        {"X-Forwarded-For", "ip"},
                                                        {"client_ip", "ip"},
                                                        {"uri", "path"},
                                                        {"x-api-key", "header.x-api-key"},
                                                        {"http_x_api_key", "header.x-api-key"},
                                                        {"cokie.a", "cookie.a"},
                                                        {"header.user_agent", "header.user-agent"},
                                                        {"header.X_Key", "header.X-Key"}}) {
    const Texts warnings = warnings_of_rule(slip + ": /x");
    ASSERT_EQ(warnings.size(), 1U) << slip;
    EXPECT_NE(warnings[0].find("did you mean '" + meant + "'?"), std::string::npos) << warnings[0];
  }
  for (const char* own : {"user", "tenant", "id", "port", "remote_address", "generic_key", "x.y",
                          "user.id", "a", "model"}) {
    EXPECT_EQ(warnings_of_rule(std::string(own) + ": x"), Texts{}) << own;
  }
}

TEST(RuleWarnings, AClientAvoidsALimitByLeavingOutAHeader) {
  const std::string advice =
      "; expected another choice such as |ip, 'on_missing: deny', or 'trusted' with what a gateway "
      "sets";
  EXPECT_EQ(warnings_of_rule("", "\"{header.x-user}\""),
            Texts{"f:4:31: warning: a client avoids the limit 'l' by leaving out header.x-user" +
                  advice});
  EXPECT_EQ(warnings_of_rule("", "\"{ip} {cookie.a|query.b}\""),
            Texts{"f:4:31: warning: a client avoids the limit 'l' by leaving out cookie.a or "
                  "query.b" +
                  advice});
  EXPECT_EQ(warnings_of_rule("", "\"{header.x-user|ip}\""), Texts{});
  EXPECT_EQ(warnings_of("rules:\n" + rule("a", "header.x-user: \"*\"", "\"{header.x-user}\"") +
                        rule("b", "")),
            Texts{})
      << "the rule is about requests with it";
  EXPECT_EQ(warnings_of_rule("", "\"{user}\""), Texts{}) << "a program sends it";
  EXPECT_EQ(warnings_of_rule("", "\"{header.x-user}\", on_missing: deny"), Texts{});
  EXPECT_EQ(warnings_of_rule("", "\"{ip}\", cost: \"{body.units|1}\""), Texts{});
  EXPECT_EQ(warnings_of_rule("", "\"{ip}\", cost: \"{body.units}\""),
            Texts{"f:4:45: warning: a client avoids the limit 'l' by leaving out body.units; "
                  "expected a default such as |1, 'on_missing: deny' if only programs ask (no "
                  "gateway sends the body), or 'trusted' with what they set"});
}

TEST(RuleWarnings, AClientAvoidsARuleByLeavingOutWhatItMatches) {
  const std::string api = "path: \"/api/**\", header.x-key: \"*\"";
  const Texts warned{
      "f:4:12: warning: a client avoids the rule 'r' by leaving out header.x-key, and no other "
      "rule "
      "has its requests; expected a rule after it without this condition, or 'trusted' with what a "
      "gateway sets"};
  const auto with = [](const std::string& match, const std::string& others) {
    return warnings_of("rules:\n" + rule("r", match) + others);
  };
  EXPECT_EQ(with(api, ""), warned);
  EXPECT_EQ(with(api, rule("b", "path: \"/api/v1/**\"")), warned) << "a part of them";
  EXPECT_EQ(with(api, rule("b", "path: \"/api/**\", method: GET")), warned);
  EXPECT_EQ(with(api, rule("b", "path: \"/api/**\"")), Texts{});
  EXPECT_EQ(with(api, rule("b", "path: \"/**\"")), Texts{});
  EXPECT_EQ(with(api, rule("b", "")), Texts{});
  EXPECT_EQ(with(api, "  - { name: b, match: { path: \"/api/**\" }, action: allow }\n"), Texts{});
  EXPECT_EQ(with(api, rule("b", "path: \"/api/**\", not: { header.x-key: \"*\" }")), Texts{});
  EXPECT_EQ(with("header.x-key: \"*\"", rule("b", "path: \"/**\"")), Texts{})
      << "a request without the header has a path, too";
  EXPECT_EQ(warnings_of("rules:\n" + rule("a", "") + "    continue: true\n" + rule("r", api)),
            Texts{});
  EXPECT_EQ(warnings_of("trusted: header.x-key\nrules:\n" + rule("r", api)), Texts{});
  EXPECT_EQ(warnings_of_rule("user: \"*\""), Texts{}) << "a program sends it";
  EXPECT_EQ(warnings_of_rule("header.x-key: abc, body.model: \"large*\""), Texts{})
      << "the rule is about requests with these values";
  EXPECT_EQ(warnings_of("rules: [ { name: r, match: { query.a: \"*\" }, action: deny } ]\n"),
            Texts{});
}

TEST(RuleWarnings, AClientAvoidsARuleBySendingWhatItExcludes) {
  const std::string match = "path: /a, not: { header.x-internal: \"yes\" }";
  EXPECT_EQ(
      warnings_of_rule(match),
      Texts{"f:4:12: warning: a client avoids the rule 'r' by sending header.x-internal, and "
            "no other rule has its requests; expected a rule after it without this condition, "
            "or 'trusted' with what a gateway sets"});
  EXPECT_EQ(warnings_of("rules:\n" + rule("r", match) + rule("b", "path: /a")), Texts{});
  EXPECT_EQ(
      warnings_of("rules:\n" + rule("r", match) + rule("b", "path: /a, header.x-internal: \"y*\"")),
      Texts{});
  EXPECT_EQ(
      warnings_of("rules:\n" + rule("r", match) + rule("b", "path: /a, header.x-internal: no"))
          .size(),
      1U);
  EXPECT_EQ(warnings_of_rule("path: /a, not: { ip: 10.0.0.0/8 }"), Texts{});
}

TEST(RuleWarnings, ARuleWithAContradictionMatchesNothing) {
  EXPECT_EQ(warnings_of_rule("path: /x, not: { path: /x }"),
            Texts{"f:4:12: warning: the rule 'r' matches no request: 'not' excludes all that it "
                  "demands of 'path'; expected other values in 'not'"});
  EXPECT_EQ(warnings_of_rule("path: [/x/a, /x/b/*], not: { path: \"/x/**\" }").size(), 1U);
  EXPECT_EQ(warnings_of_rule("ip: 10.1.0.0/16, not: { ip: 10.0.0.0/8 }").size(), 1U);
  EXPECT_EQ(warnings_of_rule("header.a: \"*\", not: { header.a: \"*\" }").size(), 1U);
  EXPECT_EQ(warnings_of_rule("path: \"/x/**\", not: { path: /x/a }"), Texts{});
  EXPECT_EQ(warnings_of_rule("path: /x, not: { host: /x }"), Texts{});
}

TEST(RuleWarnings, ALaterFileHasTheOtherRequests) {
  const std::string with_key = "version: 1\nrules:\n" + rule("r", "header.x-key: \"*\"");
  const std::string others = "version: 1\nrules:\n" + rule("b", "path: login") + rule("c", "");
  const std::vector<RuleText> both{{"f", with_key}, {"g", others}};
  const auto rules = load_rules(both, {});
  ASSERT_TRUE(rules);
  ASSERT_EQ((*rules)->warnings.size(), 1U);
  EXPECT_EQ((*rules)->warnings[0].file, "g");
  const std::string slip = "version: 1\nrules:\n" + rule("b", "path: login");
  const std::vector<RuleText> first{{"f", with_key}, {"g", slip}};
  const auto warned = load_rules(first, {});
  ASSERT_TRUE(warned);
  ASSERT_EQ((*warned)->warnings.size(), 2U);
  EXPECT_EQ((*warned)->warnings[0].file, "f") << "in the order of the files";
}

TEST(RuleWarnings, AClientChoosesItsPlan) {
  const std::string plans = "plans: { free: { l: { limit: 1, per: 1s } } }\nrules:\n";
  const auto with_plan = [](const std::string& from) {
    return "  - name: r\n    plan: { from: \"" + from +
           "\", default: free }\n    limits: [ { name: l, algorithm: gcra } ]\n";
  };
  EXPECT_EQ(warnings_of(plans + with_plan("{header.x-plan}")),
            Texts{"f:5:19: warning: a client can choose its plan by header.x-plan; expected an "
                  "attribute that no client chooses, or 'trusted' with what a gateway sets"});
  EXPECT_EQ(warnings_of(plans + with_plan("{plan}")), Texts{});
  EXPECT_EQ(warnings_of("trusted: header.X-Plan\n" + plans + with_plan("{header.x-plan}")),
            Texts{});
}

TEST(RuleWarnings, TrustedAttributesAreThoseOfAGateway) {
  EXPECT_EQ(warnings_of("trusted: [header.X-User, cookie.a]\nrules:\n" +
                        rule("r", "", "\"{header.x-user} {cookie.a}\"")),
            Texts{});
  EXPECT_EQ(warnings_of("trusted: [ip]\nrules: []\n"),
            Texts{"error: f:2:11: error: 'ip' in 'trusted' is no client's choice anyway; expected "
                  "header.NAME, query.NAME, cookie.NAME or body.NAME"});
  EXPECT_EQ(warnings_of("trusted: headers.x\nrules: []\n"),
            Texts{"error: f:2:10: error: 'headers.x' in 'trusted' is no client's choice anyway; "
                  "expected header.NAME, query.NAME, cookie.NAME or body.NAME; did you mean "
                  "'header.x'?"});
}

// Whether the second rule is never reached, if the rules have these conditions.
bool is_hidden(const std::string& first, const std::string& second) {
  const Texts warnings = warnings_of("rules:\n" + rule("a", first) + rule("b", second));
  EXPECT_LE(warnings.size(), 1U);
  if (warnings.empty()) return false;
  EXPECT_NE(warnings[0].find("the rule 'b' is never reached: 'a' before it decides all of its "
                             "requests; expected the narrower rule first, or 'continue: true' in "
                             "'a'"),
            std::string::npos)
      << warnings[0];
  return true;
}

TEST(RuleWarnings, AShadowRuleTakesRequestsFromARuleAfterIt) {
  const auto after = [](const std::string& shadow, const std::string& match) {
    return warnings_of("rules:\n  - name: trial\n    mode: shadow\n" + shadow +
                       "    limits: [ { key: \"{ip}\", algorithm: gcra, limit: 1, per: 1s } ]\n" +
                       rule("b", match));
  };
  const Texts warned = after("    match: { path: /login }\n", "path: /**");
  ASSERT_EQ(warned.size(), 1U);
  EXPECT_NE(warned[0].find("the shadow rule 'trial' ends the search before 'b'; expected "
                           "'continue: true' in 'trial'"),
            std::string::npos)
      << warned[0];
  EXPECT_EQ(after("    match: { path: /login }\n", "").size(), 1U);
  EXPECT_EQ(after("    match: { path: /login }\n    continue: true\n", ""), Texts{});
  EXPECT_EQ(after("    match: { path: /login }\n", "path: /order"), Texts{});
  EXPECT_EQ(after("    match: { path: /login }\n", "path: /login")[0].find("never reached") !=
                std::string::npos,
            true);
}

TEST(RuleWarnings, ARuleIsNeverReached) {
  EXPECT_TRUE(is_hidden("", "path: /login"));
  EXPECT_TRUE(is_hidden("", ""));
  EXPECT_TRUE(is_hidden("path: /**", "path: /login, method: POST"));
  EXPECT_TRUE(is_hidden("path: /**", "path: ~/a+"));
  EXPECT_TRUE(is_hidden("path: [/a, /b/**]", "path: [/b/c, /a]"));
  EXPECT_TRUE(is_hidden("ip: 10.0.0.0/8", "ip: [10.1.0.0/16, 10.2.3.4]"));
  EXPECT_TRUE(is_hidden("not: { path: /a }", "not: { path: [/a, /b] }"));
  EXPECT_TRUE(is_hidden("path: /**", "header.user-agent: \"*bot*\""));
  EXPECT_TRUE(is_hidden("path: /**, method: GET", "query.a: b, method: GET"));
  EXPECT_FALSE(is_hidden("path: /**", "not: { header.user-agent: \"*bot*\" }"));
  EXPECT_FALSE(is_hidden("path: /a/**", "header.user-agent: \"*bot*\""));
  EXPECT_FALSE(is_hidden("not: { path: /** }", "header.user-agent: \"*bot*\""));
  EXPECT_FALSE(is_hidden("path: /login", "")) << "the usual order";
  EXPECT_FALSE(is_hidden("path: /**", "method: POST")) << "a request without a path";
  EXPECT_FALSE(is_hidden("path: [/a, /b/**]", "path: [/b/c, /c]"));
  EXPECT_FALSE(is_hidden("path: /**, method: GET", "path: /a"));
  EXPECT_FALSE(is_hidden("ip: 10.0.0.0/9", "ip: 10.0.0.0/8"));
  EXPECT_FALSE(is_hidden("ip: 10.0.0.0/8", "ip: \"10.*\"")) << "a text may be no address";
  EXPECT_FALSE(is_hidden("not: { path: [/a, /b] }", "not: { path: /a }"));
  EXPECT_FALSE(is_hidden("not: { path: /a }", "path: /a"));
}

TEST(RuleWarnings, ARuleThatContinuesHidesNone) {
  const std::string second = rule("b", "path: /a");
  EXPECT_EQ(warnings_of("rules:\n" + rule("a", "") + "    continue: true\n" + second), Texts{});
  EXPECT_EQ(warnings_of("rules:\n  - { name: a, action: deny, mode: shadow }\n" + second), Texts{});
  EXPECT_EQ(warnings_of("rules:\n  - { name: a, action: allow }\n" + second).size(), 1U);
}

// Every value of up to six of these characters.
Texts short_values() {
  Texts values{""};
  for (std::size_t i = 0; values[i].size() < 6; ++i) {
    for (const char c : {'/', 'a', 'b'}) values.push_back(values[i] + c);
  }
  return values;
}

TEST(RuleWarnings, APatternCoversOnlyWhatItMatches) {
  const Texts values = short_values();
  std::vector<Pattern> patterns;
  for (const char* text :
       {"",      "/",   "/a",   "/a/b",   "/ab",   "a",     "*",     "**",      "/*",     "/**",
        "/a/**", "/a*", "/a/*", "/ab/**", "/a**",  "/**/b", "/*/a",  "/*/a/**", "/a*/**", "/a/b/**",
        "a*",    "*a",  "*a*",  "a*b",    "~/a.*", "~a*",   "/a/b*", "/a/*b/**"}) {
    patterns.push_back(Pattern::compile(text).value());
  }
  std::size_t covered = 0;
  for (const Pattern& wide : patterns) {
    EXPECT_TRUE(wide.covers(wide));
    for (const Pattern& narrow : patterns) {
      if (!wide.covers(narrow)) continue;
      ++covered;
      for (const std::string& value : values) {
        ASSERT_TRUE(!narrow.matches(value) || wide.matches(value)) << value;
      }
    }
  }
  EXPECT_GT(covered, 3 * patterns.size()) << "most of what there is to find";
}

// Returns the steps that it takes to look for a rule that covers the last one, at most `steps`.
std::size_t steps_to_look(const std::string& rules, std::size_t steps) {
  const auto set = RuleSet::parse("version: 1\nrules:\n" + rules, "f");
  std::size_t left = steps;
  find_cover(set->impl(), set->rules().size() - 1, left);
  return steps - left;
}

TEST(RuleWarnings, AreLookedForInBoundedSteps) {
  std::string many, shadows, lists;
  for (int i = 0; i < 1000; ++i) {
    const std::string n = std::to_string(i);
    many += rule("r" + n, "path: /" + n);
    shadows += "  - { name: r" + n + ", action: deny, mode: shadow }\n";
  }
  std::string patterns;
  for (int i = 0; i < 100; ++i) patterns += "/a" + std::to_string(i) + "/**, ";
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    lists += rule("r" + n, "path: [" + patterns + "/only" + n + "]");
  }
  const std::string last = rule("last", "path: /x");
  EXPECT_GE(steps_to_look(many + last, 10'000), 2'000U) << "a rule and its pattern";
  EXPECT_LE(steps_to_look(many + last, 10'000), 5'000U);
  EXPECT_GE(steps_to_look(shadows + last, 10'000), 1'000U) << "rules that hide none count too";
  EXPECT_GE(steps_to_look(lists, 1'000'000), 9U * 100 * 50) << "pairs of patterns count";
  EXPECT_EQ(steps_to_look(lists, 500), 500U);
  EXPECT_GE(
      steps_to_look(rule("a", "path: ~/a+") + rule("b", "path: /" + std::string(500, 'a')), 1'000),
      500U)
      << "bytes that an expression reads count";
}

TEST(RuleWarnings, ARuleIsNotFoundWithoutSteps) {
  const auto set =
      RuleSet::parse("version: 1\nrules:\n" + rule("a", "") + rule("b", "path: /x"), "f");
  std::size_t steps = 1;
  EXPECT_NE(find_cover(set->impl(), 1, steps), nullptr);
  EXPECT_EQ(steps, 0U);
  EXPECT_EQ(find_cover(set->impl(), 1, steps), nullptr);
}

}  // namespace
}  // namespace sluice::rules::rule_warnings_test
