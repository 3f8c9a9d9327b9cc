#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/net/file_lock.h"
#include "server/net/listening_socket.h"

namespace sluice::server::net {

// Returns the listening sockets that a service manager has opened for this process, by the protocol
// of sd_listen_fds(3). Call it once, before threads start.
InheritedSockets take_activated_sockets();

// A message between two processes.
struct Packet {
  std::string text;
  InheritedSockets sockets;
  std::vector<FileLock> locks;  // its regular files
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
