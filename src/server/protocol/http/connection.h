#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/net/listener.h"
#include "server/net/transport.h"
#include "server/protocol/http/connection_state.h"

namespace sluice::server::http {

// A connection that speaks HTTP/1.1: the socket of a ConnectionState. It waits for one thing at a
// time. For everything that arrives together it makes one wait, one read and one write.
class Connection final : private ConnectionState::Owner {
 public:
  struct Shared : SharedState {
    using SharedState::SharedState;
    RoleOfCertificate role_of_certificate;  // may be empty
    std::string input = std::string(std::size_t{64} << 10,
                                    '\0');  // shared by the connections, which read one at a time
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 75\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
      R"({"type":"about:blank","title":"too many connections at once","status":503})"
      "\n";

  static constexpr std::string_view kNeedsTls =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
      "Content-Length: 74\r\nConnection: close\r\n\r\n"
      R"({"type":"about:blank","title":"expected https on this port","status":400})"
      "\n";

  // See net::Listener.
  static std::unique_ptr<Connection> open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                          net::SteadyTime now, boost::system::error_code& why);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(net::SteadyTime now);
  void drain(net::SteadyTime now) { state_.on_drain(now); }

  std::size_t place = 0;

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Action = ConnectionState::Action;

  Connection(Socket socket, net::Accepted& accepted, Shared& shared, Owner& owner,
             net::SteadyTime now);
  void act(Action action) override;
  void wait_for_input();
  void wait_for_room();
  void receive();
  Action send();
  void close();

  Socket socket_;
  net::Transport transport_;
  Shared& shared_;
  Owner& owner_;
  bool expired_ = false;
  ConnectionState state_;
};

}  // namespace sluice::server::http
