#include "server/decide/session.h"

#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "sluice/memory_store.h"

namespace sluice::server {
namespace {

// Parts of a session with one rule, and requests of 1000 clients.
struct Requests {
  Requests() {
    std::ofstream(rules) << "version: 1\nrules:\n  - name: api\n    match: { path: /api/** }\n"
                            "    limits:\n      - { key: \"{header.x-user|ip}\", algorithm: gcra, "
                            "limit: 1000000, per: 1s }\n";
    manager = RulesManager::open({rules}).value();
    for (std::size_t i = 0; i < clients.size(); ++i) {
      clients[i] = Attributes{{"method", "GET"},
                              {"path", "/api/orders/17"},
                              {"host", "api.example.com"},
                              {"ip", "192.0.2." + std::to_string(i)},
                              {"header.x-user", "user-" + std::to_string(i)}};
    }
  }
  Session::Parts parts() { return {limiter, *manager, registry.make_recorder(), denials}; }
  // Decides a request of each client in turn, and calls `between` after each round.
  template <typename Between>
  void decide(Session& session, benchmark::State& state, const Between& between) {
    std::size_t i = 0;
    for (auto _ : state) {
      benchmark::DoNotOptimize(&session.decide({clients[i]})->decision);
      if (++i < clients.size()) continue;
      i = 0;
      state.PauseTiming();
      between();
      state.ResumeTiming();
    }
  }

  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string rules = folder / "session_bench.yaml";
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  std::unique_ptr<RulesManager> manager;
  MemoryStore store;
  Limiter limiter{store};
  metrics::Registry registry;
  Log log{{}, nowhere};
  DenialLog denials{log};
  std::array<Attributes, 1000> clients;
};

// What recording costs a decision: of 1000 clients, none, a hundredth or all are recorded
// (argument: percent). Bias: the calling thread alone; the writer's thread writes to the disk
// meanwhile, and drops what is too much for it.
void decide_and_record(benchmark::State& state) {
  Requests requests;
  TrafficOptions options;
  options.file = requests.folder / "session_bench.jsonl";
  options.share = static_cast<std::uint32_t>(state.range(0));
  options.max_bytes = 16 << 20;
  const auto traffic = TrafficLog::open(options, requests.log).value();
  TrafficRecorder recorder(*traffic, requests.denials, false);
  Session::Parts parts = requests.parts();
  if (options.share > 0) parts.traffic = &recorder;
  Session session(parts);
  requests.decide(session, state, [] {});
  const auto stats = traffic->stats();
  state.counters["dropped"] = static_cast<double>(stats.dropped);
}
BENCHMARK(decide_and_record)->Arg(0)->Arg(1)->Arg(100);

// What spans cost a decision: without a receiver (-1), or of the decisions none, a hundredth or all
// have one (argument: percent). The receiver accepts everything; building and sending messages is
// not measured, because the exporter's thread does it.
void decide_with_spans(benchmark::State& state) {
  Requests requests;
  const double share = static_cast<double>(state.range(0)) / 100;
  OtlpExporter exporter(
      {.endpoint = "http://127.0.0.1:4318", .service_name = "", .sample = share},
      {.metrics = requests.registry,
       .log = requests.log,
       .shown_key = [&](std::string_view key) { return requests.denials.shown_key(key); },
       .post = [](auto, auto) { return net::HttpClient::Answer{200, ""}; }});
  Session::Parts parts = requests.parts();
  if (share >= 0) parts.otlp = &exporter;
  Session session(parts);
  requests.decide(session, state, [&] { exporter.send(); });
  state.counters["dropped"] = static_cast<double>(exporter.stats().dropped);
}
BENCHMARK(decide_with_spans)->Arg(-1)->Arg(0)->Arg(1)->Arg(100);

}  // namespace
}  // namespace sluice::server
