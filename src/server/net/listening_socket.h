#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/net/address.h"
#include "server/net/socket_address.h"
#include "sluice/expected.h"

namespace sluice::server::net {

// A listening socket, or one that will listen. Owns its descriptor, which is negative if there is
// none.
class ListeningSocket {
 public:
  ListeningSocket(int descriptor, int family, bool activated = false)
      : descriptor_(descriptor), family_(family), activated_(activated) {}
  ~ListeningSocket();
  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&& other) noexcept;

  int descriptor() const noexcept { return descriptor_; }
  int release() noexcept;
  int family() const noexcept { return family_; }
  // Returns whether a service manager keeps the socket for the next process.
  bool activated() const noexcept { return activated_; }

 private:
  int descriptor_;
  int family_;
  bool activated_;
};

// Listening sockets that another process has opened.
using InheritedSockets = std::vector<ListeningSocket>;

// A listening address with one socket for each event loop.
struct Listening {
  std::vector<ListeningSocket> sockets;
  std::string name;  // the actual address: "127.0.0.1:8080", "unix:/run/sluice.sock"
  std::string unix_path;
  bool removes_unix_path = false;  // when the server ends; not that of a service manager
  bool loopback = false;           // only this machine can connect
};

// Returns the first address of a host name, or the IP address. Errors: as listen_at().
Expected<SocketAddress> resolve(const Address& address);

// Listens at `address` with `loops` sockets. With TCP, the kernel distributes connections over the
// sockets (SO_REUSEPORT); with a Unix socket, all loops share one. Port 0 picks a free port.
// Replaces a Unix socket that no process listens at. If inherited sockets have the address, takes
// these out of `inherited` instead. Errors: "cannot listen at ADDRESS: WHY".
Expected<Listening> listen_at(const Address& address, std::size_t loops,
                              InheritedSockets& inherited);
Expected<Listening> listen_at(const Address& address, std::size_t loops);

}  // namespace sluice::server::net
