#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/server_address.h"

namespace sluice::redis {

// What the links of one event loop have done and are doing. Written by the loop's thread, read from
// any.
struct LinkCounters {
  std::atomic<std::uint64_t> requests{0};  // submitted; one that is redirected counts twice
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> errors{0};  // ended with kError, kLost or kUnavailable
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> scripts_sent{0};
  std::atomic<std::size_t> connected{0};  // links that are ready now
  std::atomic<std::size_t> pending{0};    // commands under way
};

// One connection to one server, from connecting and the handshake to its end: the shell of sockets
// and timers around Handshake and Pipeline, which know no I/O. It does not reconnect: whoever owns
// it makes another, after a backoff.
//
// Used by its loop's thread only. Destroying it ends the commands under way (kLost, or kUnavailable
// where nothing of them was sent).
class Link {
 public:
  // Who owns a link. May destroy it in on_ended(), but not in the others.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The handshake is done: commands are sent from now on.
    virtual void on_ready(Link& link) = 0;
    // It could not be made, or has ended. The commands under way have ended already.
    virtual void on_ended(Link& link, std::string_view why, bool was_ready) = 0;
    // The server answered a command with an error (not NOSCRIPT, which the link settles itself).
    // True: the owner has taken the command, and sends it elsewhere or ends it; else the link ends
    // it with kError.
    virtual bool on_error(Link& link, Command& command, std::string_view error) = 0;
    // The server did not know a script, which was therefore sent anew.
    virtual void on_script_sent(Link& link, const Script& script) {
      (void)link;
      (void)script;
    }
  };

  // Connects at once. `purpose`: a Sentinel has other credentials, and no database. `read_only`
  // commands are not needed: every link is to a master (or a Sentinel). `counters` may be shared by
  // all links of the loop, and must outlive them.
  enum class Purpose : std::uint8_t { kServer, kSentinel };
  Link(boost::asio::io_context& loop, std::shared_ptr<const Target> target, ServerAddress address,
       Purpose purpose, Owner& owner, LinkCounters* counters = nullptr);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Sent with what else is submitted in this turn of the loop; before on_ready() it waits for it.
  // Ends by command.deadline. kUnavailable at once where max_pending are under way.
  // `asking`: preceded by ASKING (cluster/).
  void submit(Command& command, bool asking = false) noexcept;  // NOLINT(bugprone-exception-escape)

  bool ready() const noexcept;
  std::size_t pending() const noexcept;
  const ServerAddress& address() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // what it waits for may outlast the link
};

}  // namespace sluice::redis
