#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sluice/redis_store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/pipeline.h"

namespace sluice::redis {

// How to connect to a server.
struct LinkOptions {
  std::string username = {};
  std::string password = {};
  int protocol = 0;  // 2, 3, or 0: 3 if the server speaks it
  int database = 0;
  bool only_master = false;  // refuse a server that is a replica
  std::size_t max_pending = 16'384;
  // The longest time without a byte from the server, during the handshake and while replies are
  // outstanding.
  std::chrono::steady_clock::duration connect_timeout = std::chrono::seconds{1};
  std::chrono::steady_clock::duration longest_silence = std::chrono::seconds{1};
};

// The first messages of a new connection, without I/O: HELLO 3 with user, password and name, or
// AUTH and CLIENT SETNAME in RESP2 if the server does not know HELLO; then SELECT and ROLE.
//
//   begin() -> send output() -> on_reply() -> send output() ... until kReady or kFailed
class Handshake {
 public:
  enum class Step : std::uint8_t {
    kHello,
    kAuth,
    kName,
    kSelect,
    kRole,
    kReady,   // commands may be sent
    kFailed,  // why() has the reason
  };

  explicit Handshake(LinkOptions options) : options_(std::move(options)) {}

  Step begin();
  Step on_reply(const Reply& reply);

  std::string_view output() const noexcept { return output_; }
  const std::string& why() const noexcept { return why_; }

 private:
  Step enter(Step step);
  Step after_name();
  Step begin_resp2();
  Step on_error(std::string_view error);
  Step on_hello_refused(std::string_view error);
  bool is_master(std::string_view role);
  Step fail(std::string_view what, std::string_view said = {});
  void say(std::initializer_list<std::string_view> elements);

  LinkOptions options_;
  Step step_ = Step::kHello;
  bool role_known_ = false;
  std::string output_;
  std::string why_;
};

// Counts of the links of one event loop. Written by the loop's thread, read from any thread.
struct LinkCounters {
  std::atomic<std::uint64_t> requests{0};  // submitted; one that is redirected counts twice
  std::atomic<std::uint64_t> timeouts{0};
  std::atomic<std::uint64_t> errors{0};  // ended with kError, kLost or kUnavailable
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> scripts_sent{0};
  std::atomic<std::uint64_t> redirects{0};
  std::atomic<std::size_t> connected{0};  // links that are ready now
  std::atomic<std::size_t> pending{0};    // commands under way

  // Only the loop's thread writes, so that no locked instruction is needed.
  template <typename T>
  static void add(std::atomic<T>& counter, std::type_identity_t<T> change) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
  }
  RedisStoreStats read() const noexcept {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    return {.requests = requests.load(kRelaxed),
            .timeouts = timeouts.load(kRelaxed),
            .errors = errors.load(kRelaxed),
            .connects = connects.load(kRelaxed),
            .scripts_sent = scripts_sent.load(kRelaxed),
            .redirects = redirects.load(kRelaxed),
            .connected = connected.load(kRelaxed),
            .pending = pending.load(kRelaxed)};
  }
};

struct Target;  // target.h
class Link;

// What the clients of one server, of the master that Sentinels name, and of a cluster have in
// common. Their links call it.
class LinkOwner : public Client {
 public:
  LinkOwner(std::unique_ptr<EventLoop> loop, std::shared_ptr<const Target> target,
            StoreObserver* observer);

  std::string why() const final { return why_; }
  RedisStoreStats stats() const noexcept final { return counters_.read(); }

 protected:
  friend class Link;
  // Only on_ended() may release the link.
  //
  // The handshake is complete: commands are sent from now on.
  virtual void on_ready(Link& link) = 0;
  // The connection could not be made, or has ended, as have the commands that were under way.
  virtual void on_ended(Link& link, std::string_view why, bool was_ready) = 0;
  // The server answered a command with an error other than NOSCRIPT, which the link handles. True:
  // the owner takes the command, to send it elsewhere or end it. False: the link ends it with
  // kError.
  virtual bool on_error(Link& link, Command& command, std::string_view error) = 0;

  void emit(StoreEventKind kind, std::string_view endpoint, std::string_view why) noexcept;
  // Ends a command that was not sent.
  void refuse(Command& command, std::string_view why) noexcept;

  const std::unique_ptr<EventLoop> loop_;
  const std::shared_ptr<const Target> target_;
  LinkCounters counters_;
  std::string why_ = "not connected yet";  // the last failure

 private:
  StoreObserver* observer_;
};

// One connection to one server, on a transport and a timer of the loop. It does not reconnect: its
// owner makes another link, after a backoff.
//
//   connecting --on_connected()--> handshake --> ready --> ending --> ended
//
// Thread-safety: the loop's thread only. Ownership: borrows the owner, its loop and the counters,
// and each command until it ends. Cost: no allocation per command once its buffers have grown.
class Link final : public std::enable_shared_from_this<Link> {
 public:
  // Connects at once. Releasing the link ends the commands under way without calling the owner:
  // kLost, or kUnavailable if nothing of them was sent.
  static std::shared_ptr<Link> connect(LinkOwner& owner, ServerAddress address, LinkOptions options,
                                       LinkCounters& counters);

  // Sends the command together with all others of this turn of the loop; before on_ready() it
  // waits. It ends by command.deadline, or with kUnavailable at once if max_pending are under way.
  // `asking`: sends ASKING first (a cluster). Ends the process if there is no memory.
  void submit(Command& command, Time now, bool asking = false) noexcept;

  bool ready() const noexcept { return phase_ == Phase::kReady; }
  // Commands that have not ended.
  std::size_t pending() const noexcept { return pipeline_.live(); }
  const ServerAddress& address() const noexcept { return address_; }

  // For the transport. on_closed() is its last call.
  void on_connected();
  // The buffer for bytes from the server, then the number of bytes that were read into it.
  std::span<char> room() { return reader_.prepare(kReadSize); }
  void on_input(std::size_t bytes);
  // Replaces `bytes` by the output; while it is being sent there may be more. Then the number of
  // its bytes that the operating system has accepted.
  void take_output(std::string& bytes);
  void on_output(std::size_t bytes);
  // The connection could not be made, or was lost.
  void on_closed(const std::string& why);

 private:
  enum class Phase : std::uint8_t { kConnecting, kHandshake, kReady, kEnding, kEnded };
  static constexpr std::size_t kReadSize = 16 << 10;

  Link(LinkOwner& owner, ServerAddress address, LinkOptions options, LinkCounters& counters);

  bool has_ended() const noexcept { return phase_ >= Phase::kEnding; }
  void close() noexcept;
  void end(std::string_view why);
  // Does what follows from an event, until there is nothing to do. Commands and the owner, which it
  // calls, may submit others and release the link.
  void execute();
  bool execute_next();
  bool continue_handshake();
  void take(Handshake::Step step);
  bool answer_command();
  void finish(Command& command, const Answer& answer) noexcept;
  void flush();
  void on_timer();
  void wake_by(Time at) noexcept;

  EventLoop& loop_;
  ServerAddress address_;
  LinkOwner* owner_;  // null: it is not called any more
  LinkCounters& counters_;
  LinkOptions options_;
  Phase phase_ = Phase::kConnecting;
  Handshake handshake_;
  Pipeline pipeline_;
  ReplyReader reader_;
  std::string greeting_;                // the handshake's next message
  std::size_t greeting_unsent_ = 0;     // bytes of it that were taken and not yet accepted
  Time last_heard_ = {};                // of the last byte, or since when a reply is outstanding
  std::vector<Pipeline::Event> ended_;  // commands that end without an answer of the server
  std::size_t finished_ = 0;            // of these
  bool was_ready_ = false;              // before the end
  std::string why_;                     // of the end
  std::unique_ptr<Timer> timer_;
  Time wake_at_ = Time::max();  // when the timer is due
  std::shared_ptr<Transport> transport_;
};

}  // namespace sluice::redis
