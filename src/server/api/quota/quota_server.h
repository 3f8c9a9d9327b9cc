#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/api/quota/quota_service.h"
#include "server/net/fiber.h"
#include "server/net/loop_front_end.h"
#include "server/protocol/grpc/message.h"
#include "stores/redis/client/client.h"

namespace sluice::server {

inline constexpr std::string_view kQuotaPath =
    "/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas";

// The quota service of a process: one QuotaService in one event loop, for the streams of all loops.
//
// Thread-safety: any member from any thread, except for start() and open_stream(). Ownership:
// shared with the streams.
class QuotaServer : public std::enable_shared_from_this<QuotaServer> {
 public:
  // `has_scripts`: the store can take at most some units. Otherwise streams are refused.
  QuotaServer(const QuotaConfig& config, const RulesManager& rules, Log& log,
              bool has_scripts = true)
      : config_(config), rules_(rules), log_(log), has_scripts_(has_scripts) {}

  // Runs the service in this loop until the result is destroyed. `kind` is that of the store, and
  // `claim_share` asks the servers that have it too; empty: there are no others.
  std::unique_ptr<net::LoopFrontEnd> start(boost::asio::io_context& loop, Store& store,
                                           StoreKind kind, const Overrides* overrides,
                                           ClaimShare claim_share = {});
  // Opens a stream of the gRPC front end of a loop.
  std::unique_ptr<grpc::StreamIn> open_stream(const grpc::Call& call, grpc::StreamOut& out,
                                              boost::asio::io_context& loop);

  // Ends the stream of a proxy. Logs why, at most once a minute, because Envoy does not.
  void refuse(grpc::StreamOut& out, std::string_view peer, grpc::Code code, std::string_view why);

  // What the service does, at most `quota.every` ago: an object of JSON, and its counts.
  std::string json() const;
  QuotaStats stats() const;

  const RulesManager& rules() const noexcept { return rules_; }
  bool has_scripts() const noexcept { return has_scripts_; }
  Log& log() const noexcept { return log_; }
  // Runs `event` in the loop of the service, unless the service has ended.
  void post(std::function<void(QuotaService&)> event);

 private:
  class Running;

  const QuotaConfig& config_;
  const RulesManager& rules_;
  Log& log_;
  const bool has_scripts_;
  mutable std::mutex mutex_;  // of the members below
  Running* running_ = nullptr;
  std::string json_ = R"({"proxies":0,"buckets":0,"counters":[]})";
  QuotaStats stats_;
  std::uint64_t last_proxy_ = 0;
  std::optional<Instant> refusal_logged_;
};

// Divides limits among the servers of one Redis: a text for each counter says what each server asks
// for and what it and its proxies may use. A script changes it in one step, by the time of Redis.
// `prefix`: of all keys. `server`: a name that no other server has. Call the result in the loop's
// thread, on a fiber; it borrows the client that `client` returns for the call.
ClaimShare claim_in_redis(std::function<redis::Client*()> client, std::string prefix,
                          std::string server);

}  // namespace sluice::server
