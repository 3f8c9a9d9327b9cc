#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "insight/top_keys.h"
#include "server/api/operations/operations.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/net/acceptor.h"
#include "server/net/listening_socket.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/tls_context.h"
#include "server/net/trusted_proxies.h"
#include "server/protocol/http/access.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/server_overrides.h"
#include "server/runtime/loop.h"
#include "sluice/expected.h"

namespace sluice::server {

// What a server passes to its front ends.
struct FrontEndParts {
  const Config& config;
  Log& log;
  EnvoyManager& envoy;
  const TrustedProxies& trusted;
  Operations operations;
  const std::atomic<bool>& ready;
  const net::LoopClock& clock;
  net::DescriptorBudget& descriptors;
  ServerOverrides* overrides = nullptr;
  const insight::TopKeys* top_keys = nullptr;
};

// A protocol at a listening address, in all loops.
//
// Thread-safety: the thread that made it; address() and connections() from any thread. Ownership:
// borrows the parts and outlives the loops. Its Unix socket is removed with it.
class FrontEnd {
 public:
  // `protocol` is the name of the application protocol for ALPN, a literal; empty: none.
  FrontEnd(const ListenAddress& address, std::string_view protocol, const FrontEndParts& parts)
      : parts_(parts), address_(address), protocol_(protocol) {}
  virtual ~FrontEnd() { unlink(); }
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  // Listens with a socket for each loop, unless the address is "off". Borrows the clients with
  // tokens. Errors: one line.
  Expected<bool> open(std::size_t loops, std::span<const KnownClient> clients,
                      net::InheritedSockets& inherited);
  bool is_open() const noexcept { return listening_.has_value(); }
  // Starts the front end, which is open, in the loop of that number.
  std::unique_ptr<net::LoopFrontEnd> start(const LoopServices& loop, std::size_t number);
  // The listening sockets, while no loop has stopped accepting.
  const std::vector<int>& descriptors() const noexcept { return descriptors_; }
  // Leaves the Unix socket to another process.
  void keep_unix_socket() noexcept;
  // Removes the Unix socket, so that no client can connect any more.
  void unlink() noexcept;
  // Reads files again (SIGHUP). Errors: what stays as it is, and why.
  Expected<bool> reload();
  // A command that tries the built-in rules, or nothing.
  virtual std::string example() const { return {}; }

  std::string_view name() const noexcept { return address_.key; }
  // "127.0.0.1:8080", "unix:/run/sluice.sock" or "off".
  std::string address() const { return listening_ ? listening_->name : "off"; }
  std::size_t connections() const noexcept { return connections_; }
  std::size_t most_connections() const { return is_open() ? bounds().connections : 0; }

 protected:
  // Reads what the front end needs, and checks the address that it listens at.
  virtual Expected<bool> check() { return true; }
  virtual std::unique_ptr<net::LoopFrontEnd> make(const LoopServices& loop,
                                                  const net::Acceptor::Parts& accept,
                                                  net::ListeningSocket socket) = 0;
  void log_that_nobody_operates() const;
  virtual const Bounds& bounds() const { return parts_.config.bounds; }
  virtual bool is_administration() const { return false; }

  const net::Listening& listening() const { return *listening_; }
  // Who may do what, for the front ends without users of their own.
  const Access& access() const { return *access_; }
  RoleOfCertificate role_of_certificate() const {
    return [&access = *access_](const auto& names) { return access.role_of_certificate(names); };
  }
  const FrontEndParts& parts() const noexcept { return parts_; }
  bool has_tls() const noexcept { return tls_ != nullptr; }
  std::atomic<std::size_t> connections_{0};  // in all loops

 private:
  const FrontEndParts parts_;
  const ListenAddress& address_;
  const std::string_view protocol_;
  std::optional<net::Listening> listening_;
  std::vector<int> descriptors_;
  net::DescriptorBudget::Share* share_ = nullptr;  // if it is open
  std::optional<Access> access_;
  std::unique_ptr<net::TlsContext> tls_;  // null: plaintext
};

}  // namespace sluice::server
