#include "rules/request_names.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "sluice/attributes.h"
#include "sluice/memory_store.h"
#include "sluice/overrides.h"

namespace sluice::rules::remembered_requests_test {
namespace {

constexpr std::string_view kRules = R"(
version: 1
plans:
  free: { units: { limit: 3, per: 10s } }
  pro: { units: { limit: 9, per: 10s } }
rules:
  - name: friends
    match: { ip: 10.0.0.1 }
    action: allow
  - name: trial
    match: { path: /a/** }
    mode: shadow
    continue: true
    limits: [ { key: "{ip/24/64} {header.x-user}", algorithm: gcra, limit: 5, per: 1s } ]
  - name: banned
    match: { header.x-user: mallory }
    action: deny
  - name: metered
    match: { path: /b }
    continue: true
    plan: { from: "{header.x-plan}", default: free }
    limits:
      - { name: units, key: "{ip}", algorithm: token_bucket }
      - { key: "{ip}", algorithm: fixed_window, limit: 40, per: 10s, cost: "{header.x-cost|2}" }
  - name: signed
    match: { path: /a/2 }
    continue: true
    tag: "{ip}"
    limits:
      - { key: "{header.x-user}", algorithm: fixed_window, limit: 9, per: 5s, on_missing: deny }
  - name: strangers
    match: { path: [ /a/1, /c ] }
    continue: true
    on_store_error: deny
    max_new_keys: 2
    limits: [ { key: "{ip}|{path}", algorithm: fixed_window, limit: 6, per: 3s } ]
  - name: everyone
    limits:
      - { key: "{ip}", algorithm: token_bucket, limit: 2, per: 1s, burst: 6, warn: 50% }
      - { key: "all", algorithm: sliding_window_log, limit: 70, per: 20s }
)";

RuleSet parse_rules() {
  const auto rules = RuleSet::parse(kRules, "f");
  if (!rules) throw std::invalid_argument(rules.error().front().to_string());
  return *rules;
}

std::string text_of(const Decision& decision) {
  std::ostringstream out;
  out << to_string(decision.outcome) << ' ' << to_string(decision.reason) << ' '
      << decision.capacity << ' ' << decision.remaining << ' ' << decision.reset_after.count()
      << ' ' << decision.retry_after.value_or(Duration{-1}).count();
  return out.str();
}

// All that a caller sees of an answer.
std::string text_of(const RuleAnswer& answer) {
  std::ostringstream out;
  out << text_of(answer.decision) << " by " << (answer.rule != nullptr ? answer.rule->name : "-")
      << ' ' << answer.mistake << '\n';
  for (const RuleAnswer::Matched& matched : answer.matched) {
    out << matched.rule->name << ' ' << matched.denied << ' ' << matched.plan
        << matched.has_unknown_plan << '\n';
  }
  for (const LimitAnswer& limit : answer.limits) {
    out << limit.rule->name << '/' << limit.limit->name << ' ' << limit.counter << " '"
        << limit.label << "' " << limit.tag << ' ' << limit.cost << ' ' << limit.near
        << limit.lacks_counter << ' ' << limit.numbers.limit() << ' ' << text_of(limit.decision)
        << '\n';
  }
  return out.str();
}

// Makes random requests of a few clients, many of them the same.
class Requests {
 public:
  Attributes next() {
    Attributes request;
    request.set("ip", pick({"10.0.0.1", "10.0.0.2", "10.0.1.3", "2001:db8::1", "a|b"}));
    request.set("path", pick({"/a/1", "/a/2", "/b", "/c", "/d"}));
    if (chance()) request.set("header.x-user", pick({"ann", "bob", "mallory", ""}));
    if (chance()) request.set("header.x-plan", pick({"free", "pro", "gold"}));
    if (chance()) request.set("header.x-cost", pick({"1", "3", "many"}));
    return request;
  }
  Duration wait() { return std::chrono::milliseconds{random_() % 200}; }

 private:
  bool chance() { return random_() % 2 == 0; }
  std::string_view pick(const std::vector<std::string_view>& values) {
    return values[random_() % values.size()];
  }

  std::mt19937 random_{20261123};
};

void expect_the_same_answers(const Overrides* overrides) {
  // Each decider has rules of its own, because rules with `max_new_keys` have a state.
  const RuleSet rules = parse_rules();
  const RuleSet other_rules = parse_rules();
  MemoryStore store({.max_keys = 1000}), other_store({.max_keys = 1000});
  Limiter limiter(store), other_limiter(other_store);
  RuleDecider decider(limiter, {.overrides = overrides});
  RememberedRequests remembered(other_limiter, other_rules, {.overrides = overrides});
  RequestNames names(other_rules, overrides);
  Requests requests;
  Instant now{std::chrono::seconds{1'700'000'000}};
  for (int i = 0; i < 20'000; ++i) {
    const Attributes request = requests.next();
    now += requests.wait();
    const std::string expected = text_of(decider.decide(rules, request, 1, now));
    const std::string_view name = names.name(request);
    ASSERT_EQ(text_of(remembered.decide(name, request, now)), expected) << "request " << i;
  }
}

TEST(RememberedRequests, AnswerAsADeciderThatForgets) { expect_the_same_answers(nullptr); }

TEST(RememberedRequests, FollowOverridesThatEnd) {
  const Override blocked{.kind = Override::Kind::kBlocked,
                         .until = Instant{std::chrono::seconds{1'700'000'100}}};
  const Attributes client{{"ip", "10.0.0.2"}};
  const auto key = name_override(parse_rules(), "everyone", "everyone/0", client, blocked);
  ASSERT_TRUE(key.has_value()) << key.error();
  Overrides overrides;
  ASSERT_TRUE(overrides.set(*key, blocked).has_value());
  expect_the_same_answers(&overrides);
}

TEST(RequestNames, AreThoseOfTheRulesAndTheirKeysAlone) {
  RequestNames names(parse_rules());
  const auto name = [&](const Attributes& request) { return std::string(names.name(request)); };
  const std::string one = name({{"ip", "10.0.0.2"}, {"path", "/x"}, {"header.x-user", "ann"}});
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(name({{"ip", "10.0.0.2"}, {"path", "/y"}}), one);
  EXPECT_NE(name({{"ip", "10.0.0.3"}, {"path", "/x"}}), one);
  EXPECT_NE(name({{"path", "/x"}}), one);
  EXPECT_NE(name({{"ip", "10.0.0.2"}, {"path", "/a/9"}}), one) << "another rule matches, too";
  EXPECT_EQ(name({{"ip", "10.0.0.2"}, {"path", "/b"}}), "") << "it has a plan and a cost";
}

}  // namespace
}  // namespace sluice::rules::remembered_requests_test
