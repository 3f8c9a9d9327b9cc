#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/logging/log.h"
#include "server/net/file_lock.h"
#include "server/net/listening_socket.h"
#include "sluice/expected.h"

namespace sluice::server::net {

// Returns the listening sockets that a service manager has opened for this process, by the protocol
// of sd_listen_fds(3). Call it once, before threads start.
InheritedSockets take_activated_sockets();

// A message between two processes.
struct Packet {
  std::string text;
  InheritedSockets sockets;
  std::vector<FileDescriptor> locks;  // its regular files
};
// The most descriptors of a packet.
inline constexpr std::size_t kMostPassed = 128;
// Sends a packet with copies of the descriptors over a Unix socket of packets. Returns 0 or the
// error.
int send_packet(int socket, std::string_view text, std::span<const int> descriptors) noexcept;
// Receives a packet. Returns nothing at the end of the stream or after an error. Closes descriptors
// of other kinds.
std::optional<Packet> receive_packet(int socket);

}  // namespace sluice::server::net

namespace sluice::server {

// The server that this process succeeds. See Handover.
class Predecessor {
 public:
  // Receives the sockets of the server that waits at the path. Returns null if there is none.
  // Errors: one line.
  static Expected<std::unique_ptr<Predecessor>> find(const std::string& path);

  net::InheritedSockets take_sockets() noexcept { return std::move(sockets_); }
  std::vector<net::FileDescriptor> take_locks() noexcept { return std::move(locks_); }
  net::FileDescriptor take_process() noexcept { return std::move(process_); }
  // The predecessor stops accepting. From then on, this process must accept. Waits until it says
  // that it is done: returns false if it has died instead. Errors: one line; it has another
  // successor, or SIGTERM, SIGINT or SIGPWR ends the wait.
  Expected<bool> succeed();

 private:
  Predecessor(std::string path, net::ListeningSocket socket)
      : path_(std::move(path)), socket_(std::move(socket)) {}
  Status receive_sockets();
  Status wait(std::string_view what, std::optional<std::chrono::seconds> at_most);
  bool has_died() const;
  Unexpected<std::string> failed(std::string_view why) const;

  boost::asio::io_context loop_{1};
  // From the start on, so that none is missed between two waits.
  boost::asio::signal_set signals_{loop_, SIGTERM, SIGINT, SIGPWR};
  const std::string path_;
  net::ListeningSocket socket_;
  // A descriptor of the process (pidfd_open), if there is one.
  net::FileDescriptor process_;
  net::InheritedSockets sockets_;
  std::vector<net::FileDescriptor> locks_;
};

// A server that hands over to its successor: gives it copies of its listening sockets and of the
// lock of its snapshot, and stops accepting when the successor is ready. Connections that arrive
// meanwhile stay in the queues of the sockets, so that none is refused. A server with a snapshot
// decides nothing more once the successor begins, so the successor knows every unit it admitted.
//
//   successor                       predecessor
//   connects to the Unix socket
//                                   "sockets" with descriptors, as often as needed; "end"
//   "ready"
//                                   stops accepting and drains
//                                   with a snapshot: after its last connection, writes it
//                                   "done" (without a snapshot: before it stops accepting)
//   reads the snapshot, accepts
//
// A successor that another one replaces gets "replaced". If the predecessor dies meanwhile, the
// successor, which has the sockets, goes on with the last snapshot.
//
// Both have the same user. Thread-safety: the thread of `main`.
class Handover {
 public:
  // `descriptors`: to give. `handed_over`: this server must stop accepting. `ends_first`: whether
  // the successor waits for finish(); otherwise it begins before handed_over().
  Handover(
      boost::asio::io_context& main, Log& log, std::function<std::vector<int>()> descriptors,
      std::function<void()> handed_over, std::function<bool()> ends_first = [] { return false; });
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  ~Handover() { close(); }

  // Takes the sockets of a service manager, and those of the server that waits at the path, if
  // there is one. An empty path: of no server. Errors: one line.
  Expected<net::InheritedSockets> inherit(const std::string& path);
  bool has_predecessor() const noexcept { return predecessor_ != nullptr; }
  // The locks of that server, which it shares with this process from now on.
  std::vector<net::FileDescriptor> take_locks() noexcept {
    return predecessor_ ? predecessor_->take_locks() : std::vector<net::FileDescriptor>();
  }
  // Replaces that server, if there is one, and waits for a successor. From then on, this process
  // must accept. Does nothing if the path is empty. Logs a warning if that server has died while it
  // was to end. Errors: one line.
  Status succeed(const std::string& path);
  // The process that this one has succeeded (pidfd_open), which may not have ended yet; or none.
  net::FileDescriptor take_process() noexcept { return std::move(process_); }

  // Makes the Unix socket for that path, next to that of a predecessor. Errors: one line.
  Status open(const std::string& path);
  // Waits for a successor at the path, where from now on no other server waits. Errors: one line.
  Status publish();
  // Lets a successor begin that waits for this server's end. Returns whether there is one.
  bool finish() noexcept;
  // Hands over to no successor any more, and removes the Unix socket unless a successor has it.
  void close() noexcept;

 private:
  void wait_for_successor();
  void give_sockets(int successor);
  void wait_for_ready();
  void on_ready();

  Log& log_;
  const std::function<std::vector<int>()> descriptors_;
  const std::function<void()> handed_over_;
  const std::function<bool()> ends_first_;
  std::unique_ptr<Predecessor> predecessor_;
  net::FileDescriptor process_;
  std::string path_;  // empty: a successor has it
  bool published_ = false;
  boost::asio::posix::stream_descriptor listening_;
  boost::asio::posix::stream_descriptor successor_;  // of which there is one at a time
};

}  // namespace sluice::server
