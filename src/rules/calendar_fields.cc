#include "rules/calendar_fields.h"

#include <string>

#include "core/calendar.h"

namespace sluice::rules {

const Calendar* read_calendar(const Fields& numbers, const Fields& limit,
                              Diagnostics& diagnostics) {
  const auto unit = core::calendar_unit_from(numbers.text("per"));
  if (!unit) {
    for (const char* name : {"zone", "starts"}) {
      if (!limit.has(name)) continue;
      diagnostics.add_message(limit.at(name),
                              std::string("'") + name + "' " + std::string(core::kNeedsCalendar));
    }
    return nullptr;
  }
  CalendarSpec spec{.unit = *unit};
  if (limit.node("starts") != nullptr) {
    const auto started = core::starting(spec, limit.text("starts"));
    if (!started) diagnostics.add_message(limit.at("starts"), started.error());
    spec = started ? *started : spec;
  }
  if (limit.node("zone") != nullptr) spec.zone = limit.text("zone");
  const auto calendar = Calendar::make(spec);
  if (calendar) return *calendar;
  diagnostics.add_message(limit.at("zone"), calendar.error());
  return nullptr;
}

}  // namespace sluice::rules
