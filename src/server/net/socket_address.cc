#include "server/net/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>

namespace sluice::server::net {
namespace {

const sockaddr_in& v4(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in&>(storage);
}
const sockaddr_in6& v6(const sockaddr_storage& storage) {
  return reinterpret_cast<const sockaddr_in6&>(storage);
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&storage_, address, size);
}

std::optional<SocketAddress> SocketAddress::of_unix(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::uint16_t SocketAddress::port() const noexcept {
  return ntohs(family() == AF_INET6 ? v6(storage_).sin6_port : v4(storage_).sin_port);
}

void SocketAddress::set_port(std::uint16_t port) noexcept {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(storage_).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(storage_).sin_port = htons(port);
  }
}

void SocketAddress::read_name_of(int descriptor) noexcept {
  size_ = sizeof storage_;
  ::getsockname(descriptor, get(), &size_);
}

bool SocketAddress::is_loopback() const noexcept {
  if (family() == AF_INET6) {
    const in6_addr& address = v6(storage_).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&address) ||
           (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
  }
  return family() != AF_INET || (ntohl(v4(storage_).sin_addr.s_addr) >> 24) == 127;
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    ::inet_ntop(AF_INET, &v4(storage_).sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    const in6_addr& address = v6(storage_).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      ::inet_ntop(AF_INET, address.s6_addr + 12, text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &address, text, sizeof text);
    }
  }
  return text;
}

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) {
    return std::string("unix:") + reinterpret_cast<const sockaddr_un&>(storage_).sun_path;
  }
  const std::string end = ":" + std::to_string(port());
  const std::string name = host();
  return name.find(':') != name.npos ? "[" + name + "]" + end : name + end;
}

}  // namespace sluice::server::net
