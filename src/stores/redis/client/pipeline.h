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
// While it is closed (no handshake yet) commands wait; from open() on each is written to output()
// as it is submitted. What the server answers comes out of next(), one event a call, so that
// whoever executes them may submit others in between. A script that the server does not know
// (NOSCRIPT) is sent again with its text; nothing else is ever sent twice.
//
// Ownership: borrows the commands from submit() until it hands them back.
class Pipeline {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit Pipeline(std::size_t max_pending) : max_pending_(max_pending) {}
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // False: as many are under way as may be. Preceded by ASKING where `asking`.
  bool submit(Command& command, bool asking);
  void open();

  // Bytes to be sent, in order: output() is emptied into `bytes`, which should be empty. They count
  // as sent when handed() is told.
  bool has_output() const noexcept { return !output_.empty(); }
  void take_output(std::string& bytes);
  void handed(std::size_t bytes) noexcept { handed_ += bytes; }

  enum class Kind : std::uint8_t {
    kNothing,  // more bytes are needed
    kAnswer,   // `command` has `reply`, which is no error
    kError,    // `command` has `reply`, which is one
    kScript,   // `command` was sent anew with the text of its script
    kBroken,   // the connection is of no use any more: `why`
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
    bool sent = false;  // it may have been done, or may be yet
  };
  // Those whose deadline has come are appended, and forgotten; their replies will be dropped.
  void expire(Time now, std::vector<Ended>& ended);
  std::optional<Time> next_deadline() const noexcept;
  // All that are left, and forgets everything.
  void abandon(std::vector<Ended>& ended);

  // Commands, and commands whose replies are still to come though they have ended.
  std::size_t live() const noexcept { return live_; }
  std::size_t in_flight() const noexcept { return open_ ? slots_.size() : 0; }

 private:
  // How a command was written, and so what NOSCRIPT to it means.
  enum class Form : std::uint8_t {
    kPlain,
    kHash,       // EVALSHA
    kHashAgain,  // EVALSHA behind an EVAL of the same script that is under way
    kText,       // EVAL
  };
  struct Slot {
    Command* command = nullptr;  // null: ended; its reply is dropped
    Time deadline = {};
    std::uint64_t begin = 0;  // of its bytes among all that were ever written
    Form form = Form::kPlain;
    bool asking = false;
    std::uint8_t ignored = 0;  // replies before its own: that to ASKING
  };
  struct SentText {
    const Script* script = nullptr;
    std::uint64_t number = 0;  // of its slot, counted from the first that ever was
  };

  void push(Slot slot);
  void write(Slot& slot);
  void write_head(std::size_t elements);
  void write_element(std::string_view element);
  // True: its text was sent, rather than its hash once more.
  bool send_anew(Slot slot);
  bool text_is_under_way(const Script* script) noexcept;
  bool was_sent(const Slot& slot) const noexcept { return open_ && slot.begin < handed_; }

  std::size_t max_pending_;
  bool open_ = false;
  Ring<Slot> slots_;
  std::uint64_t first_ = 0;  // number of the slot at the front
  std::size_t live_ = 0;
  Time latest_ = {};        // deadline of those under way, unless:
  bool unordered_ = false;  // a command under way has an earlier deadline than one before it
  std::string output_;
  std::uint64_t written_ = 0;
  std::uint64_t handed_ = 0;
  std::vector<SentText> texts_;
  std::size_t dead_ = 0;  // slots at the front that have ended
};

}  // namespace sluice::redis
