#include "server/decide/session.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/logging/test_pipe.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kRules = R"(version: 1
rules:
  - name: trial
    mode: shadow
    continue: true
    limits: [ { name: none, algorithm: gcra, limit: 0, per: 1s } ]
  - name: order
    match: { path: /order }
    limits:
      - { name: global, algorithm: gcra, limit: 1, per: 1s }
      - { name: user, key: "{header.x-user}", algorithm: gcra, limit: 1, per: 2s }
  - name: banned
    match: { path: /banned }
    limits:
      - { name: hour, algorithm: gcra, limit: 1, per: 1h }
      - { name: never, algorithm: gcra, limit: 0, per: 1s }
  - name: insists
    match: { path: /insists }
    limits: [ { name: user, key: "{ip}", algorithm: gcra, limit: 1, per: 1s, on_missing: deny } ]
  - { name: closed, match: { path: /closed }, action: deny }
  - name: api
    match: { path: /api }
    limits:
      - { name: user, key: "{ip}", algorithm: fixed_window, limit: 10, per: 1m, warn: 80% }
)";

// Returns the lines of the denial log, without time and level, that `use` causes, and the metrics
// after it.
template <typename Use>
std::vector<std::string> denials_of(const Use& use, testing::ManualClock& clock,
                                    std::string* metrics = nullptr) {
  MemoryStore store{{}, clock};
  Limiter limiter{store};
  TestFolder folder;
  const auto manager = RulesManager::open({folder.write("rules.yaml", kRules)}).value();
  metrics::Registry registry;
  TestingPipe pipe;
  {
    Log log({}, pipe.writing());
    DenialLog denials(log, clock, clock);
    Session session({limiter, *manager, registry.make_recorder(), denials});
    use(session);
  }
  if (metrics != nullptr) *metrics = registry.text();
  auto found = pipe.lines();
  for (auto& line : found) line = line.substr(line.find(" info ") + 6);
  return found;
}
template <typename Use>
std::vector<std::string> denials_of(const Use& use) {
  testing::ManualClock clock;
  return denials_of(use, clock);
}

using Lines = std::vector<std::string>;

// Of the rule that matches every request, if no other rule denies it.
constexpr const char* kWouldDeny = "would_deny rule=trial limit=none reason=never";

TEST(SessionDenials, NameTheLimitWithTheLongestWait) {
  const Attributes order{{"path", "/order"}, {"header.x-user", "u1"}};
  EXPECT_EQ(denials_of([&](Session& session) {
              session.decide({order});
              session.decide({order});
            }),
            (Lines{kWouldDeny,
                   "denied rule=order limit=user key=u1 reason=limited retry_after_ms=2000"}));
}

TEST(SessionDenials, TakeNeverForTheLongestWait) {
  const Attributes banned{{"path", "/banned"}};
  EXPECT_EQ(denials_of([&](Session& session) { session.decide({banned}); }),
            Lines{"denied rule=banned limit=never reason=never"});
}

TEST(SessionDenials, OfShadowRulesSayThatTheyWouldDeny) {
  EXPECT_EQ(denials_of([](Session& session) { session.decide({Attributes{{"path", "/other"}}}); }),
            Lines{kWouldDeny});
}

TEST(SessionDenials, NameTheLimitWhoseAttributeIsMissing) {
  EXPECT_EQ(
      denials_of([](Session& session) { session.decide({Attributes{{"path", "/insists"}}}); }),
      Lines{"denied rule=insists limit=user reason=missing"});
}

TEST(SessionDenials, OfSeveralPartsAreAboutTheOneThatIsDenied) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736", span = "00f067aa0ba902b7";
  const Attributes allowed{{"path", "/api"}, {"ip", "192.0.2.1"}};
  const Attributes closed{{"path", "/closed"}, {"ip", "192.0.2.2"}};
  const Attributes banned{{"path", "/banned"}, {"traceparent", "00-" + trace + "-" + span + "-01"}};
  const Attributes without_ip{{"path", "/closed"}};
  const auto denial_of = [](const Attributes& first, const Attributes& second) {
    return denials_of([&](Session& session) {
      const RequestPart parts[] = {{&first}, {&second}};
      session.decide_parts("default", parts);
    });
  };
  EXPECT_EQ(denial_of(allowed, closed), Lines{"denied rule=closed key=192.0.2.2 reason=deny_rule"});
  EXPECT_EQ(
      denial_of(allowed, banned),
      Lines{"denied rule=banned limit=never reason=never trace_id=" + trace + " span_id=" + span});
  EXPECT_EQ(denial_of(allowed, without_ip),
            Lines{"denied rule=closed key=192.0.2.1 reason=deny_rule"})
      << "all parts are one request";
}

TEST(SessionDenials, OfALimitOfTheRequestHaveItsKey) {
  const Charge charge{"a key", gcra(1).per(1s)};
  EXPECT_EQ(denials_of([&](Session& session) {
              EXPECT_TRUE(session.decide(charge));
              EXPECT_FALSE(session.decide(charge, Verb::kPeek));
              EXPECT_FALSE(session.decide(charge));
            }),
            Lines{"denied key=\"a key\" reason=limited retry_after_ms=1000"});
}

TEST(SessionDenials, ReportAKeyNearItsLimitOncePerWindow) {
  testing::ManualClock clock;
  std::string metrics;
  const auto use = [&](Session& session) {
    const auto ask = [&](std::string_view ip, std::uint64_t units, Action action = Verb::kTake) {
      session.decide({Attributes{{"path", "/api"}, {"ip", ip}}, units, action});
    };
    ask("a", 7);
    ask("a", 2, Verb::kPeek);
    clock.advance(20s);
    for (int i = 0; i < 3; ++i) ask("a", 1);
    ask("b", 9);
    clock.advance(40s);
    ask("a", 7);
    ask("a", 1);
  };
  Lines found = denials_of(use, clock, &metrics);
  std::erase(found, kWouldDeny);
  EXPECT_EQ(found,
            (Lines{"near rule=api limit=user key=a capacity=10 remaining=2 reset_after_ms=40000",
                   "near rule=api limit=user key=b capacity=10 remaining=1 reset_after_ms=60000",
                   "near rule=api limit=user key=a capacity=10 remaining=2 reset_after_ms=60000"}));
  EXPECT_NE(metrics.find("sluice_near_keys_total{rule=\"api\",limit=\"user\"} 3\n"),
            std::string::npos);
}

TEST(SessionMetrics, CountTheNewCountersThatReportsAndSettlementsAreRefused) {
  const testing::ManualClock clock;
  MemoryStore store{{}, clock};
  Limiter limiter{store};
  TestFolder folder;
  constexpr std::string_view kNew = R"(version: 1
rules:
  - name: work
    match: { path: /work }
    max_new_keys: 1
    limits: [ { name: tokens, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h } ]
  - name: login
    max_new_keys: 1
    limits: [ { name: failures, key: "{ip}", algorithm: fixed_window, limit: 9, per: 1h,
                count: { on: 401 } } ]
)";
  const auto manager = RulesManager::open({folder.write("rules.yaml", kNew)}).value();
  metrics::Registry registry;
  TestingPipe pipe;
  Log log({}, pipe.writing());
  DenialLog denials(log, clock);
  Session session({limiter, *manager, registry.make_recorder(), denials});
  const Attributes response{{"status", "401"}};
  const RequestCosts actual{3};
  for (const char* ip : {"a", "b", "c"}) {
    session.decide({.attributes = Attributes{{"path", "/"}, {"ip", ip}}, .response = &response});
    session.decide({.attributes = Attributes{{"ip", ip}}, .rule = "work", .actual = &actual});
  }
  session.decide({.attributes = Attributes{{"ip", "d"}}, .rule = "login", .response = &response});
  session.decide({.attributes = Attributes{{"path", "/work"}, {"ip", "d"}}, .actual = &actual});
  const std::string text = registry.text();
  for (const std::string_view line : {
           R"(sluice_new_counters_refused_total{rule="login",limit="failures"} 3)",
           R"(sluice_new_counters_refused_total{rule="work",limit="tokens"} 3)",
           R"(sluice_requests_total{rule="login",outcome="allowed",reason="ok"} 0)",
           R"(sluice_decisions_total{rule="work",limit="tokens",outcome="allowed",reason="ok"} 0)",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  }
}

TEST(SessionPermits, AreForRequestsThatHandThemOut) {
  testing::ManualClock clock;
  MemoryStore store{{}, clock};
  Limiter limiter{store};
  TestFolder folder;
  const auto manager =
      RulesManager::open({folder.write("rules.yaml",
                                       "version: 1\nrules:\n  - name: jobs\n    limits: "
                                       "[ { algorithm: concurrency, limit: 1, lease: 9s } ]\n")})
          .value();
  metrics::Registry registry;
  TestingPipe pipe;
  Log log({}, pipe.writing());
  DenialLog denials(log, clock);
  Session session({limiter, *manager, registry.make_recorder(), denials});
  const Attributes request;
  const SessionRequest hands_out{.attributes = request, .hands_out_permit = true};
  EXPECT_EQ(session.decide({request})->decision.reason, Reason::kInvalid);
  EXPECT_EQ(session.decide({.attributes = request, .rule = "jobs"})->decision.reason,
            Reason::kInvalid);
  EXPECT_EQ(session.decide({.attributes = request, .rule = "none"}), nullptr);
  const std::string permit = session.decide(hands_out)->permit;
  EXPECT_FALSE(permit.empty());
  EXPECT_EQ(session.decide({request})->decision.reason, Reason::kInvalid);
  EXPECT_EQ(session.decide({.attributes = request, .rule = "jobs", .hands_out_permit = true})
                ->decision.reason,
            Reason::kLimited);
  EXPECT_TRUE(session.extend(permit));
  EXPECT_TRUE(session.release(permit));
  EXPECT_EQ(session.release(permit).reason, Reason::kGone);
  const RequestPart part{&request};
  EXPECT_EQ(session.decide_parts("default", {&part, 1}).decision.reason, Reason::kInvalid);
}

}  // namespace
}  // namespace sluice::server
