#pragma once

#include <string>

#include "replay/replay.h"

namespace sluice::replay {

// A report as people and programs read it. Pure functions of the report.

struct TextOptions {
  bool colours = false;  // ANSI escapes
};
// A summary of at most 100 columns.
std::string text_report(const ReplayReport& report, const TextOptions& options);

// One JSON object on one line, times in UTC. Keys that were denied are cut at
// KeyTally::kLongestLabel bytes, and bytes that are not UTF-8 become U+FFFD.
std::string json_report(const ReplayReport& report);

// A page that needs nothing but itself: no other file, no network, no script to be read.
std::string html_report(const ReplayReport& report);

// The limit as a sentence of numbers: "token_bucket, 10 per 1 s, burst 20".
std::string limit_text(const Limit& limit);

}  // namespace sluice::replay
