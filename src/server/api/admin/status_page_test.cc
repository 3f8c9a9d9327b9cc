#include "server/api/admin/status_page.h"

#include "server/api/admin/test_endpoint.h"

namespace sluice::server {
namespace {

class StatusPage : public TestAdmin {};

TEST_F(StatusPage, ReportsTheServerAndItsRules) {
  clock_.set(Instant{std::chrono::seconds{1'700'000'000}});
  open({rules_named("r")});
  status_ = {.version = "1.2.3",
             .uptime = std::chrono::seconds{7},
             .ready = true,
             .draining = false,
             .threads = 2,
             .listeners = {{"http", "127.0.0.1:8080", 3, 10}},
             .store = {.kind = "memory", .numbers = {{"keys", 12}, {"evictions", 0}}}};
  const Answered answered = get("/v1/status");
  EXPECT_EQ(answered.status, 200);
  EXPECT_EQ(answered.type, "application/json");
  EXPECT_EQ(
      answered.body,
      R"({"version":"1.2.3","uptime_s":7,"ready":true,"draining":false,"threads":2,)"
      R"("listeners":[{"name":"http","address":"127.0.0.1:8080","connections":3,"max":10}],)"
      R"("store":{"kind":"memory","keys":12,"evictions":0},)"
      R"("rules":{"version":1,"sources":[")" +
          folder_ / "0.yaml" +
          R"("],"loaded_at":"2023-11-14T22:13:20.000000Z","by":"the start","rules":1,"limits":1,)"
          R"("warnings":0,"reloads":0,"failures":0,"last_errors":[]}})"
          "\n");
}

TEST_F(StatusPage, NamesTheFirstWarnings) {
  std::string rules = "version: 1\nrules:\n";
  for (const char name : std::string("abcd")) {
    rules += std::string("  - { name: ") + name +
             ", continue: true, limits: [{ name: x, key: '{ip}', algorithm: gcra, limit: 0, "
             "per: 1s }] }\n";
  }
  open({rules});
  const auto found = get("/v1/status").json().at("rules");
  EXPECT_EQ(found.at("warnings").as_int64(), 4);
  const auto& first = found.at("first_warnings").as_array();
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first.at(0).at("what").as_string(),
            "limit 'x' of rule 'a' is 0, which denies every request");
  EXPECT_EQ(first.at(2).at("line").as_int64(), 5);
}

TEST_F(StatusPage, SaysWhatEachRuleDoesWhileTheStoreFailsOrIsFull) {
  open(
      {"version: 1\nrules:\n"
       "  - { name: api, on_store_error: allow, limits: [{ name: a, key: '{ip}', algorithm: gcra, "
       "limit: 5, per: 1s }], continue: true }\n"
       "  - { name: pay, on_store_error: deny, limits: [{ name: a, key: '{ip}', algorithm: gcra, "
       "limit: 5, per: 1s }], continue: true }\n"
       "  - { name: new, on_store_error: deny, mode: shadow, limits: [{ name: a, key: '{ip}', "
       "algorithm: gcra, limit: 5, per: 1s }], continue: true }\n"
       "  - { name: login, on_store_error: local, limits: [{ name: a, key: '{ip}', algorithm: "
       "gcra, limit: 5, per: 1s }] }\n"});
  EXPECT_FALSE(get("/v1/status").json().as_object().contains("outage"));
  status_.store = {.kind = "redis",
                   .failing_since = Instant{std::chrono::seconds{1'700'000'000}},
                   .why_failing = "Redis at a:1 refuses connections"};
  const Answered answered = get("/v1/status");
  EXPECT_NE(
      answered.body.find(R"("outage":{"since":"2023-11-14T22:13:20Z","why":"Redis at a:1 refuses )"
                         R"(connections","rules":[{"name":"api","does":"allow"},)"
                         R"({"name":"pay","does":"deny"},{"name":"new","does":"allow"},)"
                         R"({"name":"login","does":"local"}]})"),
      std::string::npos)
      << answered.body;
  EXPECT_FALSE(answered.json().as_object().contains("last_outage"));
  const auto does = answered.json().at("outage").at("rules");
  status_.store = {.kind = "redis",
                   .address = "redis://a:1",
                   .slow_since = Instant{std::chrono::seconds{1'700'000'000}},
                   .why_slow = "4 % of the requests take longer",
                   .full_since = Instant{std::chrono::seconds{1'700'000'000}},
                   .last_outage = PastOutage{Instant{std::chrono::seconds{1'600'000'000}},
                                             Instant{std::chrono::milliseconds{1'600'000'011'500}},
                                             "it was gone"}};
  const auto full = get("/v1/status").json();
  EXPECT_FALSE(full.as_object().contains("outage"));
  EXPECT_EQ(full.at("full").at("rules"), does);
  EXPECT_EQ(full.at("slow").at("rules"), does);
  EXPECT_EQ(boost::json::serialize(full.at("last_outage")),
            R"({"from":"2020-09-13T12:26:40Z","to":"2020-09-13T12:26:51Z","seconds":12,)"
            R"("why":"it was gone"})");
  EXPECT_EQ(full.at("full").at("why"),
            "redis://a:1 has refused new counters within the last minute: its memory is full");
}

TEST_F(StatusPage, CountsTheLostOverridesThatAreMissing) {
  using namespace std::chrono_literals;
  Overrides all;
  OverridesLost lost;
  const Instant at{1'700'000'000s};
  const auto entry = [&](const char* counter, std::optional<Instant> until) {
    Override given{.limit = 1};
    given.until = until;
    return Overrides::Page::Entry{counter, given};
  };
  const std::vector<Overrides::Page::Entry> entries = {entry("a", {}), entry("b", at + 40s),
                                                       entry("c", at + 2h)};
  EXPECT_EQ(lost.update(all, at), 0U);
  lost.add(entries, at);
  lost.add(entries, at);
  EXPECT_EQ(lost.update(all, at), 3U) << "each once";
  EXPECT_EQ(lost.first(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(lost.update(all, at + 40s), 2U) << "one would have ended";
  ASSERT_TRUE(all.set("c", entries[2].given));
  EXPECT_EQ(lost.update(all, at + 41s), 1U) << "one is set again";
  all.unset("c");
  EXPECT_EQ(lost.update(all, at + 42s), 1U) << "somebody has removed it since";
  ASSERT_TRUE(all.set("d", entries[0].given));
  EXPECT_EQ(lost.update(all, at + 43s), 1U) << "another one does not replace it";
  EXPECT_EQ(lost.missing().at("a"), entries[0].given);
  EXPECT_EQ(lost.forget("a"), entries[0].given);
  EXPECT_FALSE(lost.forget("a"));
  EXPECT_EQ(lost.update(all, at + 44s), 0U);
  lost.add(entries, at);
  EXPECT_EQ(lost.update(all, at + 1h), 0U);
}

TEST_F(StatusPage, SaysWhatEachLimitIsIfAsked) {
  open({R"(version: 1
plans:
  free: { requests: { limit: 2, per: 1h } }
  pro: { requests: { limit: 5, per: 1h } }
rules:
  - name: office
    action: allow
    match: { ip: 192.0.2.0/24 }
  - name: api
    plan: { from: "{header.x-plan}", default: free }
    limits: [ { name: requests, key: "{ip}", algorithm: fixed_window } ]
  - name: trial
    mode: shadow
    on_store_error: deny
    limits: [ { algorithm: token_bucket, limit: 120, per: 1m, burst: 60 } ]
)"});
  EXPECT_FALSE(get("/v1/status").json().as_object().contains("limits"));
  EXPECT_EQ(
      boost::json::serialize(get("/v1/status?limits=true").json().at("limits")),
      R"([{"rule":"office","action":"allow","limits":[]},)"
      R"({"rule":"api","on_store_error":"allow","limits":[{"name":"requests","key":"{ip}",)"
      R"("algorithm":"fixed_window","numbers":"free 2 per 1h; pro 5 per 1h"}]},)"
      R"({"rule":"trial","shadow":true,"on_store_error":"deny","limits":[{"name":"trial/0","key":"",)"
      R"("algorithm":"token_bucket","numbers":"120 per 1m, burst 60"}]}])");
}

TEST_F(StatusPage, ReportsEnvoysFilesIfThereAreAny) {
  open({rules_named("r")});
  status_.envoy = EnvoyStatus{.sources = {"/etc/envoy"},
                              .domains = 2,
                              .limits = 3,
                              .reloads = 1,
                              .failures = 1,
                              .last_errors = {{"/etc/envoy/a.yaml", 1, 2, "wrong", "right"}}};
  const Answered answered = get("/v1/status");
  const auto json = answered.json();
  const auto& envoy = json.at("envoy");
  EXPECT_EQ(envoy.at("sources").at(0).as_string(), "/etc/envoy");
  EXPECT_EQ(envoy.at("domains"), 2);
  EXPECT_EQ(envoy.at("limits"), 3);
  EXPECT_EQ(envoy.at("reloads"), 1);
  EXPECT_EQ(envoy.at("failures"), 1);
  EXPECT_EQ(envoy.at("last_errors").at(0).at("column"), 2);
}

TEST_F(StatusPage, ReportsWhyTheFilesWereRefusedUntilTheyAreRight) {
  open({rules_named("r")});
  folder_.write("0.yaml", "version: 9\nrules: []\n");
  EXPECT_FALSE(manager_->reload());
  auto rules = get("/v1/status").json().at("rules");
  EXPECT_EQ(rules.at("failures"), 1);
  EXPECT_EQ(rules.at("version"), 1);
  EXPECT_TRUE(rules.at("last_failure_at").is_string());
  ASSERT_EQ(rules.at("last_errors").as_array().size(), 1U);
  EXPECT_EQ(rules.at("last_errors").at(0).at("line"), 1);
  EXPECT_EQ(rules.at("last_errors").at(0).at("file").as_string(), folder_ / "0.yaml");

  folder_.write("0.yaml", rules_named("other"));
  EXPECT_TRUE(*manager_->reload());
  rules = get("/v1/status").json().at("rules");
  EXPECT_TRUE(rules.at("last_errors").as_array().empty());
  EXPECT_EQ(rules.at("failures"), 1);
  EXPECT_EQ(rules.at("reloads"), 1);
}

}  // namespace
}  // namespace sluice::server
