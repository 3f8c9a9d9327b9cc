#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limiter/limit_arguments.h"
#include "server/net/bounds.h"

namespace sluice::server::resp {

enum class InlineWord { kTaken, kEnd, kUnbalanced };
// Moves the next word of an inline command from `line` to the end of `out`. Words are split at
// blanks, like redis-cli and Redis do. In "..." the escapes are \n \r \t \b \a \xHH and others; in
// '...' only \'. A quote ends a word.
InlineWord take_word(std::string_view& line, std::string& out);

// Reads the requests of Redis clients: arrays of bulk strings, and inline commands.
//
// A state machine over bytes, without I/O. The caller passes to read() all bytes that have arrived,
// from the first byte of the request on, and calls it again when more have arrived. Errors and
// their texts are those of Redis 7.0; if Sluice's bounds are lower, it uses the texts of Redis' own
// bounds. Cost: a few instructions for an argument. An idle reader holds 80 bytes and the space of
// a few arguments.
class RequestReader {
 public:
  // The longest inline command and the longest line with a length, as in Redis.
  static constexpr std::size_t kMostLine = std::size_t{64} << 10;

  // kReady: use arguments() and size(); next() continues after it. kBad: why() has the error.
  using Progress = ReadProgress;

  // `most_bytes`: of a request as it was sent; below 2^31.
  explicit RequestReader(std::size_t most_bytes = std::size_t{1} << 20,
                         std::size_t most_arguments = 4096)
      : most_bytes_(most_bytes), most_arguments_(most_arguments) {}

  // A client that is not logged in may only send as much as a login needs.
  Progress read(std::string_view input, bool authenticated);

  // Puts the arguments of the complete request into `out`: views of `input`, as it was passed to
  // read(), or of this reader. An empty request has no arguments and gets no reply.
  void arguments(std::string_view input, std::vector<std::string_view>& out) const;
  // Returns how many bytes the request took.
  std::size_t size() const noexcept { return position_; }
  void next();

  // Returns the error without the prefix "ERR ".
  const std::string& why() const noexcept { return text_; }

 private:
  Progress read_inline(std::string_view input);
  Progress read_count(std::string_view input, bool authenticated);
  void read_short_bulks(std::string_view input);
  Progress read_bulks(std::string_view input, bool authenticated);
  Progress read_bulk_size(std::string_view input, bool authenticated);
  Progress find_line(std::string_view input, std::string_view too_long);
  Progress bad(std::string_view why);

  std::size_t most_bytes_;
  std::size_t most_arguments_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places_;  // begin and size of each
  std::string text_;            // the words of an inline command, or the error
  std::string_view line_;       // the line that find_line() found, without its first byte
  std::uint32_t position_ = 0;  // bytes that are read
  std::uint32_t left_ = 0;      // arguments to come
  std::int32_t bulk_ = -1;      // the size of the next argument, if it is known
  bool inline_ = false;         // `places_` refers to `text_`
};

}  // namespace sluice::server::resp
