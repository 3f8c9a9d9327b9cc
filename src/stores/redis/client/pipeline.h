#pragma once

#include <boost/circular_buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stores/redis/client/command.h"
#include "stores/redis/client/event_loop.h"

namespace sluice::redis {

// Reads replies from bytes of RESP2 and RESP3.
//
// The types of RESP3 are returned as those of RESP2: null as nil; booleans as integers 1 and 0;
// doubles, big numbers and verbatim strings (without their "txt:") as strings; sets as arrays; maps
// as arrays of keys and values; blob errors as errors. Attributes and pushes are skipped.
//
// Nothing is copied: the texts of a reply are in the reader's buffer, and its nodes in an arena, so
// that reading allocates nothing once both have grown. Bytes, elements and depth of one reply are
// bounded; a larger reply is refused when its head is read.
class ReplyReader {
 public:
  struct Bounds {
    std::size_t reply_bytes = std::size_t{64} << 20;
    std::size_t line_bytes = 64 << 10;  // of a line: an error, a status, a number
    std::size_t elements = 1 << 20;     // of one reply, those within others included
    std::size_t depth = 16;
  };
  enum class Progress : std::uint8_t {
    kReply,  // reply() is valid until the next call of a member
    kMore,   // more bytes are needed
    kBad,    // the bytes are no reply: why(); the reader stays in this state
  };

  ReplyReader() = default;
  explicit ReplyReader(const Bounds& bounds) : bounds_(bounds) {}
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // Returns a buffer of at least `at_least` bytes; then the number of bytes that were read into it.
  std::span<char> prepare(std::size_t at_least);
  void commit(std::size_t bytes) noexcept { end_ += bytes; }
  void feed(std::string_view bytes);  // both at once

  Progress next();
  const Reply& reply() const noexcept { return nodes_.front(); }
  std::string_view why() const noexcept { return why_; }

 private:
  std::string_view unread() const noexcept { return {data_.get() + begin_, end_ - begin_}; }
  void start_over() noexcept;
  Progress bad(std::string_view why);
  // Looks for the end of the reply, from where the last search ended.
  Progress scan();
  bool scan_head(std::string_view head);
  bool scan_bulk(std::int64_t length);
  bool scan_aggregate(char type, std::int64_t length);
  void make_room();
  // Builds the nodes of a complete reply.
  bool build(Reply& node, std::size_t depth);
  bool build_scalar(Reply& node, char type, std::string_view text);
  bool build_bulk(Reply& node, char type, std::int64_t length);
  bool build_aggregate(Reply& node, std::int64_t count, std::size_t depth);
  bool skip_attribute(std::int64_t pairs, std::size_t depth);
  std::string_view take_line() noexcept;

  Bounds bounds_ = {};
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;  // of the current reply
  std::size_t end_ = 0;    // of the bytes that were read

  std::size_t scanned_ = 0;   // bytes of the reply that were scanned; may be beyond the end
  std::size_t searched_ = 0;  // bytes after those that contain no end of a line
  std::uint64_t wanted_ = 1;  // elements until the reply is complete
  std::size_t elements_ = 1;
  std::size_t reply_end_ = 0;  // of the last reply, relative to begin_

  std::size_t cursor_ = 0;  // of build(), into data_
  std::size_t used_ = 0;
  std::vector<Reply> nodes_;
  bool push_ = false;
  std::string why_;
};

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
  struct Event {
    enum class Kind : std::uint8_t {
      kNothing,     // more bytes are needed
      kFinish,      // the command has ended with the answer
      kScriptSent,  // the server did not know command->script, which was sent again as text
      kBroken,      // the connection is of no use any more, because of answer.text
    };
    Kind kind = Kind::kNothing;
    Command* command = nullptr;
    Answer answer = {};  // valid until the next call of a member
  };

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

  // Reads the next reply.
  Event next(ReplyReader& reader);

  // Appends the commands whose deadlines have passed, and forgets them; drops their replies later.
  void expire(Time now, std::vector<Event>& ended);
  std::optional<Time> next_deadline() const noexcept;
  // Appends all other commands, and forgets everything. `why` must outlive their answers.
  void abandon(std::string_view why, std::vector<Event>& ended);

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

  // Whether the server has the module.
  enum class Module : std::uint8_t { kUnknown, kAsked, kPresent, kAbsent };

  Form form_of(const Command& command) noexcept;
  // Returns whether the module has not executed a command, so that a script can.
  bool note_module(const Reply& reply) noexcept;
  void push(Slot slot);
  void append(const Slot& slot);
  Slot take_first() noexcept;
  void write(Slot& slot);
  // True: sent as text. False: sent as hash again.
  bool send_anew(Slot slot);
  bool text_is_under_way(const Script* script) const noexcept;
  bool was_sent(const Slot& slot) const noexcept { return open_ && slot.begin < handed_; }

  std::size_t max_pending_;
  bool open_ = false;
  Module module_ = Module::kUnknown;
  // It only grows, so that a steady flow allocates nothing.
  boost::circular_buffer<Slot> slots_;
  std::uint64_t first_ = 0;  // number of the slot at the front
  std::size_t live_ = 0;
  Time latest_ = {};        // the latest deadline of the commands under way
  bool unordered_ = false;  // a command under way has an earlier deadline than one before it
  std::string output_;
  std::uint64_t written_ = 0;
  std::uint64_t handed_ = 0;
  // The number of the last slot with the text of a script, counted from the first slot.
  std::unordered_map<const Script*, std::uint64_t> texts_;
  std::size_t dead_ = 0;  // slots at the front that have ended
};

}  // namespace sluice::redis
