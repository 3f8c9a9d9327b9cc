#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/resp/command_handler.h"
#include "server/rules/test_folder.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server::resp {

inline constexpr std::string_view kTestRules = R"(version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [ { name: ip, key: "{ip}", algorithm: fixed_window, limit: 2, per: 60s } ]
  - name: trial
    match: { path: /trial }
    mode: shadow
    limits: [ { name: all, algorithm: fixed_window, limit: 1, per: 60s } ]
  - name: warns
    match: { path: /warn }
    limits: [ { name: all, algorithm: fixed_window, limit: 2, per: 60s, warn: 100% } ]
  - name: header
    match: { path: /header }
    limits: [ { name: user, key: "{header.x-user}", algorithm: gcra, limit: 5, per: 60s } ]
  - name: models
    match: { path: /chat }
    limits:
      - { name: requests, algorithm: fixed_window, limit: 10, per: 60s, cost: 1 }
      - { name: "a=b", algorithm: fixed_window, limit: 1000, per: 60s, cost: "{tokens|500}" }
  - name: failures
    match: { path: /sign-in }
    limits: [ { key: "{ip}", algorithm: fixed_window, limit: 2, per: 1h, count: { on: 401 } } ]
  - name: guess
    match: { path: /guess }
    limits:
      - { name: ip, key: "{ip}", algorithm: fixed_window, limit: 1, per: 1s,
          block: { after: 1, within: 10m, for: 15m } }
  - name: plans
    match: { path: /plans }
    limits: [ { name: each, key: "{plan}", algorithm: gcra, limit: 5, per: 60s } ]
  - name: money
    match: { path: /money }
    limits: [ { name: org, key: "{org}", algorithm: budget, limit: 100, per: never } ]
)";

// A handler with a store of its own and a clock that the test moves, or with another store.
class TestCommands {
 public:
  explicit TestCommands(
      std::vector<KnownClient> known = {},
      std::unique_ptr<ServerOverrides> own_overrides = ServerOverrides::open("").value(),
      Store* other_store = nullptr)
      : limiter(other_store != nullptr ? *other_store : store),
        overrides(std::move(own_overrides)),
        users(std::move(known)) {
    client.role = users.at_first();
    client.id = 7;
    client.peer = "127.0.0.1:1";
  }

  // Returns the reply to these words as it is sent.
  std::string ask(std::vector<std::string_view> words) {
    handler.request = std::move(words);
    handler.output.clear();
    handler.answer(client);
    return std::string(handler.output.view());
  }

  testing::ManualClock clock;
  MemoryStore store{{}, clock};
  Limiter limiter;
  TestFolder folder;
  std::unique_ptr<RulesManager> manager =
      RulesManager::open({folder.write("rules.yaml", kTestRules)}).value();
  std::unique_ptr<ServerOverrides> overrides;
  metrics::Registry registry;
  Log log{{.level = LogLevel::kOff}};
  DenialLog denials{log};
  insight::TopKeys top_keys{{}, denials.key_hash(), clock};
  insight::KeyRecorder* keys = &top_keys.make_recorder();
  std::atomic<std::size_t> connections{3};
  Users users;
  CommandHandler handler{{.session = {limiter,
                                      *manager,
                                      registry.make_recorder(),
                                      denials,
                                      {.overrides = &overrides->all()},
                                      nullptr,
                                      keys},
                          .users = users,
                          .clock = net::LoopClock::system(),
                          .version = "0.1.0",
                          .started = net::LoopClock::system().now(),
                          .connections = connections,
                          .overrides = overrides.get(),
                          .top_keys = &top_keys}};
  Client client;
};

}  // namespace sluice::server::resp
