#pragma once

#include <cstddef>
#include <string>

#include "replay/replay.h"

namespace sluice::replay {

// A report as text, JSON and HTML. Pure functions of the report.

// Returns a summary with at most 100 columns. `has_colours`: with ANSI escapes.
std::string text_report(const ReplayReport& report, bool has_colours);

// Returns one JSON object on one line, with times in UTC. Denied keys are truncated to
// KeyTally::kLongestLabel bytes, and bytes that are not UTF-8 become U+FFFD.
std::string json_report(const ReplayReport& report);

// Returns a self-contained page: it needs no other file and no network, and is readable without its
// script.
std::string html_report(const ReplayReport& report);

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

// Describes a limit: "token_bucket, 10 per 1 s, burst 20".
std::string limit_text(const Limit& limit);

// Names the formats of the logs: "JSON lines, CSV".
std::string format_titles(const ReplayReport& report);

}  // namespace sluice::replay
