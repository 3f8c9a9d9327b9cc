#include "server/runtime/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sluice::server {

void notify_manager(std::string_view state) noexcept {
  const char* const path = std::getenv("NOTIFY_SOCKET");  // NOLINT: nobody sets it meanwhile
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  const std::size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';  // in the abstract namespace
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  static_cast<void>(::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(socket);
}

void notify_reloading(net::SteadyTime now) noexcept {
  const auto since = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch());
  char text[64];
  const int size = std::snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                                 static_cast<long long>(since.count()));
  notify_manager({text, static_cast<std::size_t>(size)});
}

}  // namespace sluice::server
