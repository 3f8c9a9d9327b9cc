#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/top_keys.h"
#include "metrics/metrics.h"
#include "server/api/admin/admin_endpoint.h"
#include "server/api/admin/status_page.h"
#include "server/api/auth/auth_endpoint.h"
#include "server/api/check/check_endpoint.h"
#include "server/api/envoy/rls_service.h"
#include "server/api/operations/operations.h"
#include "server/api/quota/quota_server.h"
#include "server/config/config.h"
#include "server/decide/session.h"
#include "server/logging/log.h"
#include "server/net/acceptor.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/readiness.h"
#include "server/net/tls_context.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/grpc/message.h"
#include "server/protocol/http/access.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"
#include "server/protocol/resp/client.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/server_overrides.h"
#include "server/runtime/loop.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// What a server passes to its front ends.
struct FrontEndParts {
  const Config& config;
  Log& log;
  EnvoyManager& envoy;
  const TrustedProxies& trusted;
  Operations operations;
  const net::Readiness& ready;
  const net::LoopClock& clock;
  net::DescriptorBudget& descriptors;
  ServerOverrides* overrides = nullptr;
  const insight::TopKeys* top_keys = nullptr;
  QuotaServer* quota = nullptr;  // null: no quotas
  Loop* main = nullptr;          // runs work that blocks; null: there is none
};

// A listening address of a protocol, with its sockets for all loops.
//
// Thread-safety: the thread that made it; address() and connections() from any thread. Ownership:
// borrows the parts and outlives the loops. Its Unix socket is removed with it.
class FrontEnd {
 public:
  // `key` is that of `listen` in the configuration; `protocol` is the name of the application
  // protocol for ALPN, empty: none. Both are literals.
  FrontEnd(std::string_view key, std::string_view protocol, const FrontEndParts& parts,
           const Bounds& bounds)
      : parts_(parts), address_(listen_address(key)), protocol_(protocol), bounds_(bounds) {}
  ~FrontEnd() { unlink(); }
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  // Listens with a socket for each loop, unless the address is "off". Borrows the clients with
  // tokens. Errors: one line.
  Status open(std::size_t loops, std::span<const KnownClient> clients,
              net::InheritedSockets& inherited);
  bool is_open() const noexcept { return listening_.has_value(); }
  // What accepts its connections in a loop, if it is open.
  net::Acceptor::Parts accept_in(Loop& loop);
  net::ListeningSocket take_socket(std::size_t number) {
    return std::move(listening_->sockets[number]);
  }
  // The listening sockets, while no loop has stopped accepting.
  const std::vector<int>& descriptors() const noexcept { return descriptors_; }
  // Leaves the Unix socket to another process.
  void keep_unix_socket() noexcept;
  // Removes the Unix socket, so that no client can connect any more.
  void unlink() noexcept;
  // Reads files again (SIGHUP). Errors: what stays as it is, and why.
  Status reload();
  const std::string& cert_file() const { return (parts_.config.*address_.tls).cert_file; }
  // "http://127.0.0.1:8080"; empty for a Unix socket, or if it is off.
  std::string url() const;

  std::string_view name() const noexcept { return address_.key; }
  // "127.0.0.1:8080", "unix:/run/sluice.sock" or "off".
  std::string address() const { return listening_ ? listening_->name : "off"; }
  const net::Listening& listening() const { return *listening_; }
  bool has_tls() const noexcept { return tls_ != nullptr; }
  const Bounds& bounds() const noexcept { return bounds_; }
  // Who may do what, for the front ends without users of their own.
  const Access& access() const { return *access_; }
  RoleOfCertificate role_of_certificate() const {
    return [&access = *access_](const auto& names) { return access.role_of_certificate(names); };
  }
  // Open connections, in all loops.
  const std::atomic<std::size_t>& connections() const noexcept { return connections_; }
  // The maximum; 0 if it is off.
  std::size_t most_connections() const {
    return is_open() ? std::min(bounds_.connections, parts_.descriptors.most(*share_)) : 0;
  }

 private:
  const FrontEndParts parts_;
  const ListenAddress& address_;
  const std::string_view protocol_;
  const Bounds bounds_;
  std::atomic<std::size_t> connections_{0};
  std::optional<net::Listening> listening_;
  std::vector<int> descriptors_;
  net::DescriptorBudget::Share* share_ = nullptr;  // if it is open
  std::optional<Access> access_;
  std::unique_ptr<net::TlsContext> tls_;  // null: plaintext
};

// Several fibers, so that /healthz does not wait for a page that asks the store, and one for each
// request that waits for /metrics. Their stacks are as long as a thread's because they parse rules;
// a stack takes no memory before it is used.
inline constexpr net::FiberPool::Options kAdminFibers{.most = 4 + MetricsWorker::kMostWaiting,
                                                      .stack_bytes = std::size_t{8} << 20};

// Returns what the pages of the administration use.
using MakeAdmin = std::function<AdminEndpoint()>;

// Returns what the HTTP front end answers, for the reference.
std::vector<http::Route> public_routes();

// Answers the requests of the public listener: passes each request to its endpoint, and counts it.
//
// There is one handler for each event loop. If the store may wait, there is one for each request in
// progress; the handlers of a loop share a recorder. Ownership: borrows its parts.
class PublicHandler final : public http::Handler {
 public:
  // `waiting` is for requests that wait for units; null: none may.
  PublicHandler(const FrontEndParts& parts, Loop& loop, const Access& access,
                net::FiberSleeps* waiting = nullptr);

  void handle(const http::Request& request, http::Response& response) override;
  void finished(const http::Request& request, const http::Response& response,
                std::chrono::nanoseconds took) override;
  void stop_waiting() override { check_.stop_waiting(); }
  void follow_rules() override {
    session_.follow_rules();
    rls_.follow_rules();
  }

 private:
  metrics::Recorder& recorder_;
  Log& log_;
  Operations operations_;
  const Access& access_;
  const http::Request* request_ = nullptr;  // that is being answered
  Buffers trace_buffers_;
  Session session_;
  AuthEndpoint auth_;
  CheckEndpoint check_;
  RlsService rls_;
  metrics::FrontEnd endpoint_ = metrics::FrontEnd::kOther;
};

// Answers the requests of the administration's listener: the operations, which need no token, and
// the administration. Ownership: borrows its parts.
class AdminHandler final : public http::Handler {
 public:
  AdminHandler(AdminEndpoint endpoint, const Operations& operations, const Access& access,
               metrics::Recorder& recorder, Log& log)
      : operations_(operations),
        access_(access),
        recorder_(recorder),
        log_(log),
        endpoint_(std::move(endpoint)) {}

  void handle(const http::Request& request, http::Response& response) override;
  void finished(const http::Request& request, const http::Response& response,
                std::chrono::nanoseconds took) override;

 private:
  Operations operations_;
  const Access& access_;
  metrics::Recorder& recorder_;
  Log& log_;
  AdminEndpoint endpoint_;
};

// The front ends of a server, and its administration.
//
// Thread-safety and ownership: as FrontEnd.
class FrontEnds {
 public:
  FrontEnds(const FrontEndParts& parts, MakeAdmin admin);
  FrontEnds(const FrontEnds&) = delete;
  FrontEnds& operator=(const FrontEnds&) = delete;

  // Reads the clients' tokens, warns of weak ones, and listens: the front ends with a socket for
  // each loop, the administration with one. Errors: the first, as one line.
  Status open(std::size_t loops, net::InheritedSockets& inherited);
  // Starts the front ends that are open in the loop of that number.
  void start(Loop& loop, std::size_t number);
  // Starts the administration in this loop if it is open.
  void start_administration(Loop& loop);
  // Removes the Unix sockets, except for the administration's.
  void unlink() noexcept;
  // All listening sockets, while no loop has stopped accepting.
  std::vector<int> descriptors() const;
  // Leaves all Unix sockets to another process.
  void keep_unix_sockets() noexcept;
  // Reads the files of the front ends again. Logs errors, and returns them.
  std::vector<RuleError> reload();

  // "ready http=127.0.0.1:8080 grpc=off resp=off admin=127.0.0.1:6070"
  std::string ready_line() const;
  // A command that tries the built-in rules, or nothing.
  std::string example() const;
  // The URL of the live page; empty if a browser cannot reach it.
  std::string live_page() const { return admin_.url().empty() ? "" : admin_.url() + "/"; }
  // Open connections, except for the administration's.
  std::size_t connections() const noexcept;
  // The sum of the maximums of all that listen, the administration among them.
  std::size_t most_connections() const;
  std::vector<ServerStatus::Listener> status() const;
  // Adds the gauges of connections, by the listeners that are on.
  void add_metrics(metrics::Registry& registry) const;

 private:
  std::unique_ptr<net::LoopFrontEnd> make_http(Loop& loop, std::size_t number);
  std::unique_ptr<net::LoopFrontEnd> make_grpc(Loop& loop, std::size_t number);
  std::unique_ptr<net::LoopFrontEnd> make_resp(Loop& loop, std::size_t number);
  std::unique_ptr<grpc::StreamIn> open_quota(const grpc::Call& call, grpc::StreamOut& out,
                                             boost::asio::io_context& loop) const;
  Status check(FrontEnd& opened);

  const FrontEndParts parts_;
  const MakeAdmin make_admin_;
  const net::SteadyTime started_ = parts_.clock.now();
  std::vector<KnownClient> clients_;  // borrowed by the front ends
  resp::Users resp_users_;
  std::atomic<std::uint64_t> last_resp_id_{0};
  FrontEnd http_, grpc_, resp_, admin_;
  const std::array<FrontEnd*, 4> all_{&http_, &grpc_, &resp_, &admin_};
};

}  // namespace sluice::server
