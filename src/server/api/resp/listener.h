#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/api/resp/connection.h"
#include "server/logging/log.h"
#include "server/net/acceptor.h"
#include "server/net/bounds.h"
#include "server/net/listening_socket.h"
#include "server/net/poller.h"

namespace sluice::server::resp {

// One listening address of the RESP door in one event loop: accepts connections and owns them.
//
// All members by the loop's thread, but for the constructor. Destroy it when the loop has stopped,
// and before what is behind it.
class Listener final : public Connection::Owner, private net::Acceptor::Owner {
 public:
  struct Parts {
    boost::asio::io_context& loop;
    const Bounds& bounds;
    Behind behind;
    const Users& users;
    metrics::Recorder& recorder;
    Log& log;
    // Connections of this address in all loops, which `bounds.connections` caps, and how many there
    // have been.
    std::atomic<std::size_t>& connections;
    std::atomic<std::uint64_t>& last_id;
    std::string unix_path = {};                 // of the socket, where it is a Unix socket
    std::chrono::milliseconds idle_timeout{0};  // 0: none, as Redis has it
  };

  Listener(const Parts& parts, net::ListeningSocket socket);
  ~Listener() override;

  // Stops accepting, takes what the kernel has accepted already, and lets each connection have the
  // replies to what it has sent. Calls `drained` when the last has closed.
  void drain(std::function<void()> drained);

 private:
  void accepted(int descriptor, const net::SocketAddress& peer) override;
  void closed(Connection& connection) override;
  void tick();
  void finish_drain();

  Parts parts_;
  net::Poller poller_;
  Shared shared_;
  net::Acceptor acceptor_;
  std::vector<std::unique_ptr<Connection>> connections_;
  boost::asio::steady_timer ticker_;
  bool ticking_ = false;
  std::function<void()> drained_;
};

}  // namespace sluice::server::resp
