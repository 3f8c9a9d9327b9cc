#pragma once

#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/net/tls.h"
#include "server/protocol/grpc/protocol.h"

namespace sluice::server::grpc {

// How long connections may live, beside what Bounds says.
struct Ages {
  std::chrono::milliseconds most{0};  // after which calls are to come by another one; 0: any
};

// A connection that speaks gRPC: the shell of a socket and timeouts around a Protocol.
//
// Cost: about 7 KiB while idle, 10 KiB once there were calls, more where a client fills its table
// of header fields (4 KiB at most, by their own measure) or had answers that are larger than half a
// KiB; with TLS, what OpenSSL takes. For what arrives together one wait, one read and one write.
class Connection final : private Protocol::Owner {
 public:
  // Who owns it.
  class Owner {
   public:
    virtual ~Owner() = default;
    // It has come to its end: to be destroyed soon, once it has returned.
    virtual void closed(Connection& connection) = 0;
    // flush_now() is to be called soon.
    virtual void wants_flush(Connection& connection) = 0;
  };

  Connection(net::Wire::Socket socket, const net::TlsContext* tls, std::string peer, Shared& shared,
             const Ages& ages, Owner& owner);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start(SteadyTime now);
  // Ends what takes too long. Called some times a second.
  void tick(SteadyTime now);
  // Takes no more calls after those that are on their way, and ends after the last.
  void drain(SteadyTime now);
  // Sends what there is to send. After wants_flush().
  void flush_now();

  std::size_t place = 0;  // the owner's

 private:
  enum class End : std::uint8_t { kNot, kNoticed, kFinished };

  void has_output() override;
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
  const Ages& ages_;
  Owner& owner_;
  Protocol protocol_;
  std::string unsent_;
  SteadyTime started_{};
  SteadyTime heard_{};     // when something arrived
  SteadyTime worked_{};    // when there was a call
  SteadyTime progress_{};  // when something was sent
  SteadyTime ending_{};    // when the end that goes on began
  std::size_t calls_ = 0;
  std::size_t lingered_ = 0;
  End end_ = End::kNot;
  bool reading_ = false;  // waits for input
  bool writing_ = false;  // waits for room
  bool pinged_ = false;
  bool lingering_ = false;
  bool dead_ = false;
  bool flushing_ = false;  // wants_flush() was told
};

}  // namespace sluice::server::grpc
