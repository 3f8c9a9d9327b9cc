#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::metrics {

// The doors that requests come in by.
enum class FrontEnd : std::uint8_t { kCheck, kAuth, kOther, kResp, kGrpc, kJson };
inline constexpr std::size_t kFrontEnds = 6;
// As the label `front_end` spells it: "check", "auth", "other", "resp", "grpc", "json".
std::string_view to_string(FrontEnd front_end) noexcept;

// What befalls listeners.
enum class Event : std::uint8_t {
  kAccepted,          // a connection, which will be kClosed
  kClosed,            // a connection that was kAccepted
  kRefused,           // a connection over the cap: neither kAccepted nor kClosed
  kOutOfDescriptors,  // a connection could not be accepted, as no descriptor was free
  kBadRequest,        // a request that is none: what the parser answers with 400 and the like
  kTimedOut,          // a client that was too slow to send or to read
};
inline constexpr std::size_t kEvents = 6;

// What one event loop counts.
//
// Thread-safety: one thread writes (any member); Registry::text() reads meanwhile. Ownership: the
// registry's; shares the rules given to use(). Cost: count(), observe() and add() are some plain
// loads and stores: no lock, no allocation, no read-modify-write.
class Recorder final {
 public:
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // The rules that the answers to come are made by. What is counted for names of rules and limits
  // goes on as long as any recorder of the registry uses rules with these names, and is forgotten
  // then; so each loop should follow a change of the rules soon, an idle one too. Allocates, and
  // waits for a text() that is collecting; nothing of that where they are in use already.
  void use(const RuleSet& rules);
  bool uses(const RuleSet& rules) const noexcept;
  // Of a take: each limit of the answer by its outcome and reason, and the request by its. The
  // answer was made by the rules in use (limits of others are not counted).
  void count(const RuleAnswer& answer) noexcept;
  // The same of an answer by other rules, as one that had to be waited for while they changed: as
  // far as their names are still used. Cost: that of use().
  void count_late(const RuleSet& rules, const RuleAnswer& answer);
  void observe(FrontEnd front_end, std::chrono::nanoseconds took) noexcept;
  // Requests that arrived together and took that long in all: each counts as an equal part of it.
  void observe_many(FrontEnd front_end, std::uint64_t requests,
                    std::chrono::nanoseconds took) noexcept;
  void add(Event event, std::uint64_t n = 1) noexcept;

  struct State;  // src/metrics only

 private:
  friend class Registry;
  explicit Recorder(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// All metrics of the process; docs/metrics.md lists them.
//
// Thread-safety: any member from any thread. Cost: two descriptors held open (so that it can tell
// how many are open when none is left); 192 bytes a limit for each recorder. The number of series
// is bounded by the rules and the recorders' functions: no label is taken from a request.
class Registry {
 public:
  Registry();
  ~Registry();
  // A recorder for one thread, which lives as long as the registry.
  Recorder& make_recorder();
  // A value that is asked for by text(), in its thread; `value` is safe to call from any thread and
  // does not use the registry. A counter never goes back, and its name ends in "_total". Errors:
  // std::invalid_argument for a name that is malformed or was added before.
  void add_gauge(std::string name, std::string help, std::function<double()> value);
  void add_counter(std::string name, std::string help, std::function<double()> value);
  // Counters of one name that differ in one label: the values of that.
  struct Series {
    std::string label;
    std::function<double()> value;
  };
  void add_counters(std::string name, std::string help, std::string label,
                    std::vector<Series> series);
  // Counters of one name whose labels come and go: `rows` is asked for them, each with as many
  // values as there are labels, and no two alike.
  struct Row {
    std::vector<std::string> values;
    double count = 0;
  };
  void add_table(std::string name, std::string help, std::vector<std::string> labels,
                 std::function<std::vector<Row>()> rows);
  // Prometheus text, version 0.0.4: "text/plain; version=0.0.4; charset=utf-8". Counters never go
  // back from one text to the next. Cost: some 50 µs, and 4 µs for each limit.
  std::string text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::metrics
