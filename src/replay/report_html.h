#pragma once

#include <cstddef>
#include <string>

#include "replay/replay.h"

namespace sluice::replay {

// A chart of requests over time as HTML: allowed requests with denied requests stacked on top,
// axes, the numbers in the title of each column, and a description.
struct Chart {
  const TimeSeries& series;
  std::size_t requests = 0;  // the channels of all requests and of denied requests
  std::size_t denied = 0;
  std::string id;     // unique in the page
  std::string title;  // plain text
  std::string denied_name = "denied";
  bool denied_only = false;  // omits allowed requests, for a scale that shows few denials
  bool low = false;          // a lower chart than usual
};
std::string chart_html(const Chart& chart);

}  // namespace sluice::replay
