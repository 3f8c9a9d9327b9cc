#include "server/net/listening_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

namespace sluice::server::net {
namespace {

std::string why(int error) { return std::strerror(error); }  // NOLINT: called before threads start

std::string to_text(const Address& address) {
  if (address.kind == Address::Kind::kUnix) return "unix:" + address.path;
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

Unexpected<std::string> failed(std::string_view address, std::string_view reason) {
  return {"cannot listen at " + std::string(address) + ": " + std::string(reason)};
}

ListeningSocket open_socket(const SocketAddress& address) {
  const int descriptor = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return ListeningSocket(descriptor, address.family());
}

void set_flag(int descriptor, int level, int option) {
  const int on = 1;
  ::setsockopt(descriptor, level, option, &on, sizeof on);
}

// Returns 0 or the error.
int bind_to(int descriptor, const SocketAddress& address) {
  return ::bind(descriptor, address.get(), address.size()) == 0 ? 0 : errno;
}

// Binds and listens. With `shared`, other sockets of this process may listen at the same address.
Expected<ListeningSocket> listen_tcp(const SocketAddress& address, bool shared) {
  ListeningSocket socket = open_socket(address);
  const int descriptor = socket.descriptor();
  if (descriptor < 0) return failed(address.text(), why(errno));
  set_flag(descriptor, SOL_SOCKET, SO_REUSEADDR);
  if (shared) set_flag(descriptor, SOL_SOCKET, SO_REUSEPORT);
  if (address.family() == AF_INET6) set_flag(descriptor, IPPROTO_IPV6, IPV6_V6ONLY);
  if (const int error = bind_to(descriptor, address)) return failed(address.text(), why(error));
  if (::listen(descriptor, SOMAXCONN) != 0) return failed(address.text(), why(errno));
  return socket;
}

// Checks that no other server listens. With SO_REUSEPORT alone, a second server of the same user
// would silently share the port.
Status find_free(const SocketAddress& address) {
  if (address.port() == 0) return {};
  const ListeningSocket socket = open_socket(address);
  if (socket.descriptor() < 0) return failed(address.text(), why(errno));
  set_flag(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR);
  if (address.family() == AF_INET6) set_flag(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY);
  if (const int error = bind_to(socket.descriptor(), address)) {
    return failed(address.text(), why(error));
  }
  return {};
}

ListeningSocket copy_of(const ListeningSocket& socket) {
  return {::fcntl(socket.descriptor(), F_DUPFD_CLOEXEC, 0), socket.family(), socket.activated()};
}

bool listens_at(const ListeningSocket& socket, const std::string& name) {
  SocketAddress address;
  address.read_name_of(socket.descriptor());
  return address.text() == name;
}

// Takes the inherited sockets of an address, and makes one for each loop of them. Each must have a
// loop, because the kernel distributes connections over all of them. Returns none if there are
// none.
Expected<std::vector<ListeningSocket>> take_inherited(const std::string& name, std::size_t loops,
                                                      InheritedSockets& inherited) {
  const auto first = std::stable_partition(inherited.begin(), inherited.end(),
                                           [&](auto& one) { return !listens_at(one, name); });
  std::vector<ListeningSocket> out(std::make_move_iterator(first),
                                   std::make_move_iterator(inherited.end()));
  inherited.erase(first, inherited.end());
  const std::size_t count = out.size();
  if (count > loops) {
    return failed(name, "another process opened " + std::to_string(count) +
                            " sockets for it, more than the " + std::to_string(loops) +
                            " threads of this one");
  }
  for (std::size_t i = 0; count > 0 && out.size() < loops; ++i) {
    out.push_back(copy_of(out[i]));
    if (out.back().descriptor() < 0) return failed(name, why(errno));
  }
  return out;
}

Expected<Listening> listen_at_tcp(const Address& wanted, std::size_t loops,
                                  InheritedSockets& inherited) {
  auto address = resolve(wanted);
  if (!address) return Unexpected{address.error()};
  auto taken = take_inherited(address->text(), loops, inherited);
  if (!taken) return Unexpected{taken.error()};
  if (!taken->empty()) {
    return Listening{std::move(*taken), address->text(), {}, false, address->is_loopback()};
  }
  if (const auto free = find_free(*address); !free) return Unexpected{free.error()};
  Listening out;
  for (std::size_t i = 0; i < loops; ++i) {
    auto socket = listen_tcp(*address, loops > 1);
    if (!socket) return Unexpected{socket.error()};
    address->read_name_of(socket->descriptor());  // the port that was picked
    out.sockets.push_back(std::move(*socket));
  }
  out.name = address->text();
  out.loopback = address->is_loopback();
  return out;
}

// Removes the socket file if no process listens at it. Does not remove other kinds of files.
void remove_stale(const SocketAddress& address, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_socket(std::filesystem::symlink_status(path, error))) return;
  const ListeningSocket socket = open_socket(address);
  if (::connect(socket.descriptor(), address.get(), address.size()) != 0 && errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
}

Expected<Listening> listen_at_unix(const Address& wanted, std::size_t loops,
                                   InheritedSockets& inherited) {
  const std::string name = to_text(wanted);
  const auto address = SocketAddress::of_unix(wanted.path);
  if (!address) return failed(name, "the path is too long; at most 107 bytes");
  auto taken = take_inherited(name, loops, inherited);
  if (!taken) return Unexpected{taken.error()};
  if (!taken->empty()) {
    const bool removes = !taken->front().activated();
    return Listening{std::move(*taken), name, wanted.path, removes, true};
  }
  remove_stale(*address, wanted.path);
  ListeningSocket first = open_socket(*address);
  if (first.descriptor() < 0) return failed(name, why(errno));
  if (const int error = bind_to(first.descriptor(), *address)) return failed(name, why(error));
  if (::listen(first.descriptor(), SOMAXCONN) != 0) return failed(name, why(errno));
  Listening out{{}, name, wanted.path, true, true};
  for (std::size_t i = 1; i < loops; ++i) {
    out.sockets.push_back(copy_of(first));
    if (out.sockets.back().descriptor() < 0) return failed(name, why(errno));
  }
  out.sockets.push_back(std::move(first));
  return out;
}

}  // namespace

Expected<SocketAddress> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  if (status != 0) return failed(to_text(address), ::gai_strerror(status));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  SocketAddress out(found->ai_addr, found->ai_addrlen);
  out.set_port(address.port);
  return out;
}

Expected<Listening> listen_at(const Address& address, std::size_t loops,
                              InheritedSockets& inherited) {
  return address.kind == Address::Kind::kUnix ? listen_at_unix(address, loops, inherited)
                                              : listen_at_tcp(address, loops, inherited);
}

}  // namespace sluice::server::net
