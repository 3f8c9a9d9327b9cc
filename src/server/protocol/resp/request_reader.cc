#include "server/protocol/resp/request_reader.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/quoted.h"

namespace sluice::server::resp {
namespace {

// Like isspace() in the C locale, whatever the current locale is.
constexpr bool is_space(char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }
// Returns whether a byte ends a word outside of quotes.
constexpr bool ends_word(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

constexpr char escaped(char c) noexcept {
  switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    default: return c;
  }
}

// The closing quote must be followed by a blank or by the end.
bool close(std::string_view& rest) {
  rest.remove_prefix(1);
  return rest.empty() || is_space(rest.front());
}

// Return whether the quotes are balanced.

bool take_double(std::string_view& rest, std::string& out) {
  while (!rest.empty()) {
    const char c = rest.front();
    const bool may_be_hex = c == '\\' && rest.size() >= 4 && rest[1] == 'x';
    const int byte = may_be_hex ? base::hex_byte(rest[2], rest[3]) : -1;
    if (byte >= 0) {
      out += static_cast<char>(byte);
      rest.remove_prefix(4);
    } else if (c == '\\' && rest.size() >= 2) {
      out += escaped(rest[1]);
      rest.remove_prefix(2);
    } else if (c == '"') {
      return close(rest);
    } else {
      out += c;
      rest.remove_prefix(1);
    }
  }
  return false;
}

bool take_single(std::string_view& rest, std::string& out) {
  while (!rest.empty()) {
    const char c = rest.front();
    if (c == '\\' && rest.size() >= 2 && rest[1] == '\'') {
      out += '\'';
      rest.remove_prefix(2);
    } else if (c == '\'') {
      return close(rest);
    } else {
      out += c;
      rest.remove_prefix(1);
    }
  }
  return false;
}

}  // namespace

InlineWord take_word(std::string_view& line, std::string& out) {
  while (!line.empty() && is_space(line.front())) line.remove_prefix(1);
  if (line.empty()) return InlineWord::kEnd;
  while (!line.empty() && !ends_word(line.front())) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == '"' || c == '\'') {
      const bool balanced = c == '"' ? take_double(line, out) : take_single(line, out);
      return balanced ? InlineWord::kTaken : InlineWord::kUnbalanced;
    }
    out += c;
  }
  return InlineWord::kTaken;
}

namespace {

// The maximum that a client may send before it has logged in.
constexpr std::int64_t kMostUnknownArguments = 10;
constexpr std::int64_t kMostUnknownBytes = 16384;
// Larger buffers are released.
constexpr std::size_t kMostPlacesKept = 32;
constexpr std::size_t kMostTextKept = 256;

constexpr std::int64_t kMostCount = std::numeric_limits<int>::max();

struct Length {
  std::int64_t number = 0;
  std::uint32_t bytes = 0;  // of the line; 0: the fast path does not apply
};

// Reads a line with a length in its usual form: `kind`, up to seven digits without a leading zero,
// and the end of the line.
Length plain_length(std::string_view input, char kind) noexcept {
  constexpr std::size_t kMostDigits = 7;
  if (input.size() < 4 || input[0] != kind) return {};
  const char* const digits = input.data() + 1;
  const std::size_t most = std::min(input.size() - 3, kMostDigits);
  std::uint32_t number = 0;
  std::size_t count = 0;
  for (; count < most; ++count) {
    const auto digit = static_cast<std::uint32_t>(digits[count] - '0');
    if (digit > 9) break;
    number = number * 10 + digit;
  }
  const bool plain = count > 0 && digits[count] == '\r' && (digits[0] != '0' || count == 1);
  return plain ? Length{number, static_cast<std::uint32_t>(count + 3)} : Length{};
}

}  // namespace

RequestReader::Progress RequestReader::read(std::string_view input, bool authenticated) {
  if (left_ > 0) return read_bulks(input, authenticated);
  if (input.empty()) return Progress::kMore;
  return input.front() == '*' ? read_count(input, authenticated) : read_inline(input);
}

void RequestReader::arguments(std::string_view input, std::vector<std::string_view>& out) const {
  const char* const text = inline_ ? text_.data() : input.data();
  out.resize(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const auto& [begin, size] = places_[i];
    out[i] = {text + begin, size};
  }
}

void RequestReader::next() {
  position_ = 0;
  left_ = 0;
  bulk_ = -1;
  inline_ = false;
  places_.clear();
  text_.clear();
  if (places_.capacity() > kMostPlacesKept) places_.shrink_to_fit();
  if (text_.capacity() > kMostTextKept) text_.shrink_to_fit();
}

RequestReader::Progress RequestReader::bad(std::string_view why) {
  text_.assign("Protocol error: ").append(why);
  return Progress::kBad;
}

// Finds the line that begins at `position_`. It ends with a '\r' and one more byte, which may be
// any byte. The text after a NUL byte is ignored. `too_long` is the error of a longer line.
RequestReader::Progress RequestReader::find_line(std::string_view input,
                                                 std::string_view too_long) {
  const std::string_view rest = input.substr(position_);
  std::size_t end = 0;
  while (end < rest.size() && rest[end] != '\r' && rest[end] != '\0') ++end;
  if (end > kMostLine) return bad(too_long);
  if (end >= rest.size() || rest[end] == '\0') {
    return rest.size() > kMostLine ? bad(too_long) : Progress::kMore;
  }
  if (end + 2 > rest.size()) return Progress::kMore;
  line_ = rest.substr(0, end);
  return Progress::kReady;
}

RequestReader::Progress RequestReader::read_count(std::string_view input, bool authenticated) {
  const bool is_digit = input.size() >= 4 && input[1] > '0' && input[1] <= '9';
  Length count = is_digit && input[2] == '\r' ? Length{input[1] - '0', 4}  // the usual case
                                              : plain_length(input, '*');
  if (count.bytes == 0) {
    const Progress found = find_line(input, "too big mbulk count string");
    if (found != Progress::kReady) return found;
    const auto number = whole_number(line_.substr(1));
    if (!number || *number > kMostCount) return bad("invalid multibulk length");
    count = {*number, static_cast<std::uint32_t>(line_.size() + 2)};
  }
  if (!authenticated && count.number > kMostUnknownArguments) {
    return bad("unauthenticated multibulk length");
  }
  if (count.number > static_cast<std::int64_t>(most_arguments_)) {
    return bad("invalid multibulk length");
  }
  position_ = count.bytes;
  if (count.number <= 0) return Progress::kReady;
  left_ = static_cast<std::uint32_t>(count.number);
  return read_bulks(input, authenticated);
}

// Reads arguments of at most 99 bytes that are complete, which are nearly all. Stops at any other;
// read_bulks() reads it, or says what is wrong with it.
void RequestReader::read_short_bulks(std::string_view input) {
  constexpr std::size_t kLeast = 6;  // "$0\r\n\r\n"
  const std::size_t most = std::min(input.size(), most_bytes_);
  std::size_t at = position_;
  for (; left_ > 0 && at + kLeast <= most && input[at] == '$'; --left_) {
    auto size = static_cast<std::uint32_t>(input[at + 1] - '0');
    if (size > 9) break;
    std::size_t begin = at + 4;
    if (input[at + 2] != '\r') {
      const auto digit = static_cast<std::uint32_t>(input[at + 2] - '0');
      if (digit > 9 || size == 0 || input[at + 3] != '\r') break;
      size = size * 10 + digit;
      ++begin;
    }
    if (begin + size + 2 > most) break;
    places_.emplace_back(static_cast<std::uint32_t>(begin), size);
    at = begin + size + 2;
  }
  position_ = static_cast<std::uint32_t>(at);
}

RequestReader::Progress RequestReader::read_bulks(std::string_view input, bool authenticated) {
  if (bulk_ < 0) read_short_bulks(input);
  while (left_ > 0) {
    if (bulk_ < 0) {
      const Progress progress = read_bulk_size(input, authenticated);
      if (progress != Progress::kReady) return progress;
    }
    const auto size = static_cast<std::uint32_t>(bulk_);
    if (input.size() - position_ < std::size_t{size} + 2) return Progress::kMore;
    places_.emplace_back(position_, size);
    position_ += size + 2;  // skips the two bytes at the end without reading them
    bulk_ = -1;
    --left_;
  }
  return Progress::kReady;
}

RequestReader::Progress RequestReader::read_bulk_size(std::string_view input, bool authenticated) {
  Length size = plain_length(input.substr(position_), '$');
  if (size.bytes == 0) {
    const Progress found = find_line(input, "too big bulk count string");
    if (found != Progress::kReady) return found;
    if (line_.empty() || line_.front() != '$') {
      const char got = line_.empty() ? ' ' : line_.front();
      return bad(std::string("expected '$', got '") + (got == '\n' ? ' ' : got) + "'");
    }
    const auto number = whole_number(line_.substr(1));
    if (!number || *number < 0) return bad("invalid bulk length");
    size = {*number, static_cast<std::uint32_t>(line_.size() + 2)};
  }
  if (size.number > static_cast<std::int64_t>(most_bytes_)) {
    return bad("invalid bulk length");
  }
  if (!authenticated && size.number > kMostUnknownBytes) return bad("unauthenticated bulk length");
  const std::size_t whole = position_ + size.bytes + static_cast<std::size_t>(size.number) + 2;
  if (whole > most_bytes_) return bad("too big request");
  position_ += size.bytes;
  bulk_ = static_cast<std::int32_t>(size.number);
  return Progress::kReady;
}

RequestReader::Progress RequestReader::read_inline(std::string_view input) {
  const std::size_t end = input.substr(0, input.find('\0')).find('\n');
  if (end == input.npos) {
    return input.size() > kMostLine ? bad("too big inline request") : Progress::kMore;
  }
  if (end > kMostLine) return bad("too big inline request");
  std::string_view line = input.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  inline_ = true;
  text_.clear();
  for (;;) {
    const std::size_t begin = text_.size();
    const InlineWord found = take_word(line, text_);
    if (found == InlineWord::kEnd) break;
    if (found == InlineWord::kUnbalanced) return bad("unbalanced quotes in request");
    if (places_.size() == most_arguments_) return bad("invalid multibulk length");
    places_.emplace_back(static_cast<std::uint32_t>(begin),
                         static_cast<std::uint32_t>(text_.size() - begin));
  }
  position_ = static_cast<std::uint32_t>(end + 1);
  return Progress::kReady;
}

}  // namespace sluice::server::resp
