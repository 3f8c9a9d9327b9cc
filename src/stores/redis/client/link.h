#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

struct Target;  // target.h

// Counts of the links of one event loop. Written by the loop's thread, read from any thread.
struct LinkCounters {
  std::atomic<std::uint64_t> requests{0};  // submitted; one that is redirected counts twice
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> errors{0};  // ended with kError, kLost or kUnavailable
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> scripts_sent{0};
  std::atomic<std::size_t> connected{0};  // links that are ready now
  std::atomic<std::size_t> pending{0};    // commands under way
};

// One connection to one server, from connecting and the handshake to its end: executes what
// LinkMachine decides, on a transport and a timer of the loop. It does not reconnect: its owner
// makes another link, after a backoff.
//
// Thread-safety: the loop's thread only. Ownership: borrows the loop, the owner and the counters.
// Destroying it ends the commands under way: kLost, or kUnavailable if nothing of them was sent.
class Link {
 public:
  // May destroy the link in on_ended(), but not in the other functions.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The handshake is complete: commands are sent from now on.
    virtual void on_ready(Link& link) = 0;
    // The connection could not be made, or has ended, as have the commands that were under way.
    virtual void on_ended(Link& link, std::string_view why, bool was_ready) = 0;
    // The server answered a command with an error other than NOSCRIPT, which the link handles.
    // True: the owner takes the command, to send it elsewhere or end it. False: the link ends it
    // with kError.
    virtual bool on_error(Link& link, Command& command, std::string_view error) = 0;
    // The server did not know a script, which was sent again.
    virtual void on_script_sent(Link& link, const Script& script) {
      (void)link;
      (void)script;
    }
  };

  // Connects at once. `purpose`: a Sentinel has other credentials, and no database.
  enum class Purpose : std::uint8_t { kServer, kSentinel };
  Link(EventLoop& loop, std::shared_ptr<const Target> target, ServerAddress address,
       Purpose purpose, Owner& owner, LinkCounters& counters);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Sends the command together with all others of this turn of the loop; before on_ready() it
  // waits. It ends by command.deadline, or with kUnavailable at once if max_pending are under way.
  // `asking`: sends ASKING first (cluster/). Ends the process if there is no memory.
  void submit(Command& command, Time now, bool asking = false) noexcept;

  bool ready() const noexcept;
  std::size_t pending() const noexcept;
  const ServerAddress& address() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // the transport may outlive the link
};

}  // namespace sluice::redis
