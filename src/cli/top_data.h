#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin_client.h"
#include "insight/top_keys.h"
#include "sluice/expected.h"

namespace sluice::cli {

// Counts of requests since the start of the server.
struct RequestCounts {
  std::uint64_t requests = 0;
  std::uint64_t denied = 0;
};

// Reads `sluice_requests_total` of a text for Prometheus: the counts by rule, "" for none.
std::map<std::string, RequestCounts> read_request_counts(std::string_view metrics);

// What `sluice top` asks the administration for.
struct TopQuery {
  insight::TopBy by = insight::TopBy::kDenied;
  insight::Span over = insight::Span::kMinute;
};

// One key of one limit.
struct TopRow {
  std::string rule, limit, key;
  std::uint64_t count = 0;
  std::uint64_t error = 0;
};

// What the server said at one time.
struct TopSample {
  std::chrono::steady_clock::time_point at;
  std::map<std::string, RequestCounts> rules;
  std::string version, store;
  std::uint64_t uptime_s = 0;
  std::uint64_t connections = 0;
  std::vector<TopRow> keys;   // the highest counts first
  std::string no_keys;        // why the server shows no keys; empty: it does
  std::uint64_t seconds = 0;  // that the counts of keys cover
};

// Errors: why there is no answer, or that the server refused.
Expected<TopSample> read_top(AdminClient& client, const TopQuery& query);

}  // namespace sluice::cli
