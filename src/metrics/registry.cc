#include <dirent.h>
#include <fcntl.h>
#include <prometheus/check_names.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "core/decision.h"
#include "metrics/counts.h"

namespace sluice::metrics {

// What the system reports about this process. Absent: the system does not report it.
struct ProcessFacts {
  std::optional<double> start_time_seconds;  // since 1970
  std::optional<double> cpu_seconds;
  std::optional<double> virtual_bytes;
  std::optional<double> resident_bytes;
  std::optional<double> open_descriptors;
  std::optional<double> max_descriptors;
};

// Reads /proc/self. It keeps its files open, so that it works when no file descriptor is free.
//
// Thread-safety: any member from any thread.
class Process {
 public:
  Process();
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ProcessFacts read() const;

 private:
  void read_stat(ProcessFacts& facts) const;
  std::optional<double> open_descriptors() const;

  int stat_;       // negative if it could not be opened
  double booted_;  // start of the system, in seconds since 1970
  DIR* descriptors_;
  mutable std::mutex mutex_;  // protects the position in `descriptors_`
};

namespace {

double seconds_of(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Returns the fields of /proc/self/stat from the third on (proc(5)). The second can contain any
// text.
constexpr std::size_t kFirstField = 3, kUserTime = 14, kSystemTime = 15, kStartTime = 22,
                      kVirtualBytes = 23, kResidentPages = 24;

std::array<double, kResidentPages + 1> fields_of(std::string_view stat) {
  std::array<double, kResidentPages + 1> fields{};
  stat.remove_prefix(stat.rfind(')') + 1);
  for (std::size_t i = kFirstField; i < fields.size(); ++i) {
    stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
    const auto field = stat.substr(0, stat.find(' '));
    std::from_chars(field.data(), field.data() + field.size(), fields[i]);
    stat.remove_prefix(field.size());
  }
  return fields;
}

}  // namespace

Process::Process()
    : stat_(open("/proc/self/stat", O_RDONLY | O_CLOEXEC)),
      booted_(seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME)),
      descriptors_(opendir("/proc/self/fd")) {}

Process::~Process() {
  if (stat_ >= 0) close(stat_);
  if (descriptors_ != nullptr) closedir(descriptors_);
}

void Process::read_stat(ProcessFacts& facts) const {
  std::array<char, 2048> buffer{};
  const auto size = pread(stat_, buffer.data(), buffer.size(), 0);
  if (size <= 0) return;
  const auto fields = fields_of({buffer.data(), static_cast<std::size_t>(size)});
  const auto tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  facts.start_time_seconds = booted_ + fields[kStartTime] * tick;
  facts.cpu_seconds = (fields[kUserTime] + fields[kSystemTime]) * tick;
  facts.virtual_bytes = fields[kVirtualBytes];
  facts.resident_bytes = fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::optional<double> Process::open_descriptors() const {
  if (descriptors_ == nullptr) return {};
  const std::lock_guard lock(mutex_);
  rewinddir(descriptors_);
  double count = 0;
  while (const dirent* entry = readdir(descriptors_)) count += entry->d_name[0] != '.';
  return count;
}

ProcessFacts Process::read() const {
  ProcessFacts facts;
  if (stat_ >= 0) read_stat(facts);
  facts.open_descriptors = open_descriptors();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.max_descriptors = static_cast<double>(limit.rlim_cur);
  }
  return facts;
}

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// A metric family under construction.
class Family {
 public:
  Family(MetricType type, std::string name, std::string help) {
    family_.type = type;
    family_.name = std::move(name);
    family_.help = std::move(help);
  }
  Family& add(Labels labels, double value) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    return *this;
  }
  Family& add(Labels labels, std::uint64_t value) {
    return add(std::move(labels), static_cast<double>(value));
  }
  Family& add(Labels labels, ClientMetric::Histogram histogram) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    metric.histogram = std::move(histogram);
    return *this;
  }
  MetricFamily take() { return std::move(family_); }

 private:
  MetricFamily family_;
};

// Adds the series of a total by outcome and reason: those with counts, and the two that exist from
// the start for rate(). Requests that no rule decided are never limited.
void add_outcomes(Family& family, const Labels& names, const Total& total, bool limited) {
  for (const auto outcome : {Outcome::kAllowed, Outcome::kDenied}) {
    for (std::size_t i = 0; i < kReasons; ++i) {
      const auto reason = static_cast<Reason>(i);
      const auto value = total.cells[cell_of(outcome, reason)];
      const bool from_start = outcome == Outcome::kAllowed ? reason == Reason::kOk
                                                           : limited && reason == Reason::kLimited;
      if (value == 0 && !from_start) continue;
      Labels labels = names;
      labels.push_back({"outcome", std::string(core::wire_outcome(outcome))});
      labels.push_back({"reason", std::string(to_string(reason))});
      family.add(std::move(labels), value);
    }
  }
}

MetricFamily requests_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_requests_total",
                "Decided requests by the rule that decided (empty: no rule matched).");
  for (const auto& [rule, total] : totals.requests) {
    add_outcomes(family, {{"rule", rule}}, total, !rule.empty());
  }
  return family.take();
}

MetricFamily decisions_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_decisions_total",
                "Decisions of limits, including those of shadow rules.");
  for (const auto& [names, total] : totals.limits) {
    add_outcomes(family, {{"rule", names.first}, {"limit", names.second}}, total, true);
  }
  return family.take();
}

MetricFamily shadow_denials_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_shadow_denials_total",
                "Requests that limits of shadow rules would have denied (empty limit: the rule).");
  for (const auto& [rule, total] : totals.requests) {
    const auto value = total.cells[kShadowCell];
    if (value > 0 || total.shadow) family.add({{"rule", rule}, {"limit", ""}}, value);
  }
  for (const auto& [names, total] : totals.limits) {
    const auto value = total.cells[kShadowCell];
    if (value == 0 && !total.shadow) continue;
    family.add({{"rule", names.first}, {"limit", names.second}}, value);
  }
  return family.take();
}

MetricFamily new_counters_refused_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_new_counters_refused_total",
                "Requests, reports and settlements for which the store could not create the "
                "counter of a limit.");
  for (const auto& [names, total] : totals.limits) {
    family.add({{"rule", names.first}, {"limit", names.second}}, total.cells[kNewCell]);
  }
  return family.take();
}

MetricFamily blocks_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_blocks_total",
                "Blocks that repeated denials by a limit have started.");
  for (const auto& [names, total] : totals.limits) {
    const auto value = total.cells[kBlockCell];
    if (value == 0 && !total.blocks) continue;
    family.add({{"rule", names.first}, {"limit", names.second}}, value);
  }
  return family.take();
}

MetricFamily near_keys_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_near_keys_total",
                "Keys that came near a limit with `warn`, once per key and window.");
  for (const auto& [names, total] : totals.limits) {
    const auto value = total.cells[kNearCell];
    if (value == 0 && !total.warns) continue;
    family.add({{"rule", names.first}, {"limit", names.second}}, value);
  }
  return family.take();
}

MetricFamily unknown_plans_of(const Totals& totals) {
  Family family(MetricType::Counter, "sluice_unknown_plans_total",
                "Requests whose plan is none of their rule, which got its default plan.");
  for (const auto& [rule, total] : totals.requests) {
    const auto value = total.cells[kUnknownPlanCell];
    if (value > 0 || total.plans) family.add({{"rule", rule}}, value);
  }
  return family.take();
}

ClientMetric::Histogram histogram_of(const DurationCounts& duration) {
  ClientMetric::Histogram histogram;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < Durations::kBounds; ++i) {
    count += duration.buckets[i];
    histogram.bucket.push_back({count, static_cast<double>(std::uint64_t{1} << i) / 1e6});
  }
  histogram.sample_count = count + duration.buckets[Durations::kBounds];
  histogram.sample_sum = static_cast<double>(duration.sum_ns) / 1e9;
  return histogram;
}

MetricFamily durations_of(const Sums& sums) {
  Family family(MetricType::Histogram, "sluice_request_duration_seconds",
                "Time from reading a request to writing its response into a buffer.");
  for (std::size_t i = 0; i < kFrontEnds; ++i) {
    family.add({{"front_end", std::string(to_string(static_cast<FrontEnd>(i)))}},
               histogram_of(sums.durations[i]));
  }
  return family.take();
}

void add_events(std::vector<MetricFamily>& families, const Sums& sums) {
  const auto of = [&](Event event) { return sums.events[static_cast<std::size_t>(event)]; };
  const auto accepted = of(Event::kAccepted);
  // A recorder that counts at the same time can make the number of closed connections larger.
  const auto closed = std::min(of(Event::kClosed), accepted);
  families.push_back(
      Family(MetricType::Counter, "sluice_connections_accepted_total", "Accepted connections.")
          .add({}, accepted)
          .take());
  families.push_back(Family(MetricType::Gauge, "sluice_connections", "Open connections.")
                         .add({}, accepted - closed)
                         .take());
  families.push_back(
      Family(MetricType::Counter, "sluice_connections_refused_total",
             "Refused connections: over the maximum, or no file descriptor was free.")
          .add({{"reason", "cap"}}, of(Event::kRefused))
          .add({{"reason", "out_of_descriptors"}}, of(Event::kOutOfDescriptors))
          .take());
  families.push_back(Family(MetricType::Counter, "sluice_request_errors_total",
                            "Malformed requests, requests of slow clients, failed handshakes.")
                         .add({{"reason", "bad_request"}}, of(Event::kBadRequest))
                         .add({{"reason", "timed_out"}}, of(Event::kTimedOut))
                         .add({{"reason", "tls_failed"}}, of(Event::kTlsFailed))
                         .take());
}

void add_process(std::vector<MetricFamily>& families, const ProcessFacts& facts) {
  const auto add = [&](MetricType type, const char* name, const char* help,
                       const std::optional<double>& value) {
    if (value) families.push_back(Family(type, name, help).add({}, *value).take());
  };
  add(MetricType::Gauge, "process_start_time_seconds",
      "Start time of the process since the Unix epoch.", facts.start_time_seconds);
  add(MetricType::Counter, "process_cpu_seconds_total", "User and system CPU time.",
      facts.cpu_seconds);
  add(MetricType::Gauge, "process_resident_memory_bytes", "Resident memory.", facts.resident_bytes);
  add(MetricType::Gauge, "process_virtual_memory_bytes", "Virtual memory.", facts.virtual_bytes);
  add(MetricType::Gauge, "process_open_fds", "Open file descriptors.", facts.open_descriptors);
  add(MetricType::Gauge, "process_max_fds", "Maximum number of open file descriptors.",
      facts.max_descriptors);
}

// Values with one name that text() reads, each with its label if there is one.
struct Asked {
  MetricType type;
  std::string name;
  std::string help;
  std::string label;
  std::vector<Registry::Series> series;
  std::vector<std::string> labels = {};  // of the rows
  std::function<std::vector<Registry::Row>()> rows = {};
  std::function<DurationCounts()> durations = {};

  MetricFamily read() const {
    Family family(type, name, help);
    if (durations) family.add({}, histogram_of(durations()));
    if (rows) {
      for (const Registry::Row& row : rows()) family.add(named(row.values), row.count);
    }
    for (const Registry::Series& one : series) {
      family.add(label.empty() ? Labels{} : Labels{{label, one.label}}, one.value());
    }
    return family.take();
  }
  Labels named(const std::vector<std::string>& values) const {
    Labels out;
    for (std::size_t i = 0; i < labels.size(); ++i) out.push_back({labels[i], values[i]});
    return out;
  }
};

}  // namespace

class Registry::Impl final : public prometheus::Collectable {
 public:
  std::vector<MetricFamily> Collect() const override;
  void add(Asked asked);

  mutable Shared shared;
  std::vector<std::unique_ptr<Recorder>> recorders;  // under the lock of `shared`

 private:
  Sums sums() const;

  std::vector<Asked> asked_;  // under the lock of `shared`
  Process process_;
};

void Registry::Impl::add(Asked asked) {
  if (!prometheus::CheckMetricName(asked.name)) {
    throw std::invalid_argument("'" + asked.name + "' is no name of a metric");
  }
  // A valid metric name is a valid label name, except for colons.
  if (!asked.label.empty() && !prometheus::CheckMetricName(asked.label)) {
    throw std::invalid_argument("'" + asked.label + "' is no name of a label");
  }
  const std::lock_guard lock(shared.mutex);
  for (const Asked& other : asked_) {
    if (other.name == asked.name) {
      throw std::invalid_argument("the metric '" + asked.name + "' was added before");
    }
  }
  asked_.push_back(std::move(asked));
}

Sums Registry::Impl::sums() const {
  Sums sums;
  const std::lock_guard lock(shared.mutex);
  sums.totals = shared.kept;
  for (const Recorder::State* recorder : shared.recorders) sums.add(*recorder);
  return sums;
}

std::vector<MetricFamily> Registry::Impl::Collect() const {
  const Sums all = sums();
  std::vector<MetricFamily> families;
  families.push_back(requests_of(all.totals));
  families.push_back(decisions_of(all.totals));
  families.push_back(shadow_denials_of(all.totals));
  families.push_back(new_counters_refused_of(all.totals));
  families.push_back(blocks_of(all.totals));
  families.push_back(near_keys_of(all.totals));
  families.push_back(unknown_plans_of(all.totals));
  families.push_back(durations_of(all));
  add_events(families, all);
  const auto asked = [&] {
    const std::lock_guard lock(shared.mutex);
    return asked_;
  }();
  for (const Asked& one : asked) families.push_back(one.read());
  families.push_back(
      Family(MetricType::Gauge, "sluice_build_info", "Always 1; the version is a label.")
          .add({{"version", SLUICE_VERSION}}, 1.0)
          .take());
  add_process(families, process_.read());
  return families;
}

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

Recorder& Registry::make_recorder() {
  auto state = std::make_unique<Recorder::State>(impl_->shared);
  const std::lock_guard lock(impl_->shared.mutex);
  impl_->shared.recorders.push_back(state.get());
  auto recorder = std::unique_ptr<Recorder>(new Recorder(std::move(state)));
  return *impl_->recorders.emplace_back(std::move(recorder));
}

void Registry::add_gauge(std::string name, std::string help, std::function<double()> value) {
  impl_->add({MetricType::Gauge, std::move(name), std::move(help), {}, {{{}, std::move(value)}}});
}

void Registry::add_counter(std::string name, std::string help, std::function<double()> value) {
  impl_->add({MetricType::Counter, std::move(name), std::move(help), {}, {{{}, std::move(value)}}});
}

void Registry::add_counters(std::string name, std::string help, std::string label,
                            std::vector<Series> series) {
  impl_->add(
      {MetricType::Counter, std::move(name), std::move(help), std::move(label), std::move(series)});
}

void Registry::add_table(std::string name, std::string help, std::vector<std::string> labels,
                         std::function<std::vector<Row>()> rows) {
  impl_->add({MetricType::Counter,
              std::move(name),
              std::move(help),
              {},
              {},
              std::move(labels),
              std::move(rows)});
}

Activity Registry::activity(const RuleSet& rules) const {
  Activity all = empty_activity(rules);
  {
    const std::lock_guard lock(impl_->shared.mutex);
    for (const Recorder::State* one : impl_->shared.recorders) add_recorder(all, *one, rules);
  }
  add_would_deny(all, rules);
  return all;
}

void Registry::add_gauges(std::string name, std::string help, std::vector<std::string> labels,
                          std::function<std::vector<Row>()> rows) {
  impl_->add({MetricType::Gauge,
              std::move(name),
              std::move(help),
              {},
              {},
              std::move(labels),
              std::move(rows)});
}

void Registry::add_histogram(std::string name, std::string help,
                             std::function<DurationCounts()> counts) {
  impl_->add({.type = MetricType::Histogram,
              .name = std::move(name),
              .help = std::move(help),
              .label = {},
              .series = {},
              .durations = std::move(counts)});
}

std::string Registry::text() const {
  return prometheus::TextSerializer().Serialize(impl_->Collect());
}

}  // namespace sluice::metrics
