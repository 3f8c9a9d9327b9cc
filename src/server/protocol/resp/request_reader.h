#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::resp {

// Reads requests as clients of Redis send them: arrays of bulk strings, and inline commands.
//
// A state machine over bytes, without I/O: read() is given what has arrived of the request from its
// first byte on, again and again as more arrives, and goes on where it was. What it refuses, and
// the words, are those of Redis 7.0; where its own bounds are lower, those of Redis for its own.
// Cost: some instructions for an argument; an idle one holds 80 bytes and what few arguments take.
class RequestReader {
 public:
  struct Bounds {
    std::size_t frame_bytes = std::size_t{1} << 20;  // of a request as it is sent; below 2^31
    std::size_t arguments = 4096;
  };
  // The longest inline command, and the longest line that tells a length; Redis' own.
  static constexpr std::size_t kMostLine = std::size_t{64} << 10;

  enum class Progress : std::uint8_t {
    kMore,   // it is not whole yet
    kReady,  // arguments() and size() tell it; next() goes on behind it
    kBad,    // why() tells; nothing can be read behind it
  };

  explicit RequestReader(const Bounds& bounds) : bounds_(bounds) {}

  // Whoever has not shown a password may only send what a password needs.
  Progress read(std::string_view input, bool authenticated);

  // Puts the arguments of the request that is ready into `out`: views of `input`, as it was given
  // to read(), or of this reader. None for an empty request, which is not answered.
  void arguments(std::string_view input, std::vector<std::string_view>& out) const;
  // How many bytes the request took.
  std::size_t size() const noexcept { return position_; }
  // Whether something of a request has been read.
  bool started() const noexcept { return left_ > 0 || position_ > 0; }
  void next();

  // Without the prefix "ERR ".
  const std::string& why() const noexcept { return text_; }

 private:
  struct Place {
    std::uint32_t begin;
    std::uint32_t size;
  };
  enum class Line : std::uint8_t { kMore, kTooLong, kWhole };

  Progress read_inline(std::string_view input);
  Progress read_count(std::string_view input, bool authenticated);
  Progress read_bulks(std::string_view input, bool authenticated);
  Progress read_bulk_size(std::string_view input, bool authenticated);
  Line find_line(std::string_view input);
  Progress bad(std::string_view why);

  Bounds bounds_;
  std::vector<Place> places_;
  std::string text_;            // the words of an inline command, or what is wrong
  std::string_view line_;       // the line that find_line() found, without its first byte
  std::uint32_t position_ = 0;  // bytes that are read
  std::uint32_t left_ = 0;      // arguments to come
  std::int32_t bulk_ = -1;      // the size of the one that comes next, if it is known
  bool inline_ = false;         // `places_` are of `text_`
};

}  // namespace sluice::server::resp
