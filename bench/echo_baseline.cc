// The floor of a server on sockets: sends back what it reads, or REPLY, by one epoll in one thread.
//
//   echo_baseline [REPLY]
//
// It prints "ready" and its port. A request takes it one read and one write, and a part of one
// epoll_wait. A server that does the same and also decides cannot take less processor time.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>

namespace {

int listen_on_loopback() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, any, size) != 0 || ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, any, &size) != 0) {
    return -1;
  }
  std::printf("ready %d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  return listener;
}

void watch(int epoll, int descriptor) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = descriptor}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

void accept_one(int epoll, int listener) {
  const int on = 1;
  const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch(epoll, client);
}

void answer(int client, std::string_view reply) {
  static std::array<char, std::size_t{64} << 10> bytes;
  const ssize_t got = ::recv(client, bytes.data(), bytes.size(), 0);
  if (got > 0) {
    if (reply.empty()) reply = {bytes.data(), static_cast<std::size_t>(got)};
    ::send(client, reply.data(), reply.size(), MSG_NOSIGNAL);
  }
  if (got == 0) ::close(client);
}

}  // namespace

int main(int count, char** arguments) {
  const std::span words(arguments, static_cast<std::size_t>(count));
  std::string_view reply;
  if (words.size() > 1) reply = words[1];
  const int listener = listen_on_loopback();
  if (listener < 0) return 1;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, listener);
  std::array<epoll_event, 128> events;
  for (;;) {
    const int found = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < found; ++i) {
      const int ready = events[static_cast<std::size_t>(i)].data.fd;
      ready == listener ? accept_one(epoll, listener) : answer(ready, reply);
    }
  }
}
