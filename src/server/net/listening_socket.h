#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "limiter/replacement_file.h"
#include "server/net/address.h"
#include "server/net/socket_address.h"
#include "sluice/expected.h"

namespace sluice::server::net {

// A listening socket, or one that will listen. Owns its descriptor, which is negative if there is
// none.
class ListeningSocket {
 public:
  ListeningSocket(int descriptor, int family, bool activated = false)
      : file_(descriptor), family_(family), activated_(activated) {}

  int descriptor() const noexcept { return file_.get(); }
  int release() noexcept { return file_.release(); }
  int family() const noexcept { return family_; }
  // Returns whether a service manager keeps the socket for the next process.
  bool activated() const noexcept { return activated_; }

 private:
  detail::FileDescriptor file_;
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
inline Expected<Listening> listen_at(const Address& address, std::size_t loops) {
  InheritedSockets none;
  return listen_at(address, loops, none);
}

}  // namespace sluice::server::net
