#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/time_zone.h"

namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kMostOffset = 26 * 3600;

std::int64_t number_of(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return static_cast<std::int64_t>(value & 0xFFFFFFFF) - (std::int64_t{1} << 31);
}

// Clocks never show a later time at an earlier instant for the first time, and are never far from
// UTC.
void check_clocks(const sluice::base::TimeZone& zone, std::int64_t from) {
  constexpr std::int64_t kStep = kDay / 4;
  std::int64_t before = zone.first_at(from - kStep);
  for (std::int64_t local = from; local < from + 400 * kDay; local += kStep) {
    const std::int64_t at = zone.first_at(local);
    if (at < before || at < local - kMostOffset || at > local + kMostOffset) std::abort();
    before = at;
  }
}

}  // namespace

// The input is the content of a file, and at its end four bytes: the local time to begin with. The
// same input is also read as the rule at the end of a file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view file = size < 4 ? input : input.substr(0, size - 4);
  const auto zone = sluice::base::TimeZone::parse(file);
  if (zone) check_clocks(*zone, number_of(input.substr(file.size())));
  (void)sluice::base::TimeZoneRule::parse(input);
  return 0;
}
