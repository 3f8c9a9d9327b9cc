#include "envoy/unit.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sluice::envoy {
namespace {

struct Known {
  std::string_view name;
  Duration length;
};

using std::chrono::days;
constexpr std::array<Known, 8> kUnits{{{"unknown", Duration{0}},
                                       {"second", std::chrono::seconds{1}},
                                       {"minute", std::chrono::minutes{1}},
                                       {"hour", std::chrono::hours{1}},
                                       {"day", days{1}},
                                       {"month", days{30}},
                                       {"year", days{365}},
                                       {"week", days{7}}}};

bool equal_letters(std::string_view a, std::string_view lower) noexcept {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == y;
  });
}

}  // namespace

std::optional<Unit> unit_from(std::string_view name) noexcept {
  for (std::size_t i = 1; i < kUnits.size(); ++i) {
    if (equal_letters(name, kUnits[i].name)) return static_cast<Unit>(i);
  }
  return std::nullopt;
}

std::string_view to_string(Unit unit) noexcept {
  return kUnits[static_cast<std::size_t>(unit)].name;
}

Duration length_of(Unit unit) noexcept { return kUnits[static_cast<std::size_t>(unit)].length; }

Unit unit_of(Duration length) noexcept {
  for (std::size_t i = 1; i < kUnits.size(); ++i) {
    if (kUnits[i].length == length) return static_cast<Unit>(i);
  }
  return Unit::kUnknown;
}

Unit unit_of(const Limit& limit) noexcept {
  if (limit.calendar() == nullptr) return unit_of(limit.period());
  switch (limit.calendar()->spec().unit) {
    case CalendarUnit::kDay: return Unit::kDay;
    case CalendarUnit::kWeek: return Unit::kWeek;
    case CalendarUnit::kMonth: return Unit::kMonth;
    case CalendarUnit::kYear: return Unit::kYear;
  }
  return Unit::kUnknown;
}

}  // namespace sluice::envoy
