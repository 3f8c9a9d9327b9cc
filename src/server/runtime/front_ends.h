#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "server/api/admin/status_page.h"
#include "server/protocol/http/access.h"
#include "server/runtime/admin_front_end.h"
#include "server/runtime/front_end.h"

namespace sluice::server {

// The front ends of a server, and its administration.
//
// Thread-safety and ownership: as FrontEnd.
class FrontEnds {
 public:
  FrontEnds(const FrontEndParts& parts, AdminParts admin);

  // Reads the clients' tokens, warns of weak ones, and listens: the front ends with a socket for
  // each loop, the administration with one. Errors: the first, as one line.
  Expected<bool> open(std::size_t loops, net::InheritedSockets& inherited);
  // Starts the front ends that are open in the loop of that number.
  void start(Loop& loop, std::size_t number);
  // Starts the administration; null if it is off.
  std::unique_ptr<net::LoopFrontEnd> start_administration(const LoopServices& loop);
  // Removes the Unix sockets, except for the administration's.
  void unlink() noexcept;
  // All listening sockets, while no loop has stopped accepting.
  std::vector<int> descriptors() const;
  // Leaves all Unix sockets to another process.
  void keep_unix_sockets() noexcept;
  // Reads the files of the front ends again. Logs errors.
  void reload(Log& log);

  // "ready http=127.0.0.1:8080 grpc=off resp=off admin=127.0.0.1:6070"
  std::string ready_line() const;
  // A command that tries the built-in rules, or nothing.
  std::string example() const;
  // Open connections, except for the administration's.
  std::size_t connections() const noexcept;
  // The sum of the maximums of all that listen, the administration among them.
  std::size_t most_connections() const;
  std::vector<ServerStatus::Listener> status() const;

 private:
  const Config& config_;
  Log& log_;
  std::vector<KnownClient> clients_;  // borrowed by the front ends
  std::vector<std::unique_ptr<FrontEnd>> all_;
  std::unique_ptr<FrontEnd> admin_;
};

}  // namespace sluice::server
