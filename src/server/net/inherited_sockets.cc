#include "server/net/inherited_sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace sluice::server::net {
namespace {

int option(int descriptor, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

bool is_regular_file(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

// Takes ownership of the descriptor.
void add_listening(int descriptor, bool activated, InheritedSockets& to) {
  ListeningSocket socket(descriptor, option(descriptor, SO_DOMAIN), activated);
  if (option(descriptor, SO_ACCEPTCONN) == 0) return;
  if (option(descriptor, SO_TYPE) != SOCK_STREAM) return;
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  to.push_back(std::move(socket));
}

// Returns 0 if the variable is not a number.
long number_in(const char* variable) {
  const char* const text = std::getenv(variable);  // NOLINT: called before threads start
  long value = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

}  // namespace

InheritedSockets take_activated_sockets() {
  constexpr int kFirst = 3;
  InheritedSockets out;
  if (number_in("LISTEN_PID") == ::getpid()) {
    const long count = number_in("LISTEN_FDS");
    for (int i = 0; i < count; ++i) add_listening(kFirst + i, true, out);
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
  return out;
}

int send_packet(int socket, std::string_view text, std::span<const int> descriptors) noexcept {
  iovec words{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &words;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = room.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) < 0 ? errno : 0;
}

std::optional<Packet> receive_packet(int socket) {
  std::array<char, 256> text;
  iovec words{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostPassed * sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &words;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  const ssize_t size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return std::nullopt;
  Packet out{{text.data(), static_cast<std::size_t>(size)}, {}, {}};
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = head->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(head) + at, sizeof descriptor);
      if (is_regular_file(descriptor)) {
        out.locks.emplace_back(descriptor);
      } else {
        add_listening(descriptor, false, out.sockets);
      }
    }
  }
  return out;
}

}  // namespace sluice::server::net
