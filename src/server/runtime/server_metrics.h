#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "server/logging/traffic_log.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/rules_manager.h"
#include "sluice/overrides.h"

namespace sluice::server {

struct ServerMetricsParts {
  const RulesManager& rules;
  const EnvoyManager& envoy;
  const Log& log;
  const std::atomic<bool>& ready;
  std::function<std::size_t()> connections_max;
  std::function<std::size_t()> waiting;  // requests that wait for units
  const Overrides& overrides;
};

// Adds the metrics of the server as a whole. Ownership: the registry borrows the parts.
void add_server_metrics(metrics::Registry& registry, const ServerMetricsParts& parts);

// Adds the metrics of recorded requests. Ownership: the registry borrows the log.
void add_traffic_metrics(metrics::Registry& registry, const TrafficLog& traffic);

}  // namespace sluice::server
