#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace sluice::server::net {

// An address in the kernel's format.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t size);
  // Returns nothing if the path is too long.
  static std::optional<SocketAddress> of_unix(const std::string& path);

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t size() const noexcept { return size_; }
  socklen_t* size_to_fill() noexcept { return &size_; }
  int family() const noexcept { return storage_.ss_family; }

  std::uint16_t port() const noexcept;
  void set_port(std::uint16_t port) noexcept;
  // Sets this to the address that the socket is bound to.
  void read_name_of(int descriptor) noexcept;
  bool is_loopback() const noexcept;

  // Returns the IP address, or an empty text for a Unix socket. IPv4-mapped IPv6 is returned as
  // IPv4.
  std::string host() const;
  // Returns "127.0.0.1:8080", "[::1]:8080" or "unix:/run/sluice.sock".
  std::string text() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = sizeof storage_;
};

}  // namespace sluice::server::net
