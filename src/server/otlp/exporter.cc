#include "server/otlp/exporter.h"

#include <sluice/otlp.pb.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>
#include <random>
#include <utility>

#include "base/client_tls.h"
#include "base/quoted.h"
#include "server/net/address.h"
#include "sluice/permit_id.h"

namespace sluice::server {
namespace {

constexpr std::string_view kHttp = "http://", kHttps = "https://";
constexpr std::chrono::seconds kBetweenSends{1};
constexpr std::chrono::seconds kBetweenReports{60};
constexpr std::chrono::seconds kPatience{2};  // for a connection, and for an answer
constexpr std::size_t kLongestAnswer = std::size_t{64} << 10;
constexpr int kServer = 2, kError = 2, kCumulative = 2;  // of the protocol
constexpr std::uint32_t kSampled = 1;

struct Endpoint {
  bool is_tls = false;
  Address address;
  std::string host;  // with the port
  std::string path;
};

Expected<Endpoint> parse_endpoint(std::string_view text) {
  const Unexpected wrong{"the endpoint is " + base::in_quotes(text) +
                         "; expected http://HOST:PORT, such as http://127.0.0.1:4318, or "
                         "https://HOST:PORT"};
  Endpoint out;
  out.is_tls = text.starts_with(kHttps);
  if (!out.is_tls && !text.starts_with(kHttp)) return wrong;
  text.remove_prefix(out.is_tls ? kHttps.size() : kHttp.size());
  const std::size_t end = std::min(text.find('/'), text.size());
  out.host = text.substr(0, end);
  out.path = text.substr(end);
  while (out.path.ends_with('/')) out.path.pop_back();
  const bool has_port = out.host.find(':', out.host.find(']') + 1) != out.host.npos;
  auto address = parse_address(out.is_tls && !has_port ? out.host + ":443" : out.host);
  const bool is_path = out.path.find_first_of(" ?#") == out.path.npos;
  if (!address || address->kind != Address::Kind::kTcp || address->port == 0 || !is_path) {
    return wrong;
  }
  out.address = std::move(*address);
  return out;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

// An error does not repeat the text, which is secret.
Expected<Fields> parse_headers(std::string_view text) {
  Fields out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::string_view one = base::trimmed(base::take_until(text, ','));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    std::string name(base::trimmed(one.substr(0, equals)));
    std::string value = base::decoded(base::trimmed(one.substr(std::min(equals + 1, one.size()))));
    const bool is_name =
        std::ranges::all_of(name, [](char c) { return base::is_letter_or("!#$%&'*+-.^_`|~", c); });
    const bool is_value = std::ranges::none_of(
        value, [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
    if (equals == one.size() || name.empty() || !is_name || !is_value) {
      return Unexpected{"OTEL_EXPORTER_OTLP_HEADERS: field " + std::to_string(number) +
                        " is wrong; expected NAME=VALUE,NAME=VALUE, with %XX in values"};
    }
    out.emplace_back(std::move(name), std::move(value));
  }
  return out;
}

// Returns random bits, which need not be secret.
std::uint64_t random_bits() {
  thread_local std::mt19937_64 engine{(std::uint64_t{std::random_device{}()} << 32) |
                                      std::random_device{}()};
  return engine();
}

// Whether something happens that does so with this probability.
bool happens(double probability) {
  return static_cast<double>(random_bits() >> 11) * 0x1p-53 < probability;
}

template <std::size_t N>
std::array<char, N> from_hex(std::string_view digits) {
  std::array<char, N> out{};
  for (std::size_t i = 0; i < N; ++i) {
    out[i] = static_cast<char>(base::hex_byte(digits[2 * i], digits[2 * i + 1]));
  }
  return out;
}

template <std::size_t N>
std::array<char, N> random_id() {
  std::array<std::uint64_t, N / sizeof(std::uint64_t)> words{};
  for (std::uint64_t& word : words) word = random_bits();
  return std::bit_cast<std::array<char, N>>(words);
}

std::uint64_t nanoseconds(Instant at) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(at.time_since_epoch()).count());
}

template <typename To>
void add(To& to, std::string_view name, std::string_view text) {
  otlp::KeyValue& one = *to.add_attributes();
  one.set_key(std::string(name));
  one.mutable_value()->set_string_value(base::as_utf8(text));
}

template <typename To>
void add(To& to, std::string_view name, std::int64_t number) {
  otlp::KeyValue& one = *to.add_attributes();
  one.set_key(std::string(name));
  one.mutable_value()->set_int_value(number);
}

void describe_scope(otlp::Scope& scope) {
  scope.set_name("sluice");
  scope.set_version(SLUICE_VERSION);
}

void describe(otlp::Resource& resource, const OtlpOptions& options, const std::string& instance) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  add(resource, "service.name", options.service_name.empty() ? "sluice" : options.service_name);
  add(resource, "service.version", std::string_view(SLUICE_VERSION));
  add(resource, "service.instance.id", instance);
  add(resource, "host.name", std::string_view(host.data()));
  add(resource, "process.pid", std::int64_t{::getpid()});
}

void write(otlp::Span& to, const DecisionSpan& span) {
  to.set_trace_id(span.trace_id.data(), span.trace_id.size());
  to.set_span_id(span.id.data(), span.id.size());
  if (span.parent) to.set_parent_span_id(span.parent->data(), span.parent->size());
  to.set_name("decide");
  to.set_kind(kServer);
  to.set_start_time_unix_nano(nanoseconds(span.began));
  to.set_end_time_unix_nano(nanoseconds(span.began + span.took));
  if (!span.rule.empty()) add(to, "sluice.rule", span.rule);
  if (!span.limit.empty()) add(to, "sluice.limit", span.limit);
  if (!span.key.empty()) add(to, "sluice.key", span.key);
  add(to, "sluice.outcome", to_string(span.outcome));
  add(to, "sluice.reason", to_string(span.reason));
  if (span.retry_after) {
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*span.retry_after);
    add(to, "sluice.retry_after_ms", std::int64_t{wait.count()});
  }
  if (span.outcome == Outcome::kFailed) {
    to.mutable_status()->set_code(kError);
    to.mutable_status()->set_message(std::string(to_string(span.reason)));
  }
  to.set_flags(kSampled);  // this span is recorded, whatever the caller does
}

// Writes the metrics of a registry.
class MetricsMessage final : public metrics::Writer {
 public:
  MetricsMessage(otlp::ScopeMetrics& to, Instant since, Instant now)
      : to_(to), since_(nanoseconds(since)), now_(nanoseconds(now)) {}

  void begin(std::string_view type, std::string_view name, std::string_view help) override {
    metric_ = to_.add_metrics();
    metric_->set_name(std::string(name));
    metric_->set_description(std::string(help));
    if (type == "gauge") {
      metric_->mutable_gauge();
    } else if (type == "counter") {
      metric_->mutable_sum()->set_is_monotonic(true);
      metric_->mutable_sum()->set_aggregation_temporality(kCumulative);
    } else {
      metric_->mutable_histogram()->set_aggregation_temporality(kCumulative);
    }
  }
  void add(std::span<const metrics::Label> labels, double value) override {
    otlp::NumberPoint& point = metric_->has_gauge() ? *metric_->mutable_gauge()->add_data_points()
                                                    : *metric_->mutable_sum()->add_data_points();
    describe(point, labels);
    if (metric_->has_gauge()) point.clear_start_time_unix_nano();
    point.set_as_double(value);
  }
  void add(std::span<const metrics::Label> labels, const metrics::DurationCounts& counts) override {
    otlp::HistogramPoint& point = *metric_->mutable_histogram()->add_data_points();
    describe(point, labels);
    std::uint64_t count = 0;
    for (const std::uint64_t one : counts.buckets) {
      point.add_bucket_counts(one);
      count += one;
    }
    for (std::size_t i = 0; i < metrics::DurationCounts::kBounds; ++i) {
      point.add_explicit_bounds(static_cast<double>(std::uint64_t{1} << i) / 1e6);
    }
    point.set_count(count);
    point.set_sum(static_cast<double>(counts.sum_ns) / 1e9);
  }

 private:
  template <typename Point>
  void describe(Point& point, std::span<const metrics::Label> labels) {
    point.set_start_time_unix_nano(since_);
    point.set_time_unix_nano(now_);
    for (const metrics::Label& label : labels) server::add(point, label.name, label.value);
  }

  otlp::ScopeMetrics& to_;
  const std::uint64_t since_;
  const std::uint64_t now_;
  otlp::Metric* metric_ = nullptr;
};

bool is_for_later(unsigned status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

std::string find_endpoint_error(std::string_view endpoint) {
  const auto parsed = parse_endpoint(endpoint);
  return parsed ? std::string() : parsed.error();
}

// Each message has a connection of its own: there are a few in a second.
Expected<OtlpExporter::Post> OtlpExporter::make_post(const OtlpOptions& options) {
  auto endpoint = parse_endpoint(options.endpoint);
  if (!endpoint) return Unexpected{endpoint.error()};
  auto headers = parse_headers(options.headers);
  if (!headers) return Unexpected{headers.error()};
  net::HttpClient::Options client{kPatience, kPatience, kLongestAnswer};
  if (endpoint->is_tls) {
    auto tls = base::make_tls({.ca_file = options.ca_file});
    if (!tls) return Unexpected{tls.error()};
    client.tls = *std::move(tls);
    client.server_name = endpoint->address.host;
  }
  return Post([to = *std::move(endpoint), headers = *std::move(headers), client](
                  std::string_view path, std::string message) -> Expected<net::HttpClient::Answer> {
    std::vector<HttpField> fields;
    for (const auto& [name, value] : headers) fields.push_back({name, value});
    fields.insert(fields.end(), {{"Host", to.host},
                                 {"User-Agent", "sluice/" SLUICE_VERSION},
                                 {"Content-Type", "application/x-protobuf"},
                                 {"Connection", "close"}});
    net::HttpClient connection(client);
    net::HttpClient::Answer answer;
    auto failed = connection.open(to.address);
    if (!failed) {
      failed =
          connection.ask("POST", to.path + std::string(path), fields, std::move(message), answer);
    }
    if (failed) return Unexpected{std::move(failed->why)};
    return answer;
  });
}

OtlpExporter::OtlpExporter(const OtlpOptions& options, const Parts& parts)
    : options_(options),
      parts_(parts),
      instance_(PermitId::random_text()),
      started_(parts.date.now()),
      report_at_(parts.steady.now()),
      metrics_at_(parts.steady.now() + options.metrics_interval) {}

void OtlpExporter::record(Instant began, std::string_view rule, std::string_view limit,
                          std::string_view key, const Decision& decision,
                          const TraceSource& trace) noexcept try {
  const Duration took = std::max(now() - began, Duration{0});
  const auto given = trace ? trace() : std::nullopt;
  const auto parent = TraceParent::parse(given.value_or(""));
  const bool is_wanted = !decision.allowed() || took >= options_.slow ||
                         (parent ? parent->is_sampled : happens(options_.sample));
  if (!is_wanted) return;
  if (size_.load(std::memory_order_relaxed) >= kMostWaiting) {
    ++dropped_;
    return;
  }
  DecisionSpan span{.trace_id = parent ? from_hex<16>(parent->trace_id) : random_id<16>(),
                    .id = random_id<8>(),
                    .began = parts_.date.now() - took,
                    .took = took,
                    .rule = std::string(rule),
                    .limit = std::string(limit),
                    .key = parts_.shown_key(key),
                    .outcome = decision.outcome,
                    .reason = decision.reason,
                    .retry_after = decision.retry_after};
  if (parent) span.parent = from_hex<8>(parent->span_id);
  push(std::move(span));
} catch (const std::exception&) {  // without memory
  ++dropped_;
}

void OtlpExporter::push(DecisionSpan span) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(span));
  size_.store(waiting_.size(), std::memory_order_relaxed);
}

void OtlpExporter::take_batch() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && batch_.size() < kBatch) {
    batch_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  size_.store(waiting_.size(), std::memory_order_relaxed);
}

void OtlpExporter::send() {
  for (Sent sent = Sent::kAccepted; sent != Sent::kLater;) {
    if (batch_.empty()) take_batch();
    if (batch_.empty()) break;
    otlp::ExportTraces message;
    otlp::ResourceSpans& all = *message.add_resource_spans();
    describe(*all.mutable_resource(), options_, instance_);
    otlp::ScopeSpans& ours = *all.add_scope_spans();
    describe_scope(*ours.mutable_scope());
    for (const DecisionSpan& span : batch_) write(*ours.add_spans(), span);
    sent = post("/v1/traces", message);
    if (sent == Sent::kLater) break;
    const auto lost = sent == Sent::kRefused
                          ? batch_.size()
                          : std::min(batch_.size(), static_cast<std::size_t>(rejected_));
    dropped_ += lost;
    accepted_ += batch_.size() - lost;
    batch_.clear();
  }
  if (options_.metrics_interval.count() > 0 && now() >= metrics_at_) send_metrics();
  report_dropped();
}

void OtlpExporter::send_metrics() {
  metrics_at_ = now() + options_.metrics_interval;
  otlp::ExportMetrics message;
  otlp::ResourceMetrics& all = *message.add_resource_metrics();
  describe(*all.mutable_resource(), options_, instance_);
  otlp::ScopeMetrics& ours = *all.add_scope_metrics();
  describe_scope(*ours.mutable_scope());
  MetricsMessage writer(ours, started_, parts_.date.now());
  parts_.metrics.write(writer);
  static_cast<void>(post("/v1/metrics", message));
}

OtlpExporter::Sent OtlpExporter::post(std::string_view path,
                                      const google::protobuf::MessageLite& message) {
  rejected_ = 0;
  const auto answer = parts_.post(path, message.SerializeAsString());
  const bool is_accepted = answer && answer->status >= 200 && answer->status < 300;
  if (!is_accepted) {
    ++errors_;
    report(answer ? "it answered " + std::to_string(answer->status) : answer.error());
    return answer && !is_for_later(answer->status) ? Sent::kRefused : Sent::kLater;
  }
  report({});
  otlp::ExportAnswer details;
  if (details.ParseFromString(answer->body)) {
    rejected_ = std::max<std::int64_t>(details.partial_success().rejected(), 0);
  }
  return Sent::kAccepted;
}

void OtlpExporter::report(const std::string& failure) {
  if (!failure.empty() && !has_failed_) {
    parts_.log.error("spans and metrics cannot be sent; decisions do not wait for them",
                     {{"receiver", options_.endpoint}, {"why", failure}});
  } else if (failure.empty() && has_failed_) {
    parts_.log.info("spans and metrics are sent again", {{"receiver", options_.endpoint}});
  }
  has_failed_ = !failure.empty();
}

void OtlpExporter::report_dropped() {
  const std::uint64_t dropped = dropped_;
  if (dropped == reported_ || now() < report_at_) return;
  parts_.log.warning("spans were dropped, because too many waited or the receiver refused them",
                     {{"dropped", dropped - reported_}});
  reported_ = dropped;
  report_at_ = now() + kBetweenReports;
}

OtlpExporter::Stats OtlpExporter::stats() const noexcept {
  return {.spans = accepted_, .dropped = dropped_, .errors = errors_};
}

void OtlpExporter::start() {
  const auto send_last = [this] {
    if (has_failed_) return;
    metrics_at_ = now();
    send();
  };
  thread_ = repeat(kBetweenSends, [this] { send(); }, send_last);
}

}  // namespace sluice::server
