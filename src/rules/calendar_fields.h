#pragma once

#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "sluice/calendar.h"

namespace sluice::rules {

// Reads the calendar of a limit: `per` of its numbers, `zone` and `starts` of the limit itself.
// Returns null if `per` is a period, or if something is wrong, which is reported.
const Calendar* read_calendar(const Fields& numbers, const Fields& limit, Diagnostics& diagnostics);

}  // namespace sluice::rules
