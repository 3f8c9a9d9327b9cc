#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <mutex>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>

#include "base/quoted.h"
#include "core/decision.h"
#include "metrics/counts.h"

namespace sluice::metrics {

namespace {

// Sixteen digits show every count below 10^16 exactly.
std::string text_of(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::general, 16);
  return {digits.data(), end.ptr};
}

// Writes the text that Prometheus reads.
class PrometheusText final : public Writer {
 public:
  void begin(std::string_view type, std::string_view name, std::string_view help) override {
    name_ = name;
    out_.append("# HELP ").append(name).append(" ").append(help);
    out_.append("\n# TYPE ").append(name).append(" ").append(type).append("\n");
  }
  void add(std::span<const Label> labels, double value) override { write("", labels, {}, value); }
  void add(std::span<const Label> labels, const DurationCounts& counts) override {
    const auto all =
        std::accumulate(counts.buckets.begin(), counts.buckets.end(), std::uint64_t{0});
    write("_count", labels, {}, static_cast<double>(all));
    write("_sum", labels, {}, static_cast<double>(counts.sum_ns) / 1e9);
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < DurationCounts::kBounds; ++i) {
      count += counts.buckets[i];
      const double bound = static_cast<double>(std::uint64_t{1} << i) / 1e6;
      write("_bucket", labels, text_of(bound), static_cast<double>(count));
    }
    write("_bucket", labels, "+Inf", static_cast<double>(all));
  }
  std::string take() { return std::move(out_); }

 private:
  // Writes a line. `le` is the bound of a bucket, or empty.
  void write(std::string_view suffix, std::span<const Label> labels, std::string_view le,
             double value) {
    out_.append(name_).append(suffix);
    char before = '{';
    for (const Label& label : labels) {
      out_ += std::exchange(before, ',');
      write_label(label);
    }
    if (!le.empty()) {
      out_ += std::exchange(before, ',');
      write_label({"le", le});
    }
    out_.append(before == ',' ? "} " : " ").append(text_of(value)).append("\n");
  }

  void write_label(const Label& label) {
    out_.append(label.name).append("=\"");
    for (const char c : label.value) {
      if (c == '\\' || c == '"' || c == '\n') out_ += '\\';
      out_ += c == '\n' ? 'n' : c;
    }
    out_ += '"';
  }

  std::string_view name_;
  std::string out_;
};

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

// Reads /proc/self. It keeps its files open, so that it works when no file descriptor is free.
//
// Thread-safety: any member from any thread.
class Process {
 public:
  Process() = default;
  ~Process() {
    if (stat_ >= 0) close(stat_);
    if (descriptors_ != nullptr) closedir(descriptors_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // Adds what the system reports.
  void write(Writer& to) const {
    write_stat(to);
    write_descriptors(to);
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    to.metric("gauge", "process_max_fds", "Maximum number of open file descriptors.")
        .add({}, std::uint64_t{limit.rlim_cur});
  }

 private:
  void write_stat(Writer& to) const {
    std::array<char, 2048> buffer{};
    const auto size = stat_ >= 0 ? pread(stat_, buffer.data(), buffer.size(), 0) : 0;
    if (size <= 0) return;
    const auto fields = fields_of({buffer.data(), static_cast<std::size_t>(size)});
    const auto tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
    to.metric("gauge", "process_start_time_seconds",
              "Start time of the process since the Unix epoch.")
        .add({}, booted_ + fields[kStartTime] * tick);
    to.metric("counter", "process_cpu_seconds_total", "User and system CPU time.")
        .add({}, (fields[kUserTime] + fields[kSystemTime]) * tick);
    to.metric("gauge", "process_resident_memory_bytes", "Resident memory.")
        .add({}, fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE)));
    to.metric("gauge", "process_virtual_memory_bytes", "Virtual memory.")
        .add({}, fields[kVirtualBytes]);
  }

  void write_descriptors(Writer& to) const {
    if (descriptors_ == nullptr) return;
    const std::lock_guard lock(mutex_);
    rewinddir(descriptors_);
    double count = 0;
    while (const dirent* entry = readdir(descriptors_)) count += entry->d_name[0] != '.';
    to.metric("gauge", "process_open_fds", "Open file descriptors.").add({}, count);
  }

  // Negative if it could not be opened.
  int stat_ = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  // The start of the system, in seconds since 1970.
  double booted_ = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME);
  DIR* descriptors_ = opendir("/proc/self/fd");
  mutable std::mutex mutex_;  // protects the position in `descriptors_`
};

namespace {

// Adds the series of a total by outcome and reason: those with counts, and the two that exist from
// the start for rate(). Requests that no rule decided are never limited. `labels` has room for two.
void write_outcomes(Writer& to, std::span<Label> labels, const Total& total, bool limited) {
  for (const auto outcome : {Outcome::kAllowed, Outcome::kDenied}) {
    for (std::size_t i = 0; i < kReasons; ++i) {
      const auto reason = static_cast<Reason>(i);
      const auto value = total.cells[cell_of(outcome, reason)];
      const bool from_start = outcome == Outcome::kAllowed ? reason == Reason::kOk
                                                           : limited && reason == Reason::kLimited;
      if (value == 0 && !from_start) continue;
      labels[labels.size() - 2] = {"outcome", core::wire_outcome(outcome)};
      labels[labels.size() - 1] = {"reason", to_string(reason)};
      to.add(labels, static_cast<double>(value));
    }
  }
}

void write_decisions(Writer& to, const Totals& totals) {
  to.metric("counter", "sluice_requests_total",
            "Decided requests by the rule that decided (empty: no rule matched).");
  for (const auto& [rule, total] : totals.requests) {
    std::array<Label, 3> labels{Label{"rule", rule}};
    write_outcomes(to, labels, total, !rule.empty());
  }
  to.metric("counter", "sluice_decisions_total",
            "Decisions of limits, including those of shadow rules.");
  for (const auto& [names, total] : totals.limits) {
    std::array<Label, 4> labels{Label{"rule", names.first}, Label{"limit", names.second}};
    write_outcomes(to, labels, total, true);
  }
}

// Writes one cell of each limit: if it has counted something, or if the limit has `shown`.
void write_cells(Writer& to, const Totals& totals, std::size_t cell, bool Total::* shown) {
  for (const auto& [names, total] : totals.limits) {
    const auto value = total.cells[cell];
    if (value > 0 || shown == nullptr || total.*shown) {
      to.add({{"rule", names.first}, {"limit", names.second}}, value);
    }
  }
}

void write_special_decisions(Writer& to, const Totals& totals) {
  to.metric("counter", "sluice_shadow_denials_total",
            "Requests that limits of shadow rules would have denied (empty limit: the rule).");
  for (const auto& [rule, total] : totals.requests) {
    const auto value = total.cells[kShadowCell];
    if (value > 0 || total.shadow) to.add({{"rule", rule}, {"limit", ""}}, value);
  }
  write_cells(to, totals, kShadowCell, &Total::shadow);
  to.metric("counter", "sluice_new_counters_refused_total",
            "Requests, reports and settlements for which the store could not create the "
            "counter of a limit.");
  write_cells(to, totals, kNewCell, nullptr);
  to.metric("counter", "sluice_blocks_total",
            "Blocks that repeated denials by a limit have started.");
  write_cells(to, totals, kBlockCell, &Total::blocks);
  to.metric("counter", "sluice_near_keys_total",
            "Keys that came near a limit with `warn`, once per key and window.");
  write_cells(to, totals, kNearCell, &Total::warns);
  to.metric("counter", "sluice_limits_skipped_total",
            "Requests to which a limit did not apply, because an attribute of its key or of its "
            "cost was missing.");
  write_cells(to, totals, kSkippedCell, &Total::skips);
  to.metric("counter", "sluice_unknown_plans_total",
            "Requests whose plan is none of their rule, which got its default plan.");
  for (const auto& [rule, total] : totals.requests) {
    const auto value = total.cells[kUnknownPlanCell];
    if (value > 0 || total.plans) to.add({{"rule", rule}}, value);
  }
}

void write_durations(Writer& to, const Totals& totals) {
  to.metric("histogram", "sluice_request_duration_seconds",
            "Time from reading a request to writing its response into a buffer.");
  for (std::size_t i = 0; i < kFrontEnds; ++i) {
    const Label front_end{"front_end", to_string(static_cast<FrontEnd>(i))};
    to.add(std::span(&front_end, 1), totals.durations[i]);
  }
}

void write_events(Writer& to, const Totals& totals) {
  const auto of = [&](Event event) { return totals.events[static_cast<std::size_t>(event)]; };
  to.metric("counter", "sluice_connections_accepted_total", "Accepted connections.")
      .add({}, of(Event::kAccepted));
  to.metric("counter", "sluice_connections_refused_total",
            "Refused connections: over the maximum, or no file descriptor was free.")
      .add({{"reason", "cap"}}, of(Event::kRefused))
      .add({{"reason", "out_of_descriptors"}}, of(Event::kOutOfDescriptors));
  to.metric("counter", "sluice_request_errors_total",
            "Requests without a decision: wrong ones, those of slow clients, failed handshakes.")
      .add({{"reason", "bad_request"}}, of(Event::kBadRequest))
      .add({{"reason", "not_accepted"}}, of(Event::kNotAccepted))
      .add({{"reason", "timed_out"}}, of(Event::kTimedOut))
      .add({{"reason", "tls_failed"}}, of(Event::kTlsFailed));
}

// Whether the text may be the name of a metric, and, without a colon, of a label.
bool is_name(std::string_view text) noexcept {
  const auto is_part = [](char c) { return base::is_letter_or("_:", c); };
  return !text.empty() && !base::is_digit(text[0]) && !text.starts_with("__") &&
         std::all_of(text.begin(), text.end(), is_part);
}

// Adds a metric to those that are asked for; `write` adds its series.
void add_metric(Shared& to, std::string_view type, std::string name, std::string help,
                std::function<void(Writer&)> write) {
  if (!is_name(name)) throw std::invalid_argument("'" + name + "' is no name of a metric");
  const std::lock_guard lock(to.mutex);
  if (!to.names.insert(name).second) {
    throw std::invalid_argument("the metric '" + name + "' was added before");
  }
  to.asked.emplace_back(
      [type, name = std::move(name), help = std::move(help),
       write = std::move(write)](Writer& writer) { write(writer.metric(type, name, help)); });
}

std::string_view type_of(std::string_view name) noexcept {
  return name.ends_with("_total") ? "counter" : "gauge";
}

}  // namespace

Registry::Registry()
    : shared_(std::make_unique<Shared>()), process_(std::make_unique<const Process>()) {}
Registry::~Registry() = default;

Recorder& Registry::make_recorder() {
  auto recorder = std::make_unique<Recorder>(*shared_);
  const std::lock_guard lock(shared_->mutex);
  return *shared_->recorders.emplace_back(std::move(recorder));
}

void Registry::add(std::string name, std::string help, std::function<double()> value) {
  const std::string_view type = type_of(name);
  add_metric(*shared_, type, std::move(name), std::move(help),
             [value = std::move(value)](Writer& writer) { writer.add({}, value()); });
}

void Registry::add_rows(std::string name, std::string help, std::vector<std::string> labels,
                        std::function<std::vector<Row>()> rows) {
  for (const std::string& label : labels) {
    if (!is_name(label)) throw std::invalid_argument("'" + label + "' is no name of a label");
  }
  const std::string_view type = type_of(name);
  add_metric(*shared_, type, std::move(name), std::move(help),
             [labels = std::move(labels), rows = std::move(rows)](Writer& writer) {
               std::vector<Label> named(labels.size());
               for (const Row& row : rows()) {
                 for (std::size_t i = 0; i < labels.size(); ++i) {
                   named[i] = {labels[i], row.values[i]};
                 }
                 writer.add(named, row.count);
               }
             });
}

void Registry::add_histogram(std::string name, std::string help,
                             std::function<DurationCounts()> counts) {
  add_metric(*shared_, "histogram", std::move(name), std::move(help),
             [counts = std::move(counts)](Writer& to) {
               if (counts) to.add(std::span<const Label>(), counts());
             });
}

Activity Registry::activity(const RuleSet& rules) const {
  Activity all;
  all.rules.resize(rules.rules().size() + 1);
  for (const Rule& rule : rules.rules()) all.limits.resize(all.limits.size() + rule.limits.size());
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& recorder : shared_->recorders) recorder->add_to(all, rules);
  }
  // A rule is asked as often as the limit that was asked most, and would deny as often as the one
  // that denied most.
  const Activity::Counts* limit = all.limits.data();
  for (std::size_t i = 0; i < rules.rules().size(); ++i) {
    Activity::Counts& of = all.rules[i];
    std::uint64_t most = 0;
    for (const Activity::Counts* const end = limit + rules.rules()[i].limits.size(); limit != end;
         ++limit) {
      of.asked = std::max(of.asked, limit->asked);
      most = std::max(most, limit->would_deny);
      of.near += limit->near;
      of.skipped += limit->skipped;
    }
    of.would_deny += most;
  }
  return all;
}

void Registry::write(Writer& to) const {
  Totals all;
  std::vector<std::function<void(Writer&)>> asked;
  {
    const std::lock_guard lock(shared_->mutex);
    all = shared_->kept;
    for (const auto& recorder : shared_->recorders) recorder->add_to(all);
    asked = shared_->asked;
  }
  write_decisions(to, all);
  write_special_decisions(to, all);
  write_durations(to, all);
  write_events(to, all);
  for (const auto& write : asked) write(to);
  to.metric("gauge", "sluice_build_info", "Always 1; the version is a label.")
      .add({{"version", SLUICE_VERSION}}, 1.0);
  process_->write(to);
}

std::string Registry::text() const {
  PrometheusText text;
  write(text);
  return text.take();
}

}  // namespace sluice::metrics
