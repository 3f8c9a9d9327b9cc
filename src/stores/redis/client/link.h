#pragma once

#include <algorithm>
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

// One connection to one server as a state machine without I/O: bytes and events in, actions out.
//
//   connecting --on_connected()--> handshake --> ready --> ended
//
// After each event the shell executes next() until it returns kNothing, sends has_output(), and
// calls on_timer() at wake_at(). A command that submit() accepts is handed back by exactly one
// kFinish or kError. Actions may be executed in any context that allows submit() to be called.
//
// Ownership: borrows each command until it is handed back. Single-threaded. Cost: no allocation
// per command once its buffers have grown.
class LinkMachine {
 public:
  using Duration = std::chrono::steady_clock::duration;

  explicit LinkMachine(LinkOptions options);

  // Returns why the command is refused; empty if it is accepted. `asking`: sends ASKING first.
  // Commands that are submitted before the handshake is complete wait for it.
  std::string_view submit(Command& command, bool asking, Time now);

  void on_connected(Time now);
  // The buffer for bytes from the server, then the number of bytes that were read into it.
  std::span<char> room() { return reader_.prepare(kReadSize); }
  void on_input(std::size_t bytes, Time now);
  // Bytes of take_output() that the operating system has accepted.
  void on_output(std::size_t bytes) noexcept;
  void on_timer(Time now);
  // The connection could not be made, was lost, or must be closed.
  void on_closed(std::string_view why);

  LinkAction next();

  bool has_output() const noexcept { return !greeting_.empty() || pipeline_.has_output(); }
  // Replaces `bytes` by the output. While it is being sent there may be more.
  void take_output(std::string& bytes);

  // When to call on_timer(); Time::max(): there is nothing to wait for.
  Time wake_at() const noexcept { return wake_at_; }
  bool is_ready() const noexcept { return phase_ == Phase::kReady; }
  // Commands that have not been handed back.
  std::size_t pending() const noexcept { return pipeline_.live(); }

  // After the end.
  bool was_ready() const noexcept { return was_ready_; }
  const std::string& why() const noexcept { return why_; }

 private:
  enum class Phase : std::uint8_t { kConnecting, kHandshake, kReady, kClosing, kEnded };
  static constexpr std::size_t kReadSize = 16 << 10;

  bool has_ended() const noexcept { return phase_ >= Phase::kClosing; }
  void wake_by(Time at) noexcept { wake_at_ = std::min(wake_at_, at); }
  LinkAction continue_handshake();
  void take(Handshake::Step step);
  LinkAction answer_commands();
  void shut(std::string_view why);

  LinkOptions options_;
  Phase phase_ = Phase::kConnecting;
  Handshake handshake_;
  Pipeline pipeline_;
  ReplyReader reader_;
  std::string greeting_;             // the handshake's next message
  std::size_t greeting_unsent_ = 0;  // bytes of it that were taken and not yet accepted
  Time wake_at_ = Time::max();
  Time last_heard_ = {};           // of the last byte, or since when a reply is outstanding
  std::vector<LinkAction> ended_;  // commands to be handed back
  std::size_t finished_ = 0;       // of these
  bool is_closed_ = false;
  bool was_ready_ = false;
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

// One connection to one server, from connecting and the handshake to its end: executes what
// LinkMachine decides, on a transport and a timer of the loop. It does not reconnect: its owner
// makes another link, after a backoff.
//
// Thread-safety: the loop's thread only. Ownership: borrows the owner, its loop and the counters.
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

  bool ready() const noexcept { return machine_.is_ready(); }
  std::size_t pending() const noexcept { return machine_.pending(); }
  const ServerAddress& address() const noexcept { return address_; }

  // For the transport: see LinkMachine. on_closed() is its last call.
  void on_connected();
  std::span<char> room() { return machine_.room(); }
  void on_input(std::size_t bytes);
  void take_output(std::string& bytes) { machine_.take_output(bytes); }
  void on_output(std::size_t bytes);
  void on_closed(const std::string& why);

 private:
  Link(LinkOwner& owner, ServerAddress address, LinkOptions options, LinkCounters& counters);

  void close() noexcept;
  void execute();
  void on_ready();
  void finish(Command& command, const Answer& answer) noexcept;
  void on_server_error(const LinkAction& action);
  void close_socket() noexcept;
  void settle();
  void on_timer();

  EventLoop& loop_;
  ServerAddress address_;
  LinkOwner* owner_;  // null: it is not called any more
  LinkCounters& counters_;
  LinkMachine machine_;
  std::unique_ptr<Timer> timer_;
  Time timer_at_ = Time::max();
  std::shared_ptr<Transport> transport_;
};

}  // namespace sluice::redis
