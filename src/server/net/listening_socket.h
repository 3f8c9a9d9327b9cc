#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/net/address.h"
#include "sluice/expected.h"

namespace sluice::server::net {

// A socket that listens, or is about to. Owns its descriptor; below 0 where there is none.
class ListeningSocket {
 public:
  ListeningSocket(int descriptor, int family) : descriptor_(descriptor), family_(family) {}
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  int release() noexcept;
  int family() const noexcept { return family_; }

 private:
  int descriptor_;
  int family_;
};

// An address that is listened at, once for each event loop.
struct Listening {
  std::vector<ListeningSocket> sockets;
  std::string name;       // the real one: "127.0.0.1:8080", "unix:/run/sluice.sock"
  std::string unix_path;  // to be removed at the end
  bool loopback = false;  // only this machine reaches it
};

// Listens at `address` with `loops` sockets: with TCP the kernel spreads connections over them
// (SO_REUSEPORT); on a Unix socket they are one. Port 0 takes a free one. A Unix socket that
// nobody listens at any more is replaced. Errors: "cannot listen at ADDRESS: WHY".
Expected<Listening> listen_at(const Address& address, std::size_t loops);

}  // namespace sluice::server::net
