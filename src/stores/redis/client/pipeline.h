#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stores/redis/client/command.h"
#include "stores/redis/client/reply_reader.h"
#include "stores/redis/client/ring.h"

namespace sluice::redis {

// The commands under way on one connection, in the order of their replies, without I/O.
//
// Commands wait until open(), which is called after the handshake; from then on submit() writes
// each command to the output. next() returns the server's answers, one event per call, so that the
// caller may submit commands in between. A script that the server does not know (NOSCRIPT) is sent
// again as text. The first request that can be a command of Sluice's module is sent as one; whether
// the server executes it decides how the requests after its answer are sent. A command that the
// server has refused is sent again as a script. Nothing else is ever sent twice.
//
// Ownership: borrows the commands from submit() until it hands them back.
class Pipeline {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Pipeline(std::size_t max_pending) : max_pending_(max_pending) {}
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // False: the maximum number of commands is under way. `asking`: sends ASKING first.
  bool submit(Command& command, bool asking);
  void open();

  // Replaces `bytes` by the bytes to send next. They count as sent from handed() on.
  bool has_output() const noexcept { return !output_.empty(); }
  void take_output(std::string& bytes);
  void handed(std::size_t bytes) noexcept { handed_ += bytes; }

  enum class Kind : std::uint8_t {
    kNothing,  // more bytes are needed
    kAnswer,   // `command` has `reply`, which is no error
    kError,    // `command` has `reply`, which is one
    kScript,   // `command` was sent again with the text of its script
    kBroken,   // the connection must be closed: `why`
  };
  struct Event {
    Kind kind = Kind::kNothing;
    Command* command = nullptr;
    const redisReply* reply = nullptr;  // until the reader is used again
    std::string_view why = {};
  };
  Event next(ReplyReader& reader);

  struct Ended {
    Command* command = nullptr;
    bool sent = false;  // it may have been executed, or may be later
  };
  // Appends the commands whose deadlines have passed, and forgets them; drops their replies later.
  void expire(Time now, std::vector<Ended>& ended);
  std::optional<Time> next_deadline() const noexcept;
  // Appends all other commands, and forgets everything.
  void abandon(std::vector<Ended>& ended);

  // The number of commands; and the number of replies to come, also to commands that have ended.
  std::size_t live() const noexcept { return live_; }
  std::size_t in_flight() const noexcept { return open_ ? slots_.size() : 0; }

 private:
  // How a command was written, which decides what NOSCRIPT means.
  enum class Form : std::uint8_t {
    kPlain,
    kModule,
    kHash,       // EVALSHA
    kHashAgain,  // EVALSHA after an EVAL of the same script that is under way
    kText,       // EVAL
  };
  struct Slot {
    Command* command = nullptr;  // null: ended; its reply is dropped
    Time deadline = {};
    std::uint64_t begin = 0;  // the position of its bytes in all output
    Form form = Form::kPlain;
    bool asking = false;
    std::uint8_t ignored = 0;  // replies before its own, such as that to ASKING
  };
  struct SentText {
    const Script* script = nullptr;
    std::uint64_t number = 0;  // of its slot, counted from the first one
  };

  // Whether the server has the module.
  enum class Module : std::uint8_t { kUnknown, kAsked, kPresent, kAbsent };

  Form form_of(const Command& command) noexcept;
  // Returns whether the module has not executed a command, so that a script can.
  bool note_module(const redisReply& reply) noexcept;
  void push(Slot slot);
  void write(Slot& slot);
  // True: sent as text. False: sent as hash again.
  bool send_anew(Slot slot);
  bool text_is_under_way(const Script* script) noexcept;
  bool was_sent(const Slot& slot) const noexcept { return open_ && slot.begin < handed_; }

  std::size_t max_pending_;
  bool open_ = false;
  Module module_ = Module::kUnknown;
  Ring<Slot> slots_;
  std::uint64_t first_ = 0;  // number of the slot at the front
  std::size_t live_ = 0;
  Time latest_ = {};        // the latest deadline of the commands under way
  bool unordered_ = false;  // a command under way has an earlier deadline than one before it
  std::string output_;
  std::uint64_t written_ = 0;
  std::uint64_t handed_ = 0;
  std::vector<SentText> texts_;
  std::size_t dead_ = 0;  // slots at the front that have ended
};

}  // namespace sluice::redis
