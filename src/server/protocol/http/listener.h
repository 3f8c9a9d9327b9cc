#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/logging/log.h"
#include "server/net/acceptor.h"
#include "server/net/bounds.h"
#include "server/net/listening_socket.h"
#include "server/protocol/http/connection.h"

namespace sluice::server::http {

// One listening address in one event loop: accepts connections and owns them.
//
// All members by the loop's thread, but for the constructor. Destroy it when the loop has stopped.
class Listener final : public Connection::Owner, private net::Acceptor::Owner {
 public:
  struct Parts {
    boost::asio::io_context& loop;
    const Bounds& bounds;
    Behind behind;
    metrics::Recorder& recorder;
    Log& log;
    // Connections of this address in all loops, which `bounds.connections` caps.
    std::atomic<std::size_t>& connections;
  };

  Listener(const Parts& parts, net::ListeningSocket socket);
  ~Listener() override;

  // Stops accepting, takes what the kernel has accepted already, and lets each connection finish
  // its request. Calls `drained` when the last has closed.
  void drain(std::function<void()> drained);

 private:
  void accepted(int descriptor, const net::SocketAddress& peer) override;
  void closed(Connection& connection) override;
  void tick();
  void set_date();
  void finish_drain();

  Parts parts_;
  Shared shared_;
  net::Acceptor acceptor_;
  std::vector<std::unique_ptr<Connection>> connections_;
  boost::asio::steady_timer ticker_;
  bool ticking_ = false;
  std::string date_;
  std::int64_t date_second_ = -1;  // of `date_`, since the epoch
  std::function<void()> drained_;
};

}  // namespace sluice::server::http
