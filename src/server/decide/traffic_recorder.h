#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/logging/log.h"
#include "server/logging/traffic_log.h"
#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/request_costs.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// Records the decided requests of one event loop as lines that `sluice replay` reads
// (docs/recording.md):
//
//   {"time":"2026-11-23T10:00:00.123456Z","attributes":{"path":"/x"},"cost":2,"outcome":"denied"}
//
// The attributes are method, path, host and ip, those that the rules name, and those of the
// options; those that the request has.
//
// Thread-safety: one thread. Ownership: borrows its arguments, and owns none. Cost: a hash if the
// request is not sampled; else about 1 µs, and no allocation once its buffers have grown.
class TrafficRecorder {
 public:
  // `denials` hashes. With `hash_all` every value is hashed except for method, path and host.
  TrafficRecorder(TrafficLog& log, const DenialLog& denials, bool hash_all,
                  const Clock& clock = SystemClock::instance());

  // `version` identifies the rules. Without memory, the line is dropped and counted.
  void record(const RuleSet& rules, std::uint64_t version, const AttributeSource& attributes,
              const RequestCosts& costs, Outcome outcome) noexcept;

 private:
  struct Name {
    std::string name;
    std::string json;  // "\"name\":"
    bool hashed = false;
  };

  bool samples(const AttributeSource& attributes);
  void use(const RuleSet& rules, std::uint64_t version);
  void put_time();
  void put_attributes(const AttributeSource& attributes);
  void put_costs(const RequestCosts& costs);

  const TrafficOptions& options_;
  TrafficLane& lane_;
  const DenialLog& denials_;
  const bool hash_all_;
  const Clock& clock_;
  std::uint64_t version_ = 0;  // 0: of no rules
  std::vector<Name> names_;
  std::string line_;
  std::chrono::sys_seconds second_{std::chrono::seconds::min()};
  std::string second_text_;
  std::uint64_t random_ = 1;
};

}  // namespace sluice::server
