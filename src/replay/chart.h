#pragma once

#include <cstddef>
#include <string>

#include "replay/time_series.h"

namespace sluice::replay {

// A chart of requests over time as HTML: those that were let through, and stacked on them those
// that were denied, with axes, a legend of numbers in each column's title, and a description.
struct Chart {
  const TimeSeries& series;
  std::size_t requests = 0;  // the channel of all requests, and of those denied among them
  std::size_t denied = 0;
  std::string id;     // unique in the page
  std::string title;  // plain text
  std::string denied_name = "denied";
  bool denied_only = false;  // leave out those let through, for a scale that shows few denials
  bool low = false;          // less high than usual
};
std::string chart_html(const Chart& chart);

}  // namespace sluice::replay
