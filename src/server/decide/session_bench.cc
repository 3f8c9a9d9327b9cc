#include "server/decide/session.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include "sluice/memory_store.h"

namespace sluice::server {
namespace {

// What recording costs a decision: of 1000 clients, none, a hundredth or all are recorded
// (argument: percent). Bias: the calling thread alone; the writer's thread writes to the disk
// meanwhile, and drops what is too much for it.
void decide_and_record(benchmark::State& state) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string rules = folder / "session_bench.yaml";
  std::ofstream(rules) << "version: 1\nrules:\n  - name: api\n    match: { path: /api/** }\n"
                          "    limits:\n      - { key: \"{header.x-user|ip}\", algorithm: gcra, "
                          "limit: 1000000, per: 1s }\n";
  const auto manager = RulesManager::open({rules}).value();
  MemoryStore store;
  Limiter limiter{store};
  metrics::Registry registry;
  static const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  Log log({}, nowhere);
  DenialLog denials(log);
  TrafficOptions options;
  options.file = folder / "session_bench.jsonl";
  options.share = static_cast<std::uint32_t>(state.range(0));
  options.max_bytes = 16 << 20;
  const auto traffic = TrafficLog::open(options, log).value();
  TrafficRecorder recorder(*traffic, denials, false);
  Session session({limiter,
                   *manager,
                   registry.make_recorder(),
                   denials,
                   {},
                   options.share == 0 ? nullptr : &recorder});
  std::array<Attributes, 1000> clients;
  for (std::size_t i = 0; i < clients.size(); ++i) {
    clients[i] = Attributes{{"method", "GET"},
                            {"path", "/api/orders/17"},
                            {"host", "api.example.com"},
                            {"ip", "192.0.2." + std::to_string(i)},
                            {"header.x-user", "user-" + std::to_string(i)}};
  }
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(&session.decide({clients[i]})->decision);
    i = i + 1 == clients.size() ? 0 : i + 1;
  }
  const auto stats = traffic->stats();
  state.counters["dropped"] = static_cast<double>(stats.dropped);
}
BENCHMARK(decide_and_record)->Arg(0)->Arg(1)->Arg(100);

}  // namespace
}  // namespace sluice::server
