#include "base/civil_time.h"
#include "base/json_writer.h"
#include "server/api/admin/test_endpoint.h"
#include "sluice/attributes.h"
#include "sluice/rule_decider.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRules = R"(version: 1
domain: shop
rules:
  - name: login
    limits:
      - { name: address, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1m,
          block: { after: 1, within: 10m, for: 15m } }
  - name: plain
    limits: [ { name: all, algorithm: fixed_window, limit: 1, per: 1m } ]
  - name: two
    limits:
      - { name: a, key: "{ip}", algorithm: gcra, limit: 1, per: 1m,
          block: { after: 1, within: 10m, for: 15m } }
      - { name: b, algorithm: gcra, limit: 1, per: 1m, block: { after: 1, within: 10m, for: 15m } }
)";
constexpr const char* kLogin = "/v1/blocks?rule=login&ip=192.0.2.1";

class BlocksPage : public TestAdmin {
 protected:
  void SetUp() override { open({kRules}); }
  Decision ask(std::string_view rule = "login") {
    const RuleSet rules = manager_->current();
    return requests_
        .decide(rules, Attributes{{"ip", "192.0.2.1"}}, {}, {}, Verb::kTake, rules.find(rule))
        .decision;
  }
  std::string refused(std::string_view method, const std::string& target, int status) {
    const Answered answered = call(method, target);
    EXPECT_EQ(answered.status, status) << answered.body;
    return answered.detail();
  }

  RuleDecider requests_{limiter_};
};

TEST_F(BlocksPage, BlocksAndUnblocksAKey) {
  const std::string counter = R"({"rule":"login","limits":[{"name":"address","key":"192.0.2.1",)"
                              R"("counter":"shop|login|address|ip=192.0.2.1",)";
  EXPECT_EQ(get(kLogin).body, counter + "\"blocked\":false}]}\n");
  EXPECT_EQ(call("PUT", std::string(kLogin) + "&for=1h").body,
            counter + "\"blocked\":true,\"blocked_for_ms\":3600000}]}\n");
  EXPECT_EQ(ask().reason, Reason::kBlocked);
  EXPECT_EQ(ask().retry_after, std::chrono::hours{1});
  EXPECT_EQ(call("DELETE", kLogin).body, counter + "\"blocked\":false}]}\n");
  EXPECT_TRUE(ask());
  EXPECT_EQ(done_, (std::vector<std::string>{
                       "key blocked: shop|login|address|ip=192.0.2.1 by 127.0.0.1",
                       "key unblocked: shop|login|address|ip=192.0.2.1 by 127.0.0.1"}));
}

TEST_F(BlocksPage, WritesBytesOfCountersThatAreNotUtf8AsEscapes) {
  const Answered answered = call("PUT", "/v1/blocks?rule=login&ip=%FF%00a&for=1h");
  EXPECT_EQ(answered.json().at("limits").at(0).at("counter"), "shop|login|address|ip=%FF%00a");
  EXPECT_EQ(get("/v1/keys?rule=login&ip=%FF%00a").json().at("limits").at(0).at("counter"),
            "shop|login|address|ip=%FF%00a");
}

// A store that blocks, and then cannot say the state.
class SilentStore final : public Store {
 public:
  Decision apply(Action action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    const Decision said =
        action.verb == Verb::kPeek ? Decision::refused(Reason::kStoreError) : Decision{};
    for (Decision& one : each) one = said;
    return said;
  }
};

TEST_F(BlocksPage, SaysThatAKeyIsBlockedIfItsStateCannotBeRead) {
  SilentStore silent;
  limiter_ = Limiter(silent);
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&for=1h", 503),
            "the store could not answer for the limit 'address', which is changed: store_error");
  EXPECT_EQ(refused("GET", kLogin, 503),
            "the store could not answer for the limit 'address': store_error");
}

TEST_F(BlocksPage, SaysThatNothingIsChangedWhileRedisIsAway) {
  class Away final : public Store {
    Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                   std::span<Decision> each) noexcept override {
      for (Decision& one : each) one = Decision::refused(Reason::kStoreError);
      return Decision::refused(Reason::kStoreError);
    }
  };
  Away away;
  limiter_ = Limiter(away);
  status_.store.failing_since = SystemClock().now();
  status_.store.why_failing = "Redis at a:1 refuses connections";
  const std::string why = " of the limit 'address': Redis at a:1 refuses connections";
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&for=1h", 503),
            "Redis cannot be reached, and nothing is changed" + why);
  EXPECT_EQ(refused("DELETE", kLogin, 503),
            "Redis cannot be reached, and nothing is changed" + why);
  EXPECT_EQ(refused("GET", kLogin, 503), "Redis cannot be reached, so nothing is known" + why);
}

TEST_F(BlocksPage, BlocksAKeyUntilAnInstant) {
  const auto then = std::chrono::floor<std::chrono::seconds>(SystemClock().now()) + 2h;
  base::JsonWriter json;
  const std::string text(json.value(Instant{then}).view());
  const auto answered =
      call("PUT", std::string(kLogin) + "&until=" + text.substr(1, text.size() - 2));
  ASSERT_EQ(answered.status, 200) << answered.body;
  ASSERT_TRUE(ask().retry_after);
  EXPECT_LE(*ask().retry_after, 2h);
  EXPECT_GT(*ask().retry_after, 1h);
}

TEST_F(BlocksPage, ListsTheBlocksThatHold) {
  EXPECT_EQ(get("/v1/blocks").body, "{\"blocks\":[],\"more\":false}\n");
  ASSERT_EQ(call("PUT", std::string(kLogin) + "&for=1h").status, 200);
  ASSERT_EQ(call("PUT", "/v1/blocks?rule=two&limit=a&for=1m&ip=192.0.2.1").status, 200);
  const boost::json::value all = get("/v1/blocks").json();
  ASSERT_EQ(all.at("blocks").as_array().size(), 2U);
  EXPECT_EQ(all.at("more"), false);
  EXPECT_EQ(get("/v1/blocks?count=1").json().at("blocks").as_array().size(), 1U);
  EXPECT_EQ(get("/v1/blocks?count=1").json().at("more"), true);
  ASSERT_EQ(call("DELETE", kLogin).status, 200);
  const boost::json::value rest = get("/v1/blocks").json().at("blocks");
  ASSERT_EQ(rest.as_array().size(), 1U);
  EXPECT_EQ(rest.at(0).at("counter"), "shop|two|a|ip=192.0.2.1");
  base::JsonWriter until;
  EXPECT_EQ(rest.at(0).at("until"), boost::json::parse(until.value(clock_.now() + 1min).view()));
}

TEST_F(BlocksPage, ABlockOfALimitThatBlocksNoMoreHasNoEffectAndCanBeEnded) {
  ASSERT_EQ(call("PUT", std::string(kLogin) + "&for=1h").status, 200);
  const auto is_effective = [&] {
    const auto block = get("/v1/blocks").json().at("blocks").at(0).as_object();
    EXPECT_EQ(block.at("counter"), "shop|login|address|ip=192.0.2.1");
    return !block.contains("effective");
  };
  EXPECT_TRUE(is_effective());
  std::string other = kRules;
  other.replace(other.find("domain: shop"), 12, "domain: mall");
  ASSERT_EQ(put(other).status, 200);
  EXPECT_FALSE(is_effective());
  std::string without = kRules;
  const std::size_t begin = without.find(",\n          block:");
  without.erase(begin, without.find("for: 15m }", begin) + 10 - begin);
  ASSERT_EQ(put(without).status, 200);
  EXPECT_FALSE(is_effective());
  EXPECT_TRUE(ask());
  EXPECT_EQ(call("DELETE", kLogin).json().at("limits").at(0).at("blocked"), false);
  ASSERT_EQ(put(kRules).status, 200);
  EXPECT_EQ(get("/v1/blocks").body, "{\"blocks\":[],\"more\":false}\n");
}

TEST_F(BlocksPage, ShowsABlockThatDenialsHaveStarted) {
  ask();
  EXPECT_EQ(ask().reason, Reason::kBlocked);
  const boost::json::value limit = get(kLogin).json().at("limits").at(0);
  EXPECT_EQ(limit.at("blocked"), true);
  EXPECT_EQ(get("/v1/keys?rule=login&ip=192.0.2.1").json().at("limits").at(0).at("blocked_for_ms"),
            900'000);
}

TEST_F(BlocksPage, SaysThatAShadowRuleDeniesNothing) {
  EXPECT_FALSE(get(kLogin).json().as_object().contains("mode"));
  std::string shadow = kRules;
  shadow.replace(shadow.find("name: login"), 11, "name: login\n    mode: shadow");
  open({shadow});
  EXPECT_EQ(call("PUT", std::string(kLogin) + "&for=1h").json().at("mode"), "shadow");
  EXPECT_EQ(get("/v1/keys?rule=login&ip=192.0.2.1").json().at("mode"), "shadow");
}

TEST_F(BlocksPage, ShowsTheBlockOfALimitThatIsNow0) {
  ask();
  EXPECT_EQ(ask().reason, Reason::kBlocked);
  std::string rules = kRules;
  rules.replace(rules.find("limit: 1,"), 9, "limit: 0,");
  open({rules});
  EXPECT_EQ(get(kLogin).json().at("limits").at(0).at("blocked"), true);
  constexpr const char* kKey = "/v1/keys?rule=login&ip=192.0.2.1";
  const boost::json::value limit = get(kKey).json().at("limits").at(0);
  EXPECT_EQ(limit.at("limit"), 0);
  EXPECT_EQ(limit.at("blocked_for_ms"), 900'000);
  EXPECT_EQ(call("DELETE", kLogin).json().at("limits").at(0).at("blocked"), false);
  const boost::json::value ended = get(kKey).json().at("limits").at(0);
  EXPECT_FALSE(ended.as_object().contains("blocked_for_ms"));
  EXPECT_FALSE(ended.as_object().contains("retry_after_ms")) << "no request passes";
}

TEST_F(BlocksPage, UnblocksAKeyWhoseCounterIsReset) {
  ask();
  ask();
  EXPECT_EQ(call("DELETE", "/v1/keys?rule=login&ip=192.0.2.1").status, 200);
  EXPECT_TRUE(ask());
}

TEST_F(BlocksPage, RefusesWhatItCannotBlock) {
  const std::string which =
      "expected one of 'for' and 'until': how long to block, such as &for=15m, or "
      "&until=2027-10-01T00:00:00Z";
  EXPECT_EQ(refused("PUT", kLogin, 400), which);
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&for=1m&until=2100-01-01T00:00:00Z", 400), which);
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&until=2001-01-01T00:00:00Z", 400),
            "'until': '2001-01-01T00:00:00Z' is in the past; expected an instant in the future");
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&until=tomorrow", 400),
            "'until': 'tomorrow' is no instant; expected one such as 2027-10-01T00:00:00Z");
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&until=2200-01-01T00:00:00Z", 400),
            "'until': '2200-01-01T00:00:00Z' is out of range; expected an instant from 1970 to "
            "2112");
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&for=367d", 400),
            "'for': '367d' is out of range; expected 1ms to 366d, or forever");
  EXPECT_EQ(refused("PUT", std::string(kLogin) + "&for=soon", 400),
            "'for': 'soon' is not a period; expected a whole number and its unit (ms, s, m, h or "
            "d), such "
            "as 60s");
  EXPECT_EQ(refused("PUT", "/v1/blocks?rule=plain&for=1m", 404),
            "the limit 'all' has no block, and this server has no overrides; expected a limit with "
            "'block:' in the rules");
  EXPECT_EQ(
      refused("PUT", "/v1/blocks?rule=login&for=1m", 400),
      "nothing to block: the key of the limit 'address' lacks ip; expected these attributes too");
  EXPECT_EQ(
      refused("PUT", "/v1/blocks?rule=two&for=1m&ip=192.0.2.1", 400),
      "rule 'two' has several limits; expected limit=NAME (two/NAME on the command line), one "
      "of: a, b; or limit=* for all that read these attributes");
  EXPECT_EQ(refused("GET", "/v1/blocks?count=7x", 400),
            "'count' is '7x'; expected a whole number from 1 to 10000");
  EXPECT_EQ(refused("DELETE", "/v1/blocks?rule=none", 404),
            "there is no rule 'none'; expected one of: login, plain, two");
  EXPECT_TRUE(done_.empty());
}

TEST_F(BlocksPage, BlocksAKeyOfALimitWithoutABlockByAnOverride) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  constexpr const char* kPlain = "/v1/blocks?rule=plain";
  constexpr const char* kCounter = "shop|plain|all";
  const auto limit = [](const Answered& answered) {
    EXPECT_EQ(answered.status, 200) << answered.body;
    return answered.json().at("limits").at(0).as_object();
  };
  ASSERT_TRUE(overrides_->set(kCounter, {.limit = 7}));
  const auto started = limit(call("PUT", std::string(kPlain) + "&for=15m"));
  EXPECT_EQ(started.at("blocked"), true);
  EXPECT_GT(started.at("blocked_for_ms").as_int64(), 0);
  EXPECT_LE(started.at("blocked_for_ms").as_int64(), 900'000);
  EXPECT_EQ(started.at("replaced").at("limit"), 7);
  EXPECT_EQ(overrides_->all().find(kCounter)->kind, Override::Kind::kBlocked);
  EXPECT_EQ(limit(get(kPlain)).at("blocked"), true);
  EXPECT_EQ(get("/v1/blocks").json().at("note"),
            "without blocks by an override, which GET /v1/overrides lists");
  EXPECT_EQ(limit(call("DELETE", kPlain)).at("blocked"), false);
  EXPECT_FALSE(overrides_->all().find(kCounter));
}

TEST_F(BlocksPage, BlocksAKeyForYears) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  for (const char* target : {"/v1/blocks?rule=plain&limit=all", kLogin}) {
    EXPECT_EQ(call("PUT", std::string(target) + "&until=2100-01-01T00:00:00Z").status, 200);
    const auto limit = get(target).json().at("limits").at(0);
    EXPECT_EQ(limit.at("blocked"), true);
    EXPECT_GT(limit.at("blocked_for_ms").as_int64(), 1LL << 40);
  }
}

TEST_F(BlocksPage, ReplacesABlockThatLastsLonger) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  constexpr const char* kCounter = "shop|login|address|ip=192.0.2.1";
  ASSERT_EQ(call("PUT", std::string(kLogin) + "&for=forever").status, 200);
  const auto shown = get(kLogin).json().at("limits").at(0).as_object();
  EXPECT_EQ(shown.at("blocked"), true);
  EXPECT_FALSE(shown.contains("blocked_for_ms")) << "it has no end";
  ASSERT_TRUE(overrides_->all().find(kCounter));
  EXPECT_FALSE(overrides_->all().find(kCounter)->until);
  const auto answered = call("PUT", std::string(kLogin) + "&for=1m").json().at("limits").at(0);
  EXPECT_EQ(answered.at("blocked_for_ms"), 60'000);
  EXPECT_FALSE(overrides_->all().find(kCounter));
  ASSERT_TRUE(overrides_->set(kCounter, {.kind = Override::Kind::kUnlimited}));
  ASSERT_EQ(call("PUT", std::string(kLogin) + "&for=1m").status, 200);
  EXPECT_TRUE(overrides_->all().find(kCounter)) << "it is no block";
}

TEST_F(BlocksPage, BlocksAllLimitsOfARuleForClientsForever) {
  const std::string target = "/v1/blocks?rule=two&limit=*&ip=192.0.2.1&for=forever";
  EXPECT_EQ(refused("PUT", target, 404),
            "this server has no overrides, which such a long block needs; expected one of at most "
            "366d");
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  EXPECT_EQ(call("PUT", target).status, 200);
  const auto found = overrides_->all().find("shop|two|a|ip=192.0.2.1");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, Override{.kind = Override::Kind::kBlocked});
  EXPECT_EQ(overrides_->all().size(), 1U) << "not the limit for all requests";
}

TEST_F(BlocksPage, BlocksUntilExactlyTheInstant) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  constexpr const char* kUntil = "2100-01-01T00:00:00Z";
  ASSERT_EQ(call("PUT", std::string("/v1/blocks?rule=plain&until=") + kUntil).status, 200);
  ASSERT_TRUE(overrides_->all().find("shop|plain|all"));
  EXPECT_EQ(overrides_->all().find("shop|plain|all")->until, *base::parse_rfc3339(kUntil));
}

TEST_F(BlocksPage, EndsABlockByAnOverrideOfALimitWithABlockToo) {
  overrides_ = std::move(ServerOverrides::open("").value());
  reopen();
  constexpr const char* kCounter = "shop|login|address|ip=192.0.2.1";
  ASSERT_TRUE(overrides_->set(kCounter, {.kind = Override::Kind::kBlocked}));
  const auto shown = get(kLogin).json().at("limits").at(0).as_object();
  EXPECT_EQ(shown.at("blocked"), true);
  EXPECT_FALSE(shown.contains("blocked_for_ms")) << "it has no end";
  EXPECT_EQ(call("DELETE", kLogin).json().at("limits").at(0).at("blocked"), false);
  EXPECT_FALSE(overrides_->all().find(kCounter));
  ASSERT_TRUE(overrides_->set(kCounter, {.limit = 3}));
  EXPECT_EQ(call("DELETE", kLogin).status, 200);
  EXPECT_TRUE(overrides_->all().find(kCounter)) << "it blocks nobody";
}

TEST_F(BlocksPage, BlocksOneLimitOfSeveral) {
  EXPECT_EQ(call("PUT", "/v1/blocks?rule=two&limit=a&for=1m&ip=192.0.2.1").status, 200);
  const boost::json::value limits = get("/v1/blocks?rule=two&ip=192.0.2.1").json().at("limits");
  EXPECT_EQ(limits.at(0).at("blocked"), true);
  EXPECT_EQ(limits.at(1).at("blocked"), false);
}

}  // namespace
}  // namespace sluice::server
