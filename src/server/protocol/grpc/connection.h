#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/listener.h"
#include "server/net/transport.h"
#include "server/protocol/grpc/connection_state.h"

namespace sluice::server::grpc {

// A connection that speaks gRPC: the socket of a ConnectionState.
//
// Cost: about 7 KiB while idle, 10 KiB after the first call, more if a client fills its table of
// header fields (at most 4 KiB as HTTP/2 counts them) or had replies larger than 512 bytes; with
// TLS, also the memory of OpenSSL. Bytes that arrive together cost one wait, one read and one
// write.
class Connection final : private ConnectionState::Owner {
 public:
  struct Shared : SharedState {
    boost::asio::io_context& loop;
    RoleOfCertificate role_of_certificate = {};  // may be empty
    bool draining = false;
    std::string input = std::string(std::size_t{64} << 10, '\0');  // of the connection that reads
    std::vector<Connection*> to_flush = {};                        // in this turn of the loop
    std::vector<Connection*> flushing = {};
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal = {};
  // SETTINGS, and GOAWAY with INADEQUATE_SECURITY and a text that clients report.
  static constexpr std::string_view kNeedsTls{
      "\0\0\0\4\0\0\0\0\0"
      "\0\0\x25\7\0\0\0\0\0\0\0\0\0\0\0\0\xc"
      "expected TLS on this listener",
      9 + 9 + 8 + 29};

  // See net::Listener.
  static std::unique_ptr<Connection> open(net::Accepted& accepted, Shared& shared, Owner& owner,
                                          SteadyTime now, boost::system::error_code& why);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(SteadyTime now);
  void drain(SteadyTime now);

  std::size_t place = 0;

 private:
  using Socket = boost::asio::generic::stream_protocol::socket;
  using Action = ConnectionState::Action;

  Connection(Socket socket, net::Accepted& accepted, Shared& shared, Owner& owner, SteadyTime now);
  static void flush_all(Shared& shared);
  void has_output() override;
  void flush();
  void act(Action action);
  Action send_all(Action action);
  Action send();
  void wait_for_input();
  void wait_for_room();
  template <typename Then>
  void wait(Socket::wait_type what, bool& waits, Then then);
  void read();
  void close();
  void report_end();

  Socket socket_;
  net::Transport transport_;
  Shared& shared_;
  Owner& owner_;
  ConnectionState state_;
  bool reading_ = false;  // waits for input
  bool writing_ = false;  // waits for room
  bool dead_ = false;
  bool flushing_ = false;  // is in Shared::to_flush
};

}  // namespace sluice::server::grpc
