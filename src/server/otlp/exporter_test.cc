#include "server/otlp/exporter.h"

#include <gtest/gtest.h>
#include <sluice/otlp.pb.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/logging/test_pipe.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server::exporter_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kSampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr const char* kNotSampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

Decision denied() {
  Decision out = Decision::refused(Reason::kLimited);
  out.retry_after = milliseconds{1500};
  return out;
}

std::map<std::string, std::string> texts_of(const otlp::Span& span) {
  std::map<std::string, std::string> out;
  for (const auto& one : span.attributes()) {
    out[one.key()] = one.value().has_string_value() ? one.value().string_value()
                                                    : std::to_string(one.value().int_value());
  }
  return out;
}

class Exporter : public ::testing::Test {
 protected:
  static OtlpOptions options(double sample) {
    return {.endpoint = "http://127.0.0.1:4318", .service_name = "", .sample = sample};
  }
  std::unique_ptr<OtlpExporter> make(const OtlpOptions& options) {
    return std::make_unique<OtlpExporter>(
        options, OtlpExporter::Parts{
                     .metrics = registry_,
                     .log = log_,
                     .shown_key = [](auto key) { return "<" + std::string(key) + ">"; },
                     .post = [this](std::string_view path,
                                    const std::string& message) { return post(path, message); },
                     .steady = steady_,
                     .date = date_});
  }
  Expected<net::HttpClient::Answer> post(std::string_view path, const std::string& message) {
    if (status_ == 0) return Unexpected{std::string("Connection refused")};
    const bool is_read = path == "/v1/traces" ? traces_.emplace_back().ParseFromString(message)
                                              : metrics_.emplace_back().ParseFromString(message);
    EXPECT_TRUE(is_read) << path;
    return net::HttpClient::Answer{status_, body_};
  }
  // Records a decision that takes `took`.
  void record(OtlpExporter& to, const Decision& decision, const char* trace = nullptr,
              Duration took = Duration{0}) {
    const Instant began = to.now();
    steady_.advance(took);
    to.record(began, "order", "user", "u1", decision, [trace]() -> std::optional<std::string_view> {
      return trace != nullptr ? std::optional<std::string_view>(trace) : std::nullopt;
    });
  }
  // The spans that have arrived.
  std::vector<otlp::Span> spans() const {
    std::vector<otlp::Span> out;
    for (const auto& message : traces_) {
      const auto& ours = message.resource_spans(0).scope_spans(0).spans();
      out.insert(out.end(), ours.begin(), ours.end());
    }
    return out;
  }
  std::vector<std::string> log_lines() {
    log_holder_.reset();
    return pipe_.lines();
  }

  TestingPipe pipe_;
  std::unique_ptr<Log> log_holder_ = std::make_unique<Log>(LogOptions{}, pipe_.writing());
  Log& log_ = *log_holder_;
  metrics::Registry registry_;
  testing::ManualClock steady_;
  testing::ManualClock date_{Instant{seconds{1'800'000'000}}};
  unsigned status_ = 200;  // of the receiver; 0: it does not answer
  std::string body_;
  std::vector<otlp::ExportTraces> traces_;
  std::vector<otlp::ExportMetrics> metrics_;
};

TEST_F(Exporter, ADenialIsASpanOfTheTraceOfTheRequest) {
  const auto exporter = make(options(0));
  record(*exporter, denied(), kNotSampled, milliseconds{3});
  exporter->send();
  ASSERT_EQ(spans().size(), 1U);
  const otlp::Span span = spans()[0];
  EXPECT_EQ(span.trace_id(),
            std::string("\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36"));
  EXPECT_EQ(span.parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  EXPECT_EQ(span.span_id().size(), 8U);
  EXPECT_EQ(span.end_time_unix_nano(), 1'800'000'000'000'000'000U);
  EXPECT_EQ(span.end_time_unix_nano() - span.start_time_unix_nano(), 3'000'000U);
  const std::map<std::string, std::string> expected{
      {"sluice.rule", "order"},     {"sluice.limit", "user"},
      {"sluice.key", "<u1>"},       {"sluice.outcome", "denied"},
      {"sluice.reason", "limited"}, {"sluice.retry_after_ms", "1500"}};
  EXPECT_EQ(texts_of(span), expected);
  EXPECT_FALSE(span.has_status()) << "a denial is no error";
}

TEST_F(Exporter, AFailedDecisionIsAnError) {
  const auto exporter = make(options(0));
  record(*exporter, Decision::refused(Reason::kStoreTimeout));
  exporter->send();
  ASSERT_EQ(spans().size(), 1U);
  EXPECT_EQ(spans()[0].status().code(), 2);
  EXPECT_EQ(spans()[0].status().message(), "store_timeout");
}

TEST_F(Exporter, TheFlagOfTheCallerDecidesWhateverTheShareIs) {
  const auto none = make(options(0)), all = make(options(1));
  record(*none, Decision{}, kSampled);
  record(*all, Decision{}, kNotSampled);
  none->send();
  EXPECT_EQ(spans().size(), 1U);
  all->send();
  EXPECT_EQ(spans().size(), 1U);
}

TEST_F(Exporter, WithoutATraceTheShareDecides) {
  const auto none = make(options(0)), half = make(options(0.5)), all = make(options(1));
  for (int i = 0; i < 1000; ++i) {
    for (const auto* one : {&none, &half, &all})
      record(**one, Decision{}, i % 2 == 0 ? "wrong" : nullptr);
  }
  none->send();
  EXPECT_EQ(none->stats().spans, 0U);
  all->send();
  EXPECT_EQ(all->stats().spans, 1000U);
  half->send();
  EXPECT_GT(half->stats().spans, 300U);
  EXPECT_LT(half->stats().spans, 700U);
  EXPECT_TRUE(spans()[0].parent_span_id().empty());
  EXPECT_EQ(spans()[0].trace_id().size(), 16U);
  EXPECT_NE(spans()[0].trace_id(), spans()[1].trace_id());
}

TEST_F(Exporter, ADecisionIsSlowFromThatDurationOn) {
  const auto exporter = make(options(0));
  record(*exporter, Decision{}, nullptr, milliseconds{10} - Duration{1});
  exporter->send();
  EXPECT_EQ(exporter->stats().spans, 0U);
  record(*exporter, Decision{}, kNotSampled, milliseconds{10});
  exporter->send();
  EXPECT_EQ(exporter->stats().spans, 1U);
}

TEST_F(Exporter, DropsAndCountsWhatIsBeyondTheBound) {
  const auto exporter = make(options(0));
  for (std::size_t i = 0; i < OtlpExporter::kMostWaiting + 3; ++i) record(*exporter, denied());
  EXPECT_EQ(exporter->stats().dropped, 3U);
  exporter->send();
  EXPECT_EQ(exporter->stats().spans, OtlpExporter::kMostWaiting);
  EXPECT_EQ(traces_.size(), OtlpExporter::kMostWaiting / OtlpExporter::kBatch);
  record(*exporter, denied());
  exporter->send();
  EXPECT_EQ(exporter->stats().spans, OtlpExporter::kMostWaiting + 1);
  EXPECT_NE(log_lines()[0].find(" warning "), std::string::npos);
}

TEST_F(Exporter, SpansWaitUntilTheReceiverAnswers) {
  const auto exporter = make(options(0));
  record(*exporter, denied());
  for (const unsigned status : {0U, 503U, 429U}) {
    status_ = status;
    exporter->send();
    EXPECT_EQ(exporter->stats().spans, 0U) << status;
  }
  EXPECT_EQ(exporter->stats().errors, 3U);
  EXPECT_EQ(exporter->stats().dropped, 0U);
  traces_.clear();
  status_ = 200;
  exporter->send();
  exporter->send();
  EXPECT_EQ(spans().size(), 1U);
  const auto lines = log_lines();
  ASSERT_EQ(lines.size(), 2U) << "one for the failure, one for its end";
  EXPECT_NE(lines[0].find("why=\"Connection refused\""), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("sent again"), std::string::npos) << lines[1];
}

TEST_F(Exporter, DropsWhatTheReceiverRefuses) {
  const auto exporter = make(options(0));
  status_ = 400;
  record(*exporter, denied());
  exporter->send();
  EXPECT_EQ(exporter->stats().dropped, 1U);
  status_ = 200;
  otlp::ExportAnswer answer;
  answer.mutable_partial_success()->set_rejected(2);
  body_ = answer.SerializeAsString();
  for (int i = 0; i < 3; ++i) record(*exporter, denied());
  exporter->send();
  EXPECT_EQ(exporter->stats().dropped, 3U);
  EXPECT_EQ(exporter->stats().spans, 1U);
}

TEST_F(Exporter, TextsAreValidUtf8) {
  const auto exporter = make(options(0));
  exporter->record(exporter->now(), "r", "l", "a\xff", denied(), {});
  exporter->send();
  ASSERT_EQ(spans().size(), 1U);
  EXPECT_EQ(texts_of(spans()[0])["sluice.key"], "<a\xEF\xBF\xBD>");
}

TEST_F(Exporter, SendsAllMetricsAtEachInterval) {
  registry_.add("sluice_zero", "A gauge.", [] { return 0.; });
  registry_.add_rows("sluice_events_total", "Events.", {"event"},
                     [] { return std::vector<metrics::Registry::Row>{{{"lost"}, 7.}}; });
  const auto exporter = make(options(0));
  exporter->send();
  EXPECT_TRUE(metrics_.empty());
  steady_.advance(seconds{60});
  exporter->send();
  exporter->send();
  ASSERT_EQ(metrics_.size(), 1U);
  std::map<std::string, otlp::Metric> found;
  for (const auto& one : metrics_[0].resource_metrics(0).scope_metrics(0).metrics()) {
    found[one.name()] = one;
  }
  EXPECT_TRUE(found["sluice_zero"].gauge().data_points(0).has_as_double());
  const auto& events = found["sluice_events_total"].sum();
  EXPECT_TRUE(events.is_monotonic());
  EXPECT_EQ(events.aggregation_temporality(), 2);
  EXPECT_EQ(events.data_points(0).as_double(), 7.);
  EXPECT_EQ(events.data_points(0).attributes(0).value().string_value(), "lost");
  const auto& durations = found["sluice_request_duration_seconds"].histogram();
  EXPECT_EQ(durations.data_points_size(), static_cast<int>(metrics::kFrontEnds));
  EXPECT_EQ(durations.data_points(0).bucket_counts_size(),
            durations.data_points(0).explicit_bounds_size() + 1);
  std::map<std::string, std::string> resource;
  for (const auto& one : metrics_[0].resource_metrics(0).resource().attributes()) {
    resource[one.key()] = one.value().string_value();
  }
  EXPECT_EQ(resource["service.name"], "sluice");
  EXPECT_FALSE(resource["service.instance.id"].empty());
}

TEST_F(Exporter, CountsEachSpanOnceWhileThreadsRecord) {
  constexpr int kThreads = 4, kEach = 5000;
  const auto exporter = make(options(0));
  exporter->start();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        exporter->record(exporter->now(), "r", "l", "k", denied(), {});
      }
    });
  }
  for (std::thread& one : threads) one.join();
  exporter->stop();
  EXPECT_EQ(exporter->stats().spans, spans().size());
  EXPECT_EQ(exporter->stats().spans + exporter->stats().dropped,
            static_cast<std::uint64_t>(kThreads) * kEach);
}

TEST(OtlpEndpoint, IsAUrlWithAPort) {
  EXPECT_EQ(find_endpoint_error("http://127.0.0.1:4318"), "");
  EXPECT_EQ(find_endpoint_error("http://[::1]:4318/otlp/"), "");
  EXPECT_EQ(find_endpoint_error("http://collector.example:4318/"), "");
  EXPECT_EQ(find_endpoint_error("https://receiver.example:4318/otlp"), "");
  EXPECT_EQ(find_endpoint_error("https://receiver.example"), "") << "443";
  EXPECT_EQ(find_endpoint_error("https://[::1]"), "");
  for (const char* wrong :
       {"", "127.0.0.1:4318", "ftp://127.0.0.1:4318", "https://", "https://a:0", "http://127.0.0.1",
        "http://127.0.0.1:0", "http://unix:/x", "http://off", "http://a:1/?b"}) {
    EXPECT_NE(find_endpoint_error(wrong), "") << wrong;
  }
}

std::string post_error(const OtlpOptions& options) {
  const auto made = OtlpExporter::make_post(options);
  return made ? "" : made.error();
}

TEST(OtlpPost, ReportsWrongHeaderFieldsWithoutTheirText) {
  for (const char* right : {"", "a=b", " api-key = s%20ecret , x=a=b,", "empty="}) {
    EXPECT_EQ(post_error({.endpoint = "http://a:1", .headers = right}), "") << right;
  }
  for (const char* wrong : {"a=b,secret", "a=b,=secret", "a=b,my secret=x", "a=b,c=%0d%0asecret"}) {
    EXPECT_EQ(post_error({.endpoint = "http://a:1", .headers = wrong}),
              "OTEL_EXPORTER_OTLP_HEADERS: field 2 is wrong; expected NAME=VALUE,NAME=VALUE, with "
              "%XX in values");
  }
}

TEST(OtlpPost, ReportsAuthoritiesThatCannotBeRead) {
  EXPECT_EQ(post_error({.endpoint = "https://a:1", .ca_file = "/nowhere/ca.crt"}),
            "cannot use the authorities in '/nowhere/ca.crt': No such file or directory");
  EXPECT_EQ(post_error({.endpoint = "http://a:1", .ca_file = "/nowhere/ca.crt"}), "");
}

}  // namespace
}  // namespace sluice::server::exporter_test
