#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"
#include "stores/redis/client/handshake.h"
#include "stores/redis/client/pipeline.h"
#include "stores/redis/client/reply_reader.h"

namespace sluice::redis {

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

  struct Options {
    Handshake::Options handshake = {};
    std::size_t max_pending = 16'384;
    // The longest time without a byte from the server, during the handshake and while replies are
    // outstanding.
    Duration connect_timeout = std::chrono::seconds{1};
    Duration longest_silence = std::chrono::seconds{1};
  };
  explicit LinkMachine(Options options);

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

  struct Action {
    enum class Kind : std::uint8_t {
      kNothing,     // wait for the next event
      kReady,       // the handshake is complete
      kFinish,      // call command->done(answer)
      kError,       // as kFinish, or send the command to another server
      kScriptSent,  // the server did not know command->script, which was sent again as text
      kClose,       // close the socket
      kEnded,       // the last action: all commands have been handed back
    };
    Kind kind = Kind::kNothing;
    Command* command = nullptr;
    Answer answer = {};  // valid until the next call of a member
  };
  Action next();

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
  Action continue_handshake();
  void take(Handshake::Step step);
  Action answer_commands();
  Action finish_next() noexcept;
  void shut(std::string_view why);

  Options options_;
  Phase phase_ = Phase::kConnecting;
  Handshake handshake_;
  Pipeline pipeline_;
  ReplyReader reader_;
  std::string greeting_;             // the handshake's next message
  std::size_t greeting_unsent_ = 0;  // bytes of it that were taken and not yet accepted
  Time wake_at_ = Time::max();
  Time last_heard_ = {};  // of the last byte, or since when a reply is outstanding
  // Commands to be handed back: the first `expired_` by their deadlines, the rest at the end.
  std::vector<Pipeline::Ended> ended_;
  std::size_t expired_ = 0;
  std::size_t finished_ = 0;
  bool is_closed_ = false;
  bool was_ready_ = false;
  std::string why_;
};

}  // namespace sluice::redis
