#include "stores/redis/client/command.h"

#include <array>
#include <charconv>
#include <unordered_set>

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

}  // namespace

void append_size(char type, std::uint64_t size, std::string& out) {
  std::array<char, 24> head;
  head[0] = type;
  char* end = std::to_chars(head.data() + 1, head.data() + head.size() - 2, size).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append(head.data(), end);
}

void append_element(std::string_view element, std::string& out) {
  append_size('$', element.size(), out);
  out.append(element).append("\r\n");
}

void Command::append(std::string_view element) {
  append_element(element, tail);
  ++elements;
}

void Command::append(std::uint64_t number) {
  std::array<char, 20> digits;
  const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  append(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

std::uint16_t slot_of(std::string_view key) noexcept { return crc16(hashed_part(key)) % kSlots; }

std::vector<SlotMaster> masters_of(const Reply& slots) {
  std::vector<SlotMaster> masters;
  std::unordered_set<std::string> names;
  for (const Reply& range : slots) {
    if (!range.is_array_of(3) || !range[2].is_array_of(2)) continue;
    const Reply& address = range[2];
    std::string name(address[0].string());
    name.append(":").append(std::to_string(address[1].integer));
    if (!names.insert(name).second) continue;
    masters.push_back({std::move(name), static_cast<std::uint16_t>(range[0].integer)});
  }
  return masters;
}

}  // namespace sluice::redis
