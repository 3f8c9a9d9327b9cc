#include "stores/redis/client/command.h"

#include <algorithm>
#include <array>

#include "base/quoted.h"

namespace sluice::redis {
namespace {

// CRC16/XMODEM: polynomial 0x1021, from 0, most significant bit first.
constexpr std::array<std::uint16_t, 256> make_crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

constexpr auto kCrcTable = make_crc_table();

std::uint16_t crc16(std::string_view bytes) noexcept {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc = ((crc << 8) & 0xFFFF) ^ kCrcTable[(crc >> 8) ^ static_cast<unsigned char>(c)];
  }
  return static_cast<std::uint16_t>(crc);
}

// Returns the text between the first { and the next }; the whole key if there is none.
std::string_view hashed_part(std::string_view key) noexcept {
  const std::size_t open = key.find('{');
  if (open == key.npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

constexpr std::size_t kLongestHead = 24;

// Returns the end of what it has written.
char* write_size(char type, std::uint64_t size, char* to) noexcept {
  *to = type;
  to = base::write_number(to + 1, size);
  *to++ = '\r';
  *to++ = '\n';
  return to;
}

}  // namespace

void append_size(char type, std::uint64_t size, std::string& out) {
  std::array<char, kLongestHead> head;
  out.append(head.data(), write_size(type, size, head.data()));
}

void append_element(std::string_view element, std::string& out) {
  const std::size_t begin = out.size();
  out.resize(begin + kLongestHead + element.size() + 2);
  char* to = write_size('$', element.size(), out.data() + begin);
  to = std::copy_n(element.data(), element.size(), to);
  *to++ = '\r';
  *to++ = '\n';
  out.resize(static_cast<std::size_t>(to - out.data()));
}

void Command::append(std::string_view element) {
  append_element(element, tail);
  ++elements;
}

void Command::append(std::uint64_t number) {
  char digits[20];
  append(std::string_view(digits, base::write_number(digits, number)));
}

std::uint16_t slot_of(std::string_view key) noexcept { return crc16(hashed_part(key)) % kSlots; }

}  // namespace sluice::redis
