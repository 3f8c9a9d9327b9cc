// Quotas: a take of a bucket of the client, compared with a bare token bucket; how many reports the
// service takes, the memory of a bucket, and the time of a division among many subscribers.

#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "metrics/metrics.h"
#include "server/api/quota/quota_server.h"
#include "server/logging/log.h"
#include "server/net/address.h"
#include "server/protocol/grpc/connection.h"
#include "sluice/memory_store.h"
#include "sluice/quota_client.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* kTakeLegend =
    "QuotaBucket::try_take(), with an assignment of a service in this process, against a bare "
    "token\n"
    "bucket: the steady clock, and one compare-and-swap of the instant at which it is full, with\n"
    "constant numbers. `denied`: a bucket of one token a second. Processor time of one thread.";

constexpr const char* kServiceLegend =
    "== quota: the service, without its network and messages\n"
    "Reports are those of 100 proxies with the same 10,000 buckets, 100 in a message, after each\n"
    "of which the limits with news are divided. `division of all`: the mean of ten, with 1 s\n"
    "between them. `longest of its steps`: the loop does nothing else in that time. `division\n"
    "among 1,000`: one report of one limit that 1,000 proxies share, and its division. Processor\n"
    "time of one thread, medians. Bytes: what the heap grows by for each bucket of a proxy.";

constexpr const char* kRules = R"(
version: 1
domain: shop
rules:
  - name: api
    match: { path: /api }
    limits: [ { key: "{user}", algorithm: token_bucket, limit: 100000, per: 1s } ]
  - name: many
    match: { path: /many }
    limits: [ { algorithm: token_bucket, limit: 100000000, per: 1s, share: { at_least: 100% } } ]
  - name: few
    match: { path: /few }
    limits: [ { algorithm: token_bucket, limit: 1, per: 1s } ]
)";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "quota_bench: %s\n", what.c_str());
  std::exit(1);
}

std::unique_ptr<server::RulesManager> open_rules() {
  auto rules = server::RulesManager::open_source({{"rules", std::string(kRules)}});
  if (!rules) fail("the rules are wrong");
  return std::move(*rules);
}

// For a server that has no methods but streams.
class NoCalls final : public server::grpc::Handler {
 public:
  void handle(const server::grpc::Call&, server::grpc::Reply&) override {}
  void finished(const server::grpc::Call&, const server::grpc::Reply&,
                std::chrono::nanoseconds) override {}
};

// A quota service on a free port, in a thread of its own.
class Upstream {
 public:
  Upstream() {
    auto listening = server::net::listen_at(server::parse_address("127.0.0.1:0").value(), 1);
    if (!listening) fail(listening.error());
    address_ = listening->name;
    running_ = service_->start(loop_, store_, server::StoreKind::kMemory, nullptr);
    front_end_ = std::make_unique<server::grpc::FrontEnd>(
        server::grpc::Options{
            .bounds = bounds_,
            .paths = {},
            .stream_paths = {server::kQuotaPath},
            .open_stream = [this](const auto& call,
                                  auto& out) { return service_->open_stream(call, out, loop_); },
            .serving = serving_,
            .make = [] { return std::make_unique<NoCalls>(); }},
        server::net::Acceptor::Parts{.loop = loop_,
                                     .recorder = registry_.make_recorder(),
                                     .warn = warning_writer(log_),
                                     .connections = connections_,
                                     .most = bounds_.connections,
                                     .clock = server::net::LoopClock::system(),
                                     .tls = nullptr,
                                     .handshake_timeout = bounds_.header_timeout},
        std::move(listening->sockets[0]));
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Upstream() {
    loop_.stop();
    thread_.join();
  }
  const std::string& address() const noexcept { return address_; }

 private:
  MemoryStore store_;
  server::Log log_{{.level = server::LogLevel::kOff}};
  server::QuotaConfig config_;
  std::unique_ptr<server::RulesManager> rules_ = open_rules();
  std::shared_ptr<server::QuotaServer> service_ =
      std::make_shared<server::QuotaServer>(config_, *rules_, log_);
  server::Bounds bounds_;
  metrics::Registry registry_;
  std::atomic<std::size_t> connections_{0};
  const server::net::Readiness serving_ = true;
  boost::asio::io_context loop_{1};
  std::unique_ptr<server::net::LoopFrontEnd> running_, front_end_;
  std::string address_;
  std::thread thread_;
};

// A token bucket without anything else. The times are nanoseconds.
class BareBucket {
 public:
  explicit BareBucket(std::int64_t interval) : interval_(interval) {}

  bool try_take() noexcept {
    const std::int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::int64_t full_at = full_at_.load(std::memory_order_relaxed);
    for (;;) {
      const std::int64_t then = std::max(full_at, now) + interval_;
      if (then - now > kTolerance) return false;
      if (full_at_.compare_exchange_weak(full_at, then, std::memory_order_relaxed)) return true;
    }
  }

 private:
  static constexpr std::int64_t kTolerance = 1'000'000'000;
  const std::int64_t interval_;
  std::atomic<std::int64_t> full_at_{0};
};

// `admits`: what the assignment says to nearly all requests.
Ratio take(const Options& options, QuotaBucket& bucket, std::int64_t interval, bool admits) {
  for (int i = 0;; ++i) {
    const bool is_assigned = bucket.is_assigned();
    if (bucket.try_take() == admits && is_assigned) break;
    if (i == 1000) fail("a bucket has no assignment after 10 s");
    std::this_thread::sleep_for(10ms);
  }
  BareBucket bare(interval);
  const auto calls = [](auto& of) {
    return [&of](std::size_t, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) benchmark::DoNotOptimize(of.try_take());
    };
  };
  const std::uint64_t allowed = bucket.allowed(), denied = bucket.denied();
  const Ratio ratio = Paired(options.paired()).measure(calls(bare), calls(bucket));
  const bool are_allowed = bucket.allowed() - allowed > bucket.denied() - denied;
  if (!bucket.is_assigned() || are_allowed != admits)
    fail("the assignment of a bucket has changed");
  return ratio;
}

void takes(const Options& options) {
  const Upstream upstream;
  QuotaClient client({.address = upstream.address(), .domain = "shop"});
  table("quota: a take of a local bucket", kTakeLegend);
  const Ratio ratio = take(options, client.bucket({{"path", "/many"}}), 10, true);
  row("admitted", ratio);
  row("denied", take(options, client.bucket({{"path", "/few"}}), 1'000'000'000, false));
  promise_at_most("quota-take-ns-over-a-bare-bucket", ratio.more_ns, 20);
}

// A service with proxies that report buckets.
class Reports {
 public:
  void connect(std::uint64_t proxies) {
    for (std::uint64_t id = 0; id < proxies; ++id) {
      service_.open(id, "shop", "10.0.0.1", [](const auto&) {});
    }
  }
  void report(std::uint64_t proxy, std::uint64_t bucket, std::uint64_t requests) {
    const std::string user = "user-" + std::to_string(bucket);
    service_.report(proxy, {{.bucket = user,
                             .attributes = {{"path", "/api"}, {"user", user}},
                             .elapsed = 5s,
                             .allowed = requests}});
  }
  // Returns the time of the longest step, in ns.
  double divide(bool all) {
    double longest = 0;
    for (bool begins = all, goes_on = true; goes_on; begins = false) {
      const double start = now_ns(TimeOf::kThread);
      service_.divide(begins);
      longest = std::max(longest, now_ns(TimeOf::kThread) - start);
      goes_on = service_.has_news();
    }
    return longest;
  }
  void close(std::uint64_t proxy) { service_.close(proxy); }
  void advance(std::chrono::milliseconds time) { clock_.advance(time); }

 private:
  testing::ManualClock clock_{Instant{std::chrono::hours{365 * 24}}};
  MemoryStore memory_{{}, clock_};
  Limiter limiter_{memory_};
  server::Log log_{{.level = server::LogLevel::kOff}};
  server::QuotaConfig config_;
  std::unique_ptr<server::RulesManager> rules_ = open_rules();
  server::QuotaService service_{
      {.rules = *rules_, .limiter = limiter_, .log = log_, .config = config_, .steady = clock_}};
};

// Returns the median time of a call, in ns.
template <typename Call>
double median_of(std::size_t calls, Call call) {
  std::vector<double> took;
  for (std::size_t i = 0; i < calls; ++i) {
    const double start = now_ns(TimeOf::kThread);
    call(i);
    took.push_back(now_ns(TimeOf::kThread) - start);
  }
  return median(took);
}

double heap() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

void reports(const Options& options) {
  constexpr std::uint64_t kProxies = 100, kMessage = 100;
  const std::uint64_t buckets = options.smoke ? 100 : 10'000;
  const double before = heap();
  Reports all;
  all.connect(kProxies);
  for (std::uint64_t bucket = 0; bucket < buckets; ++bucket) {
    for (std::uint64_t proxy = 0; proxy < kProxies; ++proxy) all.report(proxy, bucket, 50);
  }
  all.divide(true);
  const double bytes = (heap() - before) / static_cast<double>(buckets * kProxies);
  constexpr int kRounds = 10;  // in which all assignments are renewed twice
  const double start = now_ns(TimeOf::kThread);
  std::vector<double> longest;
  for (int i = 0; i < kRounds; ++i) {
    all.advance(1s);
    longest.push_back(all.divide(true));
  }
  const double ms_of_all = (now_ns(TimeOf::kThread) - start) / 1e6 / kRounds;
  std::uint64_t at = 0;
  const double ns = median_of(options.smoke ? 3 : 2001, [&](std::size_t) {
    for (std::uint64_t i = 0; i < kMessage; ++i, ++at) {
      all.report(at / buckets % kProxies, at % buckets, 40 + at % 20);
    }
    all.advance(1ms);
    all.divide(false);
  });
  const double ns_of_close =
      median_of(options.smoke ? 1 : 11, [&](std::size_t i) { all.close(i); });
  std::printf("  %-44s %10.0f a second\n", "reports", 1e9 * kMessage / ns);
  std::printf("  %-44s %10.0f\n", "bytes of a bucket", bytes);
  std::printf("  %-44s %10.0f ms\n", "division of all", ms_of_all);
  std::printf("  %-44s %10.1f ms\n", "longest of its steps", median(longest) / 1e6);
  std::printf("  %-44s %10.1f ms\n", "a proxy leaves", ns_of_close / 1e6);
  promise_at_most("quota-bytes-per-bucket", bytes, 400);
  promise_at_most("quota-longest-step-ms", median(longest) / 1e6, 10);
}

void division(const Options& options) {
  Reports all;
  all.connect(1000);
  for (std::uint64_t proxy = 0; proxy < 1000; ++proxy) all.report(proxy, 0, 1000 + proxy);
  all.divide(true);
  const double ns = median_of(options.smoke ? 3 : 1001, [&](std::size_t i) {
    all.advance(5ms);
    all.report(i % 1000, 0, 500 + i % 700);
    all.divide(false);
  });
  std::printf("  %-44s %10.0f us\n", "division among 1,000", ns / 1e3);
  promise_at_most("quota-division-among-1000-ms", ns / 1e6, 1);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  takes(options);
  std::printf("\n%s\n", kServiceLegend);
  reports(options);
  division(options);
}
