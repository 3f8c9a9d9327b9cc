#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "envoy/service/rate_limit_quota/v3/rlqs.pb.h"
#include "server/api/quota/quota_server.h"
#include "sluice/memory_store.h"
#include "sluice/wire_request.pb.h"

namespace {

using namespace sluice;
namespace rlqs = ::envoy::service::rate_limit_quota::v3;
using Bucket = std::map<std::string, std::string>;

constexpr const char* kRules = R"(
version: 1
domain: d
rules:
  - { name: refused, match: { path: /no }, action: deny }
  - { name: counted, match: { path: /s }, mode: shadow, limits: [ { algorithm: gcra, limit: 9, per: 1s } ] }
  - name: a
    match: { a: "**" }
    limits:
      - { key: "{a}", algorithm: token_bucket, limit: 100, per: 1s, cost: "{cost|1}", share: { weight: "{w|1}", at_least: 5% } }
      - { name: all, algorithm: fixed_window, limit: 4294967295, per: 1d }
      - { name: none, key: "{a}", algorithm: concurrency, limit: 3, lease: 1m }
)";

Bucket bucket_of(const rlqs::BucketId& id) { return {id.bucket().begin(), id.bucket().end()}; }
// As the server reads ids: any bytes, of which those that are no UTF-8 get no assignment.
Bucket bucket_of(const wire::BucketId& id) {
  Bucket out;
  for (const auto& entry : id.bucket()) out[entry.key()] = entry.value();
  return out;
}

// What a client sees: assignments of buckets that it has reported, which a proxy can use.
class Client final : public server::grpc::StreamOut {
 public:
  bool send(std::string_view message) override {
    if (has_ended_) std::abort();
    rlqs::RateLimitQuotaResponse response;
    if (!response.ParseFromArray(message.data(), static_cast<int>(message.size()))) std::abort();
    for (const auto& action : response.bucket_action()) {
      if (!reported.contains(bucket_of(action.bucket_id()))) std::abort();
      if (!action.has_quota_assignment_action()) continue;
      const auto& given = action.quota_assignment_action();
      if (given.assignment_time_to_live().seconds() < 1) std::abort();
      if (!given.rate_limit_strategy().has_token_bucket()) continue;
      const auto& tokens = given.rate_limit_strategy().token_bucket();
      const auto& interval = tokens.fill_interval();
      if (tokens.max_tokens() == 0 || tokens.tokens_per_fill().value() == 0) std::abort();
      if (interval.seconds() <= 0 && interval.nanos() <= 0) std::abort();
    }
    return true;
  }
  void end(server::grpc::Code code, std::string_view text) override {
    if (code != server::grpc::Code::kOk && text.empty()) std::abort();
    has_ended_ = true;
  }
  std::size_t unread() const override { return 0; }
  bool has_ended() const noexcept { return has_ended_; }

  std::set<Bucket> reported;

 private:
  bool has_ended_ = false;
};

struct Service {
  MemoryStore store{{.max_keys = 1024}};
  server::Log log{{.level = server::LogLevel::kOff}};
  server::QuotaConfig config;
  std::unique_ptr<server::RulesManager> rules =
      std::move(*server::RulesManager::open_source({{"n", kRules}}));
};

// The input is the messages of one stream, each after its size in two bytes.
void check(const Service& service, MemoryStore& store, server::Log& log, std::string_view input) {
  boost::asio::io_context loop;
  const auto server = std::make_shared<server::QuotaServer>(service.config, *service.rules, log);
  const auto running = server->start(loop, store, server::StoreKind::kMemory, nullptr, nullptr);
  Client client;
  server::grpc::Call call;
  call.path = server::kQuotaPath;
  const auto stream = server->open_stream(call, client, loop);
  while (input.size() > 2 && !client.has_ended()) {
    const std::size_t size = std::min<std::size_t>(
        static_cast<unsigned char>(input[0]) * 256U + static_cast<unsigned char>(input[1]),
        input.size() - 2);
    const std::string_view message = input.substr(2, size);
    input.remove_prefix(2 + size);
    wire::UsageReports reports;
    if (reports.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      for (const auto& one : reports.bucket_quota_usages()) {
        client.reported.insert(bucket_of(one.bucket_id()));
      }
    }
    stream->on_message(message);
    loop.poll();
  }
  if (!client.has_ended()) stream->on_half_close();
  loop.poll();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Service service;
  check(service, service.store, service.log, {reinterpret_cast<const char*>(data), size});
  return 0;
}
