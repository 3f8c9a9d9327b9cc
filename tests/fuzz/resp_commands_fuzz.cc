// Commands of arbitrary words to the RESP front end: each gets exactly one whole reply.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/resp/command_handler.h"
#include "server/protocol/resp/request_reader.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace {

using namespace sluice;          // NOLINT(google-build-using-namespace)
using namespace sluice::server;  // NOLINT(google-build-using-namespace)

constexpr std::string_view kRules = R"(version: 1
rules:
  - name: login
    match: { path: /login }
    limits: [ { name: ip, key: "{ip}", algorithm: fixed_window, limit: 2, per: 60s } ]
  - name: models
    match: { path: /chat }
    limits:
      - { name: requests, algorithm: gcra, limit: 2, per: 60s, cost: 1 }
      - { name: tokens, algorithm: token_bucket, limit: 900, per: 60s, cost: "{tokens|5}" }
)";

void require(bool holds) {
  if (!holds) std::abort();
}

// Returns the end of the reply that begins at `at`.
std::size_t skip(std::string_view reply, std::size_t at) {
  const std::size_t end = reply.find("\r\n", at);
  require(end != reply.npos && end > at);
  const long count = std::atol(std::string(reply.substr(at + 1, end - at - 1)).c_str());
  std::size_t next = end + 2;
  switch (reply[at]) {
    case '+':
    case '-':
    case ':':
    case '_': return next;
    case '$':
    case '=': return count < 0 ? next : next + static_cast<std::size_t>(count) + 2;
    case '%':
    case '*':
    case '~': break;
    default: std::abort();
  }
  for (long i = 0; i < count * (reply[at] == '%' ? 2 : 1); ++i) next = skip(reply, next);
  return next;
}

struct World {
  World() {
    const auto file = std::filesystem::temp_directory_path() / "sluice_resp_commands_fuzz.yaml";
    std::ofstream(file) << kRules;
    manager = RulesManager::open({file.string()}).value();
  }

  sluice::testing::ManualClock clock;
  MemoryStore store{{.max_keys = 1024}, clock};
  Limiter limiter{store};
  std::unique_ptr<RulesManager> manager;
  metrics::Registry registry;
  Log log{{.level = LogLevel::kOff}};
  DenialLog denials{log};
  metrics::Recorder& recorder = registry.make_recorder();
  std::atomic<std::size_t> connections{1};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  static const resp::Users users({{"default", Role::kCheck, "secret"}});
  static const resp::Users nobody;
  if (size == 0) return 0;
  const resp::Users& known = data[0] % 4 == 0 ? users : nobody;
  resp::CommandHandler handler({{world.limiter, *world.manager, world.recorder, world.denials},
                                known,
                                net::LoopClock::system(),
                                "0.1.0",
                                std::chrono::steady_clock::now(),
                                world.connections});
  resp::Client client;
  client.id = 1;
  client.peer = "p";
  client.role = known.at_first();
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  resp::RequestReader reader(1 << 16, 100);
  while (reader.read(input, client.role != Role::kNobody) ==
         resp::RequestReader::Progress::kReady) {
    reader.arguments(input, handler.request);
    handler.output.clear();
    if (!handler.request.empty()) {
      handler.answer(client);
      require(skip(handler.output.view(), 0) == handler.output.size());
    }
    input.remove_prefix(reader.size());
    reader.next();
    world.clock.advance(Duration{777'777});
  }
  return 0;
}
