#include "rules/packed_override.h"

namespace sluice::rules {
namespace {

// Bits of the first byte, above the kind.
constexpr unsigned kHasPer = 4, kHasBurst = 8, kHasUntil = 16, kHasCalendar = 32;

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  out += static_cast<char>(value);
}

std::uint64_t take(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

}  // namespace

void pack(const Override& given, std::string& out) {
  const unsigned flags = (given.per ? kHasPer : 0) | (given.burst ? kHasBurst : 0) |
                         (given.until ? kHasUntil : 0) | (given.calendar ? kHasCalendar : 0);
  out += static_cast<char>(static_cast<unsigned>(given.kind) | flags);
  if (given.kind == Override::Kind::kNumbers) put(out, given.limit);
  if (given.per) put(out, static_cast<std::uint64_t>(given.per->count()));
  if (given.calendar) put(out, static_cast<std::uint64_t>(*given.calendar));
  if (given.burst) put(out, *given.burst);
  if (given.until) put(out, static_cast<std::uint64_t>(given.until->time_since_epoch().count()));
  if (given.kind != Override::Kind::kPlan) return;
  put(out, given.plan.size());
  out += given.plan;
}

Override unpack(std::string_view& bytes) {
  const auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  Override given{.kind = static_cast<Override::Kind>(first & 3)};
  const auto ticks = [&] { return Duration{static_cast<Duration::rep>(take(bytes))}; };
  if (given.kind == Override::Kind::kNumbers) given.limit = take(bytes);
  if ((first & kHasPer) != 0) given.per = ticks();
  if ((first & kHasCalendar) != 0) given.calendar = static_cast<CalendarUnit>(take(bytes));
  if ((first & kHasBurst) != 0) given.burst = take(bytes);
  if ((first & kHasUntil) != 0) given.until = Instant{ticks()};
  if (given.kind == Override::Kind::kPlan) {
    const std::size_t size = take(bytes);
    given.plan = bytes.substr(0, size);
    bytes.remove_prefix(given.plan.size());
  }
  return given;
}

}  // namespace sluice::rules
