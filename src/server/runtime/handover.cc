// A new process receives the listening sockets of the old one over a Unix socket, starts, and
// reports that it is ready. Only then does the old one close its copies, without accepting what is
// queued. The kernel's queues belong to the sockets, so no connection is lost; SO_REUSEPORT between
// two processes would lose the queue of the one that closes.
#include "server/runtime/handover.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "server/net/socket_address.h"

namespace sluice::server::net {
namespace {

int option(int descriptor, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

bool is_regular_file(int descriptor) {
  struct stat status = {};
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
  ssize_t size = 0;
  do size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (size < 0 && errno == EINTR);
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

namespace sluice::server {
namespace {

using boost::system::error_code;
using net::ListeningSocket;

constexpr std::string_view kSockets = "sockets";
constexpr std::string_view kEnd = "end";
constexpr std::string_view kReady = "ready";
constexpr std::string_view kDone = "done";
constexpr std::string_view kReplaced = "replaced";  // by another successor
constexpr std::chrono::seconds kPatience{10};       // of the successor, between two packets
constexpr int kDies = 2000;  // milliseconds that a process takes at most to end after its sockets

std::string text_of(int error) { return std::error_code(error, std::generic_category()).message(); }

ListeningSocket open_socket(int flags) {
  return {::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0), AF_UNIX};
}

// Returns the process at the other end; of no user if it is unknown.
ucred peer_of(int socket) {
  ucred peer{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t size = sizeof peer;
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

// Returns whether the process at the other end has the user of this one, or is root.
bool is_trusted(int socket) {
  const uid_t user = peer_of(socket).uid;
  return user == ::geteuid() || user == 0;
}

std::string new_path(const std::string& path) { return path + ".new"; }

// Returns 0 or the error.
int bind_and_listen(int descriptor, const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) return EEXIST;
  const std::string made = new_path(path);
  const auto address = net::SocketAddress::of_unix(made);
  if (!address) return ENAMETOOLONG;
  ::unlink(made.c_str());
  const mode_t before = ::umask(0077);  // only for this user
  const int bound = ::bind(descriptor, address->get(), address->size());
  const int error = errno;
  ::umask(before);
  if (bound != 0) return error;
  return ::listen(descriptor, 1) == 0 ? 0 : errno;
}

Unexpected<std::string> cannot_listen(const std::string& path, int error) {
  return {"drain.handover: cannot listen at " + path + ": " + text_of(error)};
}

}  // namespace

Handover::Handover(boost::asio::io_context& main, Log& log,
                   std::function<std::vector<int>()> descriptors, std::function<void()> handed_over,
                   std::function<bool()> ends_first)
    : log_(log),
      descriptors_(std::move(descriptors)),
      handed_over_(std::move(handed_over)),
      ends_first_(std::move(ends_first)),
      listening_(main),
      successor_(main) {}

Expected<net::InheritedSockets> Handover::inherit(const std::string& path) {
  net::InheritedSockets out = net::take_activated_sockets();
  if (path.empty()) return out;
  auto found = Predecessor::find(path);
  if (!found) return Unexpected{found.error()};
  predecessor_ = std::move(*found);
  if (!predecessor_) return out;
  for (auto& socket : predecessor_->take_sockets()) out.push_back(std::move(socket));
  return out;
}

Status Handover::succeed(const std::string& path) {
  if (path.empty()) return {};
  if (auto opened = open(path); !opened) return opened;
  if (predecessor_) {
    const auto succeeded = predecessor_->succeed();
    if (!succeeded) return Unexpected{succeeded.error()};
    if (!*succeeded) {
      log_.warning("the server that hands over has died; its last requests are not counted");
    }
    process_ = predecessor_->take_process();
    predecessor_.reset();
  }
  return publish();
}

Status Handover::open(const std::string& path) {
  ListeningSocket socket = open_socket(SOCK_NONBLOCK);
  const int error = socket.descriptor() < 0 ? errno : bind_and_listen(socket.descriptor(), path);
  if (error != 0) return cannot_listen(path, error);
  path_ = path;
  listening_.assign(socket.release());
  return {};
}

Status Handover::publish() {
  if (::rename(new_path(path_).c_str(), path_.c_str()) != 0) return cannot_listen(path_, errno);
  published_ = true;
  wait_for_successor();
  return {};
}

void Handover::close() noexcept {
  if (!path_.empty()) ::unlink(published_ ? path_.c_str() : new_path(path_).c_str());
  path_.clear();
  error_code ignored;
  listening_.close(ignored);
  successor_.close(ignored);
}

void Handover::wait_for_successor() {
  listening_.async_wait(listening_.wait_read, [this](const error_code& why) {
    if (why) return;
    const int successor =
        ::accept4(listening_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (successor >= 0) give_sockets(successor);
    wait_for_successor();
  });
}

void Handover::give_sockets(int successor) {
  error_code ignored;
  if (successor_.is_open()) net::send_packet(successor_.native_handle(), kReplaced, {});
  successor_.close(ignored);
  successor_.assign(successor);
  if (!is_trusted(successor)) {
    log_.warning("a process of another user asked for the listening sockets");
    successor_.close(ignored);
    return;
  }
  const std::vector<int> all = descriptors_();
  std::span<const int> left = all;
  int error = 0;
  while (!left.empty() && error == 0) {
    const auto part = left.first(std::min(left.size(), net::kMostPassed));
    error = net::send_packet(successor, kSockets, part);
    left = left.subspan(part.size());
  }
  if (error == 0) error = net::send_packet(successor, kEnd, {});
  if (error == 0) return wait_for_ready();
  log_.warning("the listening sockets were not handed over", {{"why", text_of(error)}});
  successor_.close(ignored);
}

void Handover::wait_for_ready() {
  successor_.async_wait(successor_.wait_read, [this](const error_code& why) {
    if (why) return;  // there is another successor
    const auto packet = net::receive_packet(successor_.native_handle());
    if (packet && packet->text == kReady) return on_ready();
    error_code ignored;
    successor_.close(ignored);
  });
}

void Handover::on_ready() {
  if (!ends_first_() && !finish()) return;  // it has gone, so this server continues
  path_.clear();                            // the successor replaces the Unix socket
  error_code ignored;
  listening_.close(ignored);
  handed_over_();
}

bool Handover::finish() noexcept {
  if (!successor_.is_open()) return false;
  const int error = net::send_packet(successor_.native_handle(), kDone, {});
  error_code ignored;
  successor_.close(ignored);
  return error == 0;
}

Unexpected<std::string> Predecessor::failed(std::string_view why) const {
  return {"cannot take over from the server at " + path_ + ": " + std::string(why)};
}

Expected<std::unique_ptr<Predecessor>> Predecessor::find(const std::string& path) {
  const auto address = net::SocketAddress::of_unix(path);
  if (!address) return Unexpected{"drain.handover: the path is too long; at most 103 bytes"};
  std::unique_ptr<Predecessor> out(new Predecessor(path, open_socket(0)));
  const int socket = out->socket_.descriptor();
  if (::connect(socket, address->get(), address->size()) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) return std::unique_ptr<Predecessor>();
    return out->failed(text_of(errno));
  }
  if (!is_trusted(socket)) return out->failed("it has another user");
  out->process_ =
      net::FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, peer_of(socket).pid, 0)));
  if (auto received = out->receive_sockets(); !received) return Unexpected{received.error()};
  return out;
}

Status Predecessor::receive_sockets() {
  for (;;) {
    if (auto waited = wait("its sockets", kPatience); !waited) return waited;
    auto packet = net::receive_packet(socket_.descriptor());
    if (!packet) return failed("it did not answer");
    if (packet->text == kEnd) return {};
    for (auto& socket : packet->sockets) sockets_.push_back(std::move(socket));
    for (auto& lock : packet->locks) locks_.push_back(std::move(lock));
  }
}

// Waits until the predecessor says something or has ended. Errors: a signal that ends this process
// was received, or the time is over.
Status Predecessor::wait(std::string_view what, std::optional<std::chrono::seconds> at_most) {
  boost::asio::posix::stream_descriptor socket(loop_, socket_.descriptor());
  bool is_signalled = false;
  bool is_readable = false;
  signals_.async_wait([&](const error_code& why, int) {
    if (!why) is_signalled = true;
    loop_.stop();
  });
  socket.async_wait(socket.wait_read, [&](const error_code& why) {
    if (!why) is_readable = true;
    loop_.stop();
  });
  loop_.restart();
  if (at_most) {
    loop_.run_for(*at_most);
  } else {
    loop_.run();
  }
  signals_.cancel();
  socket.release();
  loop_.restart();
  loop_.poll();  // ends both waits
  if (is_signalled) return failed("a signal ended the wait for " + std::string(what));
  if (!is_readable) return failed("it did not answer");
  return {};
}

Expected<bool> Predecessor::succeed() {
  // The predecessor no longer accepts, so there is no limit. If it has ended, so has the wait.
  if (net::send_packet(socket_.descriptor(), kReady, {}) == 0) {
    if (auto waited = wait("its end", {}); !waited) return Unexpected{waited.error()};
  }
  const auto packet = net::receive_packet(socket_.descriptor());
  if (packet && packet->text == kDone) return true;
  if (packet && packet->text == kReplaced) return failed("it has another successor");
  return has_died() ? Expected<bool>(false) : failed("it has ended, or has another successor");
}

// Its sockets close before it has ended.
bool Predecessor::has_died() const {
  pollfd end{process_.get(), POLLIN, 0};
  return process_.get() >= 0 && ::poll(&end, 1, kDies) > 0;
}

}  // namespace sluice::server
