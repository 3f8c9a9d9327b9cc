#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/logging/log.h"
#include "server/net/acceptor.h"
#include "server/net/listening_socket.h"
#include "server/protocol/grpc/connection.h"

namespace sluice::server::grpc {

// One listening address in one event loop: accepts connections that speak gRPC, and owns them.
//
// All members by the loop's thread, but for the constructor. Destroy it when the loop has stopped.
class Listener final : private net::Acceptor::Owner, public Connection::Owner {
 public:
  struct Parts {
    boost::asio::io_context& loop;
    const Bounds& bounds;
    Behind behind;
    // The methods behind, "/package.Service/Method": literals.
    std::vector<std::string_view> paths;
    metrics::Recorder& recorder;
    Log& log;
    // Connections of this address in all loops, which `bounds.connections` caps.
    std::atomic<std::size_t>& connections;
    // What grpc.health.v1.Health says.
    const std::atomic<bool>& serving;
    std::size_t most_streams = 1024;  // calls at once of each connection
    Ages ages = {};
    std::shared_ptr<const net::TlsContext> tls = nullptr;  // null: plaintext
  };

  Listener(const Parts& parts, net::ListeningSocket socket);
  ~Listener() override;

  // Stops accepting, takes what the kernel has accepted already, and lets calls that are on their
  // way finish. Calls `drained` when the last connection has closed.
  void drain(std::function<void()> drained);

 private:
  void accepted(int descriptor, const net::SocketAddress& peer) override;
  void closed(Connection& connection) override;
  void wants_flush(Connection& connection) override;
  void flush_all();
  void tick();
  void finish_drain();

  Parts parts_;
  Shared shared_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> gone_;  // to be destroyed
  std::vector<Connection*> to_flush_;
  std::vector<Connection*> flushing_;
  boost::asio::steady_timer ticker_;
  bool ticking_ = false;
  bool draining_ = false;
  std::function<void()> drained_;
  net::Acceptor acceptor_;
};

}  // namespace sluice::server::grpc
