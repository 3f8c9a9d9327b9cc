#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/rule_answer.h"
#include "sluice/rule_set.h"

namespace sluice::metrics {

struct Activity;
struct Shared;
struct Totals;
class Process;
class RuleCounts;

// The front ends and HTTP endpoints that receive requests.
enum class FrontEnd : std::uint8_t { kCheck, kAuth, kOther, kResp, kGrpc, kJson };
inline constexpr auto kFrontEndNames = std::to_array<std::string_view>(
    {"check", "auth", "other", "resp", "grpc", "json"});  // in the order of the enumerators
inline constexpr std::size_t kFrontEnds = kFrontEndNames.size();
// Returns the value of the label `front_end`.
constexpr std::string_view to_string(FrontEnd front_end) noexcept {
  return kFrontEndNames[static_cast<std::size_t>(front_end)];
}

// Events of listeners.
enum class Event : std::uint8_t {
  kAccepted,          // a connection was accepted
  kRefused,           // a connection was refused because of the maximum, so not kAccepted
  kOutOfDescriptors,  // a connection could not be accepted because no file descriptor was free
  kBadRequest,        // the parser answered a malformed request with 400 or a similar status
  kTimedOut,          // a client was too slow to send or to read
  kTlsFailed,         // a TLS handshake failed, or the client does not use TLS
  kNotAccepted,       // a wrong or forbidden request was answered with 4xx instead of a decision
};
inline constexpr std::size_t kEvents = static_cast<std::size_t>(Event::kNotAccepted) + 1;

// A histogram of durations: bucket k has those over 2^(k-1) and up to 2^k µs, the last one all
// longer ones. A plain value.
struct DurationCounts {
  static constexpr std::size_t kBounds = 21;  // 1 µs to 1.048576 s

  std::array<std::uint64_t, kBounds + 1> buckets{};
  std::uint64_t sum_ns = 0;
};

// A number that one thread writes and any thread may read.
class Count {
 public:
  void add(std::uint64_t n) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

inline constexpr std::size_t kCacheLine = 64;

// A histogram of durations: bucket k counts those of at most 2^k µs, the last bucket all others.
struct alignas(kCacheLine) Durations {
  static constexpr std::size_t kBounds = DurationCounts::kBounds;

  void add(std::chrono::nanoseconds took) noexcept { add_many(1, took); }
  // Counts `n` durations, at least 1, with this sum.
  void add_many(std::uint64_t n, std::chrono::nanoseconds took) noexcept {
    const auto all = took.count() > 0 ? static_cast<std::uint64_t>(took.count()) : 0;
    const std::uint64_t ns = n == 1 ? all : all / n;
    const auto bucket = static_cast<std::size_t>(std::bit_width((ns - (ns > 0)) / 1000));
    buckets[bucket < kBounds ? bucket : kBounds].add(n);
    sum_ns.add(all);
  }

  void add_to(DurationCounts& sums) const noexcept {
    for (std::size_t i = 0; i < buckets.size(); ++i) sums.buckets[i] += buckets[i].get();
    sums.sum_ns += sum_ns.get();
  }

  std::array<Count, kBounds + 1> buckets;
  Count sum_ns;
};

// The counts of one event loop.
//
// Thread-safety: one thread calls the members; Registry::text() may read at the same time.
// Ownership: the registry owns it; it shares the rules passed to use(). Cost: count(), observe()
// and add() are a few plain loads and stores, without locks, allocations or atomic
// read-modify-write operations.
class Recorder final {
 public:
  explicit Recorder(Shared& shared);  // for Registry
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // Sets the rules of the following decisions. The counts of a rule or limit continue as long as a
  // recorder of the registry uses rules with its name, and are deleted afterwards. Each loop should
  // therefore follow a change of rules soon, even if it is idle. Allocates and waits for a running
  // text(), unless these rules are already set.
  void use(const RuleSet& rules);
  bool uses(const RuleSet& rules) const noexcept;
  // Counts a take: each limit of the answer and the request, by outcome and reason. The answer must
  // be by the rules of use(); limits of other rules are not counted. `near` has a bit for each
  // limit of the answer, the first in bit 0: a key has come near that limit.
  void count(const RuleAnswer& answer, std::uint64_t near = 0) noexcept;
  // Counts an answer by other rules, such as one that waited while the rules changed, if the names
  // of its rules and limits are still in use. Cost: that of use().
  void count_late(const RuleSet& rules, const RuleAnswer& answer, std::uint64_t near = 0);
  // Counts only the counters that could not be created: the answer reports or settles a request,
  // which count() has counted. Cost: that of use() if the answer is by other rules and has some.
  void count_refused_new(const RuleSet& rules, const RuleAnswer& answer);
  void observe(FrontEnd front_end, std::chrono::nanoseconds took) noexcept;
  // Records requests that arrived together, with their total duration: each counts as an equal
  // part.
  void observe_many(FrontEnd front_end, std::uint64_t requests,
                    std::chrono::nanoseconds took) noexcept;
  void add(Event event, std::uint64_t n = 1) noexcept;

  // For Registry, under the lock of its counts.
  const RuleCounts& rules() const noexcept { return *rules_; }
  void add_to(Totals& totals) const;
  void add_to(Activity& to, const RuleSet& rules) const noexcept;

 private:
  void note(const RuleAnswer& answer) noexcept;

  Shared& shared_;
  std::unique_ptr<RuleCounts> rules_;  // replaced under the lock
  std::array<Durations, kFrontEnds> durations_;
  std::array<Count, kEvents> events_;
  Count failed_;  // requests that the store could not decide, by any rules
};

// A label of a series.
struct Label {
  std::string_view name;
  std::string_view value;
};

// Receives the metrics of a registry: begin(), and then the series of that metric. What it borrows
// is valid until the call returns. The type is "gauge", "counter" or "histogram".
class Writer {
 public:
  virtual ~Writer() = default;
  virtual void begin(std::string_view type, std::string_view name, std::string_view help) = 0;
  virtual void add(std::span<const Label> labels, double value) = 0;
  virtual void add(std::span<const Label> labels, const DurationCounts& counts) = 0;

  // The same, one after the other.
  Writer& metric(std::string_view type, std::string_view name, std::string_view help) {
    begin(type, name, help);
    return *this;
  }
  Writer& add(std::initializer_list<Label> labels, double value) {
    add(std::span(labels.begin(), labels.size()), value);
    return *this;
  }
  Writer& add(std::initializer_list<Label> labels, std::uint64_t value) {
    return add(labels, static_cast<double>(value));
  }
};

// All metrics of the process; docs/reference/metrics.md lists them.
//
// Thread-safety: any member from any thread. Cost: two open file descriptors (so that it can report
// the number of open descriptors when none is free) and 320 bytes per limit and recorder. The rules
// and the functions bound the number of series: no label comes from a request.
class Registry {
 public:
  Registry();
  ~Registry();
  // Creates a recorder for one thread. It lives as long as the registry.
  Recorder& make_recorder();
  // Adds a value that text() reads in its thread. `value` must be thread-safe and must not use the
  // registry. A metric whose name ends with "_total" is a counter, which never decreases; others
  // are gauges. Errors: std::invalid_argument for a malformed or repeated name.
  void add(std::string name, std::string help, std::function<double()> value);
  // Adds numbers of what `stats` returns.
  template <typename Stats>
  struct Stat {
    std::string_view name, help;
    std::uint64_t Stats::* number;
  };
  template <typename Stats>
  void add_stats(const std::function<Stats()>& stats, std::initializer_list<Stat<Stats>> all) {
    for (const auto& [name, help, number] : all) {
      add(std::string(name), std::string(help),
          [stats, number] { return static_cast<double>(stats().*number); });
    }
  }
  // Adds metrics with one name whose labels can change. text() calls `rows`. Each row has a value
  // for each label, and no two rows are equal.
  struct Row {
    std::vector<std::string> values;
    double count = 0;
  };
  void add_rows(std::string name, std::string help, std::vector<std::string> labels,
                std::function<std::vector<Row>()> rows);
  // Adds a histogram of durations, which text() reads as others.
  void add_histogram(std::string name, std::string help, std::function<DurationCounts()> counts);
  // Returns Prometheus text, version 0.0.4: "text/plain; version=0.0.4; charset=utf-8". Counters
  // never decrease between two texts. Cost: about 50 µs, and 4 µs per limit.
  std::string text() const;
  // Passes all metrics to `to`, as text() does.
  void write(Writer& to) const;
  // Returns what was counted by these rules, from when they became active. A recorder that has not
  // followed them yet is missing. Cost: about 10 µs, and 100 ns per rule and recorder.
  Activity activity(const RuleSet& rules) const;

 private:
  const std::unique_ptr<Shared> shared_;
  const std::unique_ptr<const Process> process_;
};

}  // namespace sluice::metrics
