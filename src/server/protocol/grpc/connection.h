#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/listener.h"
#include "server/net/tls.h"
#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {

// The most time that a connection may live, in addition to Bounds.
struct Ages {
  std::chrono::milliseconds most{0};  // then it accepts no more calls; 0: no limit
};

// A connection that speaks gRPC: the socket and the timeouts of a Protocol.
//
// Cost: about 7 KiB while idle, 10 KiB after the first call, more if a client fills its table of
// header fields (at most 4 KiB as HTTP/2 counts them) or had replies larger than 512 bytes; with
// TLS, also the memory of OpenSSL. Bytes that arrive together cost one wait, one read and one
// write.
class Connection final : private Protocol::Owner {
 public:
  struct Shared : ProtocolShared {
    boost::asio::io_context& loop;
    Ages ages = {};
    std::shared_ptr<const net::TlsContext> tls = nullptr;  // null: plaintext
    bool draining = false;
    // The buffers that connections read into and send from, one connection at a time.
    std::string input = std::string(std::size_t{64} << 10, '\0');
    std::string output = {};
    std::vector<Connection*> to_flush = {};  // in this turn of the loop
    std::vector<Connection*> flushing = {};
  };
  using Owner = net::ConnectionOwner<Connection>;
  static constexpr std::string_view kRefusal = {};

  // See net::Listener.
  static std::unique_ptr<Connection> open(const net::Accepted& accepted, Shared& shared,
                                          Owner& owner, SteadyTime now,
                                          boost::system::error_code& why);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void tick(SteadyTime now);
  // Accepts no more calls after those that are on their way, and ends after the last one.
  void drain(SteadyTime now);

  std::size_t place = 0;

 private:
  enum class End : std::uint8_t { kNot, kNoticed, kFinished };

  Connection(net::Wire::Socket socket, std::string peer, Shared& shared, Owner& owner,
             SteadyTime now);
  static void flush_all(Shared& shared);
  void has_output() override;
  void flush_now();
  void flush();
  void wait_for_input();
  void wait_for_room();
  template <typename Then>
  void wait(net::Wire::Socket::wait_type what, bool& waits, Then then);
  void read();
  bool take(std::size_t size);
  void discard();
  boost::system::error_code send(std::string& out);
  void grow_old(SteadyTime now);
  bool expired(SteadyTime now);
  void begin_end(SteadyTime now);
  void linger();
  void close();
  void let_go();

  net::Wire wire_;
  const std::string peer_;
  Shared& shared_;
  Owner& owner_;
  Protocol protocol_;
  std::string unsent_;
  SteadyTime started_{};
  SteadyTime heard_{};     // when input last arrived
  SteadyTime worked_{};    // when there last was a call
  SteadyTime progress_{};  // when output was last sent
  SteadyTime ending_{};    // when the current ending began
  std::size_t calls_ = 0;
  std::size_t lingered_ = 0;
  End end_ = End::kNot;
  bool reading_ = false;  // waits for input
  bool writing_ = false;  // waits for room
  bool pinged_ = false;
  bool lingering_ = false;
  bool dead_ = false;
  bool flushing_ = false;  // is in Shared::to_flush
};

}  // namespace sluice::server::grpc
