// A call of the rate limit service with the memory store, from the request's bytes to the answer's.
//
//   Envoy/N    N descriptors of a file of Envoy's, each with a limit; keys among 100,000
//   Native/N   the same by native rules
//   Messages/N a domain that nobody has: reading and writing messages, and the metrics
#include <benchmark/benchmark.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "metrics/metrics.h"
#include "server/api/envoy/rls_service.h"
#include "sluice/memory_store.h"

namespace sluice::server {
namespace {

namespace rls = ::envoy::service::ratelimit::v3;

constexpr const char* kEnvoy = R"(
domain: envoy
descriptors: [ { key: user, rate_limit: { unit: hour, requests_per_unit: 1000000 } } ]
)";
constexpr const char* kNative = R"(
version: 1
domain: native
rules:
  - name: user
    match: { user: "**" }
    limits:
      - { key: "{user}", algorithm: fixed_window, limit: 1000000, per: 1h, align: clock }
)";

std::unique_ptr<EnvoyManager> open_envoy() {
  const auto file = std::filesystem::temp_directory_path() / "sluice_rls_bench.yaml";
  std::ofstream(file) << kEnvoy;
  return std::move(EnvoyManager::open({.files = {file.string()}}).value());
}

struct Bench {
  MemoryStore store;
  Limiter limiter{store};
  metrics::Registry registry;
  Log log{{.level = LogLevel::kOff}};
  DenialLog denials{log};
  std::unique_ptr<EnvoyManager> envoy = open_envoy();
  std::unique_ptr<RulesManager> rules = std::move(*RulesManager::open_source({{"n", kNative}}));
  RlsService service{{limiter, *rules, registry.make_recorder(), denials}, *envoy};
};

std::vector<std::string> messages(const std::string& domain, std::int64_t descriptors) {
  std::vector<std::string> out;
  for (int i = 0; i < 100000; ++i) {
    rls::RateLimitRequest request;
    request.set_domain(domain);
    for (std::int64_t d = 0; d < descriptors; ++d) {
      auto& entry = *request.add_descriptors()->add_entries();
      entry.set_key("user");
      entry.set_value("user-" + std::to_string((i * 7919 + d) % 100000));
    }
    out.push_back(request.SerializeAsString());
  }
  return out;
}

void call(benchmark::State& state, const std::string& domain) {
  Bench bench;
  const auto all = messages(domain, state.range(0));
  std::string reply;
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench.service.call(all[i], true, reply).reason);
    if (++i == all.size()) i = 0;
  }
}

void Envoy(benchmark::State& state) { call(state, "envoy"); }
void Native(benchmark::State& state) { call(state, "native"); }
void Messages(benchmark::State& state) {
  // No file and no rule has this domain.
  call(state, "other");
}

BENCHMARK(Envoy)->Arg(1)->Arg(4);
BENCHMARK(Native)->Arg(1)->Arg(4);
BENCHMARK(Messages)->Arg(1)->Arg(4);

}  // namespace
}  // namespace sluice::server
