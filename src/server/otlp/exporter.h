#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "metrics/metrics.h"
#include "server/logging/log.h"
#include "server/net/http_client.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/expected.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace sluice::server {

// What is sent to a receiver of OpenTelemetry (docs/reference/metrics.md).
struct OtlpOptions {
  // http://HOST:PORT or https://HOST, and a path before /v1/traces; empty: nothing is sent
  std::string endpoint = {};
  std::string ca_file = {};  // the authorities of https://; empty: the system's
  std::string headers = {};  // header fields, "NAME=VALUE,NAME=VALUE" with %XX in values; secret
  std::string service_name = {};       // empty: sluice
  double sample = 0.01;                // the share of the requests without a valid `traceparent`
  std::chrono::milliseconds slow{10};  // a decision that takes this long has a span
  std::chrono::milliseconds metrics_interval{60'000};  // 0: metrics are not sent
};

// Returns what is wrong with an endpoint, "WHAT; EXPECTED", or an empty text.
std::string find_endpoint_error(std::string_view endpoint);

// A decision to send. A plain value.
struct DecisionSpan {
  using SpanId = std::array<char, 8>;
  std::array<char, 16> trace_id{};
  SpanId id{};
  std::optional<SpanId> parent = {};
  Instant began;
  Duration took{0};
  std::string rule, limit, key;  // empty: there is none
  Outcome outcome = Outcome::kAllowed;
  Reason reason = Reason::kOk;
  std::optional<Duration> retry_after = {};
};

// Sends spans of decisions, and metrics, to an OTLP receiver by HTTP. A decision has a span if it
// is not allowed, if it is slow, or if it is sampled: by the flag of the request's `traceparent`,
// or, without one, by chance.
//
// At most kMostWaiting spans wait; further ones are dropped and counted. A thread of its own sends
// them each second. While the receiver does not answer, or answers 429, 502, 503 or 504, they wait;
// those that it refuses otherwise are dropped.
//
// Thread-safety: any member from any thread. Ownership: borrows all that it is given, until stop().
// Cost of record(): two readings of a clock and the search for the trace; with a span, about 1 µs
// and a lock that is held briefly. It never waits for the receiver.
class OtlpExporter {
 public:
  static constexpr std::size_t kMostWaiting = 2048;
  static constexpr std::size_t kBatch = 512;  // the most spans of one message

  // Sends a message to a path of the receiver, such as "/v1/traces". Errors: why there is no
  // answer.
  using Post =
      std::function<Expected<net::HttpClient::Answer>(std::string_view path, std::string message)>;
  struct Parts {
    const metrics::Registry& metrics;
    Log& log;
    std::function<std::string(std::string_view key)> shown_key;  // as the log shows it
    Post post;
    const Clock& steady = SteadyClock::instance();
    const Clock& date = SystemClock::instance();
  };
  // Returns a Post by HTTP. Errors: what is wrong with the endpoint, `headers` or `ca_file`.
  static Expected<Post> make_post(const OtlpOptions& options);
  OtlpExporter(const OtlpOptions& options, const Parts& parts);
  ~OtlpExporter() = default;
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // The time at which a decision begins, for record().
  Instant now() const noexcept { return parts_.steady.now(); }
  // Records a decision that has ended now. `rule`, `limit` and `key` are empty if there is none.
  void record(Instant began, std::string_view rule, std::string_view limit, std::string_view key,
              const Decision& decision, const TraceSource& trace) noexcept;
  // Starts the thread.
  void start();
  // Sends what waits once more, unless the latest message has failed, and ends the thread. A
  // receiver that does not answer delays it by a few seconds.
  void stop() { thread_ = {}; }
  // Sends what waits now; the thread calls it.
  void send();

  struct Stats {
    std::uint64_t spans = 0;    // that the receiver has accepted
    std::uint64_t dropped = 0;  // spans
    std::uint64_t errors = 0;   // messages without an answer, or that were refused
  };
  Stats stats() const noexcept;

 private:
  enum class Sent : std::uint8_t { kAccepted, kRefused, kLater };

  void push(DecisionSpan span);
  void take_batch();
  void send_metrics();
  Sent post(std::string_view path, const google::protobuf::MessageLite& message);
  void report(const std::string& failure);
  void report_dropped();

  const OtlpOptions options_;
  const Parts parts_;
  const std::string instance_;
  const Instant started_;             // the date
  std::atomic<std::size_t> size_{0};  // of waiting_
  std::atomic<std::uint64_t> accepted_{0}, dropped_{0}, errors_{0};
  std::mutex mutex_;  // protects the next
  std::deque<DecisionSpan> waiting_;
  // Of the caller of send().
  std::vector<DecisionSpan> batch_;
  std::int64_t rejected_ = 0;   // of the latest message
  bool has_failed_ = false;     // the latest message
  std::uint64_t reported_ = 0;  // of dropped_
  Instant report_at_;           // not before
  Instant metrics_at_;
  std::jthread thread_;
};

}  // namespace sluice::server
