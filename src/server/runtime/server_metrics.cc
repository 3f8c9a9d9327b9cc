#include "server/runtime/server_metrics.h"

#include <string>
#include <utility>
#include <vector>

namespace sluice::server {
namespace {

std::vector<metrics::Registry::Row> envoy_rows(const EnvoyManager& envoy) {
  std::vector<metrics::Registry::Row> rows;
  for (const EnvoyCounts::Row& of : envoy.counted()) {
    for (std::size_t i = 0; i < of.cells.size(); ++i) {
      const auto outcome = EnvoyCounts::to_string(static_cast<EnvoyCounts::Cell>(i));
      rows.push_back({{of.name, std::string(outcome)}, static_cast<double>(of.cells[i])});
    }
  }
  return rows;
}

double number(std::uint64_t value) { return static_cast<double>(value); }

void add_reload_metrics(metrics::Registry& registry, const ServerMetricsParts& parts) {
  registry.add_gauge("sluice_rules_version",
                     "Version of the active rules: 1 at the start; increases with every change.",
                     [parts] { return number(parts.rules.version()); });
  registry.add_counter("sluice_rules_reloads_total", "Reloads that changed the rules.", [parts] {
    return number(parts.rules.status().reloads + parts.envoy.status().reloads);
  });
  registry.add_counter(
      "sluice_rules_reload_failures_total", "Rejected reloads; the previous rules stayed active.",
      [parts] { return number(parts.rules.status().failures + parts.envoy.status().failures); });
  registry.add_gauge("sluice_rules_last_reload_successful",
                     "0 if the last reload of the rules failed, 1 otherwise.", [parts] {
                       const bool right = parts.rules.status().last_errors.empty() &&
                                          parts.envoy.status().last_errors.empty();
                       return right ? 1. : 0.;
                     });
}

}  // namespace

void add_server_metrics(metrics::Registry& registry, const ServerMetricsParts& parts) {
  add_reload_metrics(registry, parts);
  registry.add_table("sluice_envoy_decisions_total",
                     "Decisions by the limits of Envoy files, for each descriptor.",
                     {"descriptor", "outcome"}, [parts] { return envoy_rows(parts.envoy); });
  registry.add_counter("sluice_log_lines_dropped_total", "Log lines that were not written.",
                       [parts] { return number(parts.log.dropped()); });
  registry.add_gauge("sluice_connections_max",
                     "Maximum number of connections of all listeners together.",
                     [parts] { return number(parts.connections_max()); });
  registry.add_gauge("sluice_waiting_requests", "Requests that wait for units (wait_ms).",
                     [parts] { return number(parts.waiting()); });
  registry.add_gauge("sluice_overrides", "Overrides of keys.",
                     [parts] { return number(parts.overrides.size()); });
  registry.add_gauge("sluice_ready", "1 if /readyz reports ready, 0 otherwise.",
                     [parts] { return parts.ready.load() ? 1.0 : 0.0; });
}

void add_traffic_metrics(metrics::Registry& registry, const TrafficLog& traffic) {
  const auto add = [&](const char* name, const char* help, std::uint64_t TrafficLog::Stats::* one) {
    registry.add_counter(name, help, [&traffic, one] { return number(traffic.stats().*one); });
  };
  add("sluice_recorded_requests_total", "Requests that were recorded.", &TrafficLog::Stats::lines);
  add("sluice_recorded_bytes_total", "Bytes of recorded requests.", &TrafficLog::Stats::bytes);
  add("sluice_recorded_dropped_total",
      "Requests that were to be recorded, but were too many, too long, or could not be written.",
      &TrafficLog::Stats::dropped);
  add("sluice_recorded_rotations_total",
      "Times that the file of recorded requests was full and a new one began.",
      &TrafficLog::Stats::rotations);
}

}  // namespace sluice::server
