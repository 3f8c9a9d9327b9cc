#pragma once

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

// Describes a limit: "token_bucket, 10 per 1 s, burst 20".
std::string limit_text(const Limit& limit);

// Names the formats of the logs: "JSON lines, CSV".
std::string format_titles(const ReplayReport& report);

}  // namespace sluice::replay
