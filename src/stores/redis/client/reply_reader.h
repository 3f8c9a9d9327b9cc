#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::redis {

// Bytes of RESP2 and RESP3 in, replies out, in the form of hiredis' redisReply.
//
// The types of RESP3 are returned as those of RESP2: null as nil; booleans as integers 1 and 0;
// doubles, big numbers and verbatim strings (without their "txt:") as strings; sets as arrays; maps
// as arrays of keys and values; blob errors as errors. Attributes and pushes are skipped.
//
// Nothing is copied: the strings of a reply are in the reader's buffer, each followed by a NUL, and
// its nodes in an arena, so that reading allocates nothing once both have grown. Bytes, elements
// and depth of one reply are bounded; a larger reply is refused when its head is read.
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
  const redisReply& reply() const noexcept { return nodes_.front(); }
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
  bool build(redisReply& node, std::size_t depth);
  bool build_scalar(redisReply& node, char type, std::span<char> text);
  bool build_bulk(redisReply& node, char type, std::int64_t length);
  bool build_aggregate(redisReply& node, std::int64_t count, std::size_t depth);
  bool skip_attribute(std::int64_t pairs, std::size_t depth);
  std::span<char> take_line() noexcept;

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
  std::vector<redisReply> nodes_;
  std::vector<redisReply*> children_;
  std::size_t children_used_ = 0;
  bool push_ = false;
  std::string why_;
};

}  // namespace sluice::redis
