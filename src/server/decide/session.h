#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "insight/top_keys.h"
#include "limiter/waits.h"
#include "metrics/metrics.h"
#include "server/decide/recent_requests.h"
#include "server/logging/denial_log.h"
#include "server/logging/log.h"
#include "server/logging/traffic_log.h"
#include "server/net/fiber_sleep.h"
#include "server/otlp/exporter.h"
#include "server/rules/rules_manager.h"
#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/limiter.h"
#include "sluice/rule_answer.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// Records the decided requests of one event loop as lines that `sluice replay` reads
// (docs/replay.md):
//
//   {"time":"2026-11-23T10:00:00.123456Z","attributes":{"path":"/x"},"cost":2,"outcome":"denied"}
//
// The attributes are method, path, host and ip, those that the rules name, and those of the
// options; those that the request has. A request that no rules decide, because it names its limit
// or an Envoy file does, has a line of another kind, which is not replayed:
//
//   {"time":"...","without_rules":{"domain":"shop","key":"shop||ip=10.0.0.1",
//    "algorithm":"fixed_window","limit":9,"per":"1m","capacity":9},"outcome":"allowed"}
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
  // `domain`: of the Envoy file; empty if the request names the limit.
  void record_without_rules(std::string_view domain, std::string_view key, const Limit& limit,
                            std::uint64_t cost, Outcome outcome) noexcept;

 private:
  struct Name {
    std::string name;
    std::string json;  // "\"name\":"
    bool hashed = false;
  };

  bool samples(std::string_view client);
  void use(const RuleSet& rules, std::uint64_t version);
  void put_time();
  void put_attributes(const AttributeSource& attributes);
  void put_value(std::string_view value, bool hashed);
  void put_costs(const RequestCosts& costs);
  void write(Outcome outcome);

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

// A request to decide by the active rules. Borrows all that it refers to.
struct SessionRequest {
  const AttributeSource& attributes;
  RequestCosts costs = {};
  Action action = Verb::kTake;
  // The name of the rule that decides, whether it matches or not. None: those that match.
  std::optional<std::string_view> rule = {};
  // If set, a taken request is settled to these costs. `action` does not matter then.
  const RequestCosts* actual = nullptr;
  // If set, this response to an allowed request is reported. `action` does not matter then.
  const AttributeSource* response = nullptr;
  // Whether the caller can hand out RuleAnswer::permit to its client. If it cannot, takes are
  // kInvalid to which a `concurrency` limit applies.
  bool hands_out_permit = false;
};

// Decides the requests of all front ends by the active rules, counts them, and logs denials.
// RuleHttpFields and rejection.h write the answers. Records requests that take by rules.
//
// Thread-safety: one thread at a time. Each event loop has a session; if the store may wait, each
// request that is being decided has one. Ownership: borrows its parts. Cost: that of the decision
// and one atomic load; nothing is allocated once its buffers have grown.
class Session {
 public:
  struct Parts {
    Limiter& limiter;
    const RulesManager& rules;
    metrics::Recorder& recorder;
    DenialLog& denials;
    RuleStores stores = {};
    TrafficRecorder* traffic = nullptr;      // null: requests are not recorded
    insight::KeyRecorder* keys = nullptr;    // null: keys are not counted
    detail::Waits* waits = nullptr;          // the requests that wait; null: none may
    RecentRequests::Lane* recent = nullptr;  // null: recent requests are not kept
    OtlpExporter* otlp = nullptr;            // null: decisions have no spans
  };
  explicit Session(const Parts& parts);

  // Decides by the active rules. The answer is valid until the next call. Null if the request names
  // a rule that does not exist.
  const RuleAnswer* decide(const SessionRequest& request);
  // As decide() of a take, but waits for the units, at most that long, in order of arrival among
  // the requests of Parts::waits. The answer is counted once. It is a denial if the sleep is
  // stopped, or if the client with this socket has left. The caller hands out its permit.
  const RuleAnswer& acquire(const AttributeSource& attributes, const RequestCosts& costs,
                            Duration max_wait, net::FiberSleep& sleep, int client);
  // Decides a request of several parts, at least one, by the rules of one domain.
  const RuleAnswer& decide_parts(std::string_view domain, std::span<const RequestPart> parts,
                                 Action action = Verb::kTake);
  // Decides by the limit of the request itself. There is no failure policy, so the decision has
  // failed if the store could not decide. If units of a `concurrency` limit are taken, `permit`
  // becomes the text of their permit; else it becomes empty. Null: there is no such limit. A charge
  // that `settles` a request is not counted, because the request has been.
  Decision decide(Charge charge, Action action = Verb::kTake, std::string* permit = nullptr,
                  bool settles = false);
  // Releases or extends a permit that was handed out: see RuleDecider.
  Decision release(std::string_view permit);
  Decision extend(std::string_view permit);
  // The trace of the requests to come, for the denial log and spans. A request's attribute
  // `traceparent` or `header.traceparent` comes first.
  void use_trace(TraceSource trace) noexcept { trace_ = std::move(trace); }
  // Whether the requests to come are those of one array: see RuleDecider.
  void decide_array(bool is_array) noexcept { decider_.decide_array(is_array); }
  // Switches to the active rules. The functions above do so too; without requests, a call releases
  // the old rules.
  void follow_rules();

 private:
  class Waiting;

  const RuleAnswer& reported(const RuleAnswer& answer);
  void record(const AttributeSource& attributes, const RequestCosts& costs,
              const RuleAnswer& answer);
  void record(const RuleAnswer& answer, std::span<const RequestPart> parts);
  // Notes when a decision begins, for its span.
  void begin() noexcept {
    if (parts_.otlp != nullptr) began_ = parts_.otlp->now();
  }
  void keep(const AttributeSource& attributes, const RequestCosts& costs, Outcome outcome);
  std::uint64_t report_near(const RuleAnswer& answer) noexcept;
  void count(const RuleAnswer& answer, std::uint64_t near);

  const Parts parts_;
  TraceSource trace_;
  RuleDecider decider_;
  std::uint64_t version_;
  RuleSet rules_;
  RuleAnswer without_rule_;  // has no limits
  RuleAnswer waited_;        // of acquire()
  Instant began_;            // the latest decision, if it may have a span
};

}  // namespace sluice::server
