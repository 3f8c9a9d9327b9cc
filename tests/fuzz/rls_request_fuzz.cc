#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "metrics/metrics.h"
#include "server/api/envoy/rls_service.h"
#include "sluice/memory_store.h"

namespace {

using namespace sluice;
namespace rls = ::envoy::service::ratelimit::v3;

constexpr std::string_view kEnvoy = R"(
domain: d
descriptors:
  - { key: a, rate_limit: { name: n, unit: minute, requests_per_unit: 3 } }
  - { key: a, value: "x*", share_threshold: true, detailed_metric: true, metadata: { t: [ 1 ] },
      rate_limit: { unit: year, requests_per_unit: 5, replaces: [ { name: n } ] } }
  - { key: a, value: f, rate_limit: { unlimited: true } }
  - { key: q, quota_mode: true, rate_limit: { unit: day, requests_per_unit: 1 } }
  - { key: s, shadow_mode: true, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: t, rate_limit: { algorithm: token_bucket, period: 1s, requests_per_unit: 4294967295 } }
)";
constexpr const char* kNative =
    "version: 1\ndomain: n\nrules:\n  - name: a\n    match: { a: '**' }\n    limits: [ { key: "
    "'{a}', algorithm: gcra, limit: 3, per: 1s }, { name: b, key: '{a}', algorithm: budget, limit: "
    "9, "
    "per: day } ]\n";

std::unique_ptr<server::EnvoyManager> open(server::EnvoyOptions options) {
  const auto file = std::filesystem::temp_directory_path() / "sluice_rls_request_fuzz.yaml";
  std::ofstream(file) << kEnvoy;
  options.files = {file.string()};
  return std::move(server::EnvoyManager::open(std::move(options)).value());
}

// Two services, one of them with every setting that changes what it does.
struct Services {
  MemoryStore store{{.max_keys = 1024}};
  Limiter limiter{store};
  metrics::Registry registry;
  server::Log log{{.level = server::LogLevel::kOff}};
  server::DenialLog denials{log};
  std::unique_ptr<server::EnvoyManager> plain = open({});
  std::unique_ptr<server::EnvoyManager> all = open(
      {.consume_on_reject = true, .shadow_mode = true, .headers = true, .request_metadata = true});
  std::unique_ptr<server::RulesManager> rules =
      std::move(*server::RulesManager::open_source({{"n", kNative}}));
  server::Session::Parts session{limiter, *rules, registry.make_recorder(), denials};
  server::RlsService services[2]{server::RlsService(session, *plain),
                                 server::RlsService(session, *all)};
};

// An answer has one status per descriptor; a refused request has no answer.
void check(server::RlsService& service, std::string_view message, server::RlsMethod method) {
  std::string reply;
  const server::RlsStatus status = service.call(message, true, reply, {}, method);
  if (status.reason != Reason::kOk) {
    if (!reply.empty() || status.message.empty()) std::abort();
    return;
  }
  if (method >= server::RlsMethod::kReserve) return;
  rls::RateLimitResponse response;
  if (!response.ParseFromString(reply)) std::abort();
  if (response.statuses_size() == 0) std::abort();
  if (response.overall_code() == rls::RateLimitResponse::UNKNOWN) std::abort();
  for (const auto& one : response.statuses()) {
    if (one.code() == rls::RateLimitResponse::UNKNOWN) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Services services;
  const std::string_view message{reinterpret_cast<const char*>(data), size};
  for (server::RlsService& service : services.services) {
    for (std::size_t i = 0; i < server::kRlsPaths.size(); ++i) {
      check(service, message, static_cast<server::RlsMethod>(i));
    }
  }
  server::http::Request request;
  request.method = "POST";
  request.body = message;
  server::http::Response response;
  answer_json(services.services[1], request, true, response);
  if (response.status != 200 && response.status != 429 && response.body.empty()) std::abort();
  return 0;
}
