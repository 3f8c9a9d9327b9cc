// The streams of proxies: messages of protobuf to reports, orders to messages; and the loop in
// which the service divides limits.

#include "server/api/quota/quota_server.h"

#include <google/protobuf/arena.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "envoy/service/rate_limit_quota/v3/rlqs.pb.h"
#include "rules/attributes.h"
#include "sluice/wire_request.pb.h"

namespace sluice::server {
namespace {

namespace rlqs = ::envoy::service::rate_limit_quota::v3;
using ::envoy::type::v3::RateLimitStrategy;

// Ids beyond these are not tracked: they come from fields of requests, so that a client of the
// proxy may choose them.
constexpr std::size_t kLongestId = 4096;  // bytes
constexpr std::chrono::seconds kLongestElapsed{24 * 3600};
constexpr std::chrono::seconds kRefusalsLogged{60};  // one in this time

void set_duration(std::chrono::milliseconds from, google::protobuf::Duration& to) {
  constexpr std::int64_t kPerSecond = 1000;
  to.set_seconds(from.count() / kPerSecond);
  to.set_nanos(static_cast<std::int32_t>(from.count() % kPerSecond * 1'000'000));
}

// The id with its names in order, so that equal ids are equal bytes; and its attributes. Absent: it
// cannot be a bucket.
std::optional<BucketReport> read_id(const wire::BucketId& id) {
  BucketReport out;
  for (const wire::Entry& entry : id.bucket()) {
    if (base::as_utf8(entry.key()) != entry.key()) return std::nullopt;
    if (base::as_utf8(entry.value()) != entry.value()) return std::nullopt;
    out.attributes.emplace_back(entry.key(), entry.value());
  }
  std::stable_sort(out.attributes.begin(), out.attributes.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  wire::BucketId ordered;
  for (const auto& [key, value] : out.attributes) {
    wire::Entry& entry = *ordered.add_bucket();
    entry.set_key(key);
    entry.set_value(value);
  }
  out.bucket = ordered.SerializeAsString();
  if (out.bucket.size() > kLongestId) return std::nullopt;
  for (auto& [key, value] : out.attributes) key = rules::normalized(key);
  return out;
}

void set_strategy(const Assignment& from, RateLimitStrategy& to) {
  if (from.kind == Assignment::Kind::kAllowAll) {
    return to.set_blanket_rule(RateLimitStrategy::ALLOW_ALL);
  }
  if (from.kind == Assignment::Kind::kDenyAll) {
    return to.set_blanket_rule(RateLimitStrategy::DENY_ALL);
  }
  auto& bucket = *to.mutable_token_bucket();
  bucket.set_max_tokens(from.tokens);
  bucket.mutable_tokens_per_fill()->set_value(from.tokens);
  set_duration(from.interval, *bucket.mutable_fill_interval());
  // Envoy takes buckets for equal whose intervals differ in the seconds only.
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(from.interval).count();
  bucket.mutable_fill_interval()->set_nanos(static_cast<std::int32_t>(seconds % 1'000'000));
}

std::string written(const std::vector<BucketOrder>& orders) {
  rlqs::RateLimitQuotaResponse response;
  for (const BucketOrder& order : orders) {
    auto& action = *response.add_bucket_action();
    action.mutable_bucket_id()->ParseFromString(order.bucket);
    if (!order.assignment) {
      action.mutable_abandon_action();
      continue;
    }
    auto& assigned = *action.mutable_quota_assignment_action();
    set_duration(order.ttl, *assigned.mutable_assignment_time_to_live());
    set_strategy(*order.assignment, *assigned.mutable_rate_limit_strategy());
  }
  return response.SerializeAsString();
}

// One stream of a proxy, in the loop of its connection.
class QuotaStream final : public grpc::StreamIn {
 public:
  QuotaStream(std::shared_ptr<QuotaServer> server, std::uint64_t id, std::string peer,
              grpc::StreamOut& out, boost::asio::io_context& loop)
      : server_(std::move(server)), id_(id), peer_(std::move(peer)), out_(out), loop_(loop) {}
  ~QuotaStream() override {
    *self_ = nullptr;
    try {
      if (!domain_.empty()) server_->post([id = id_](QuotaService& service) { service.close(id); });
    } catch (const std::exception&) {  // without memory its buckets are abandoned when idle
    }
  }

  void on_message(std::string_view message) override {
    wire::UsageReports reports;
    if (!reports.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
      return refuse("the message is not a RateLimitQuotaUsageReports");
    }
    if (!takes_domain(reports.domain())) return;
    std::vector<BucketReport> all;
    for (const wire::BucketUsage& usage : reports.bucket_quota_usages()) {
      if (!read(usage, all)) return;
    }
    server_->post([id = id_, all = std::move(all)](QuotaService& service) mutable {
      service.report(id, std::move(all));
    });
  }
  void on_half_close() override { out_.end(grpc::Code::kOk, {}); }
  void on_tick() override { send_waiting(); }
  // Envoy opens the stream again elsewhere.
  void on_drain() override { out_.end(grpc::Code::kUnavailable, "the connection ends"); }

 private:
  void refuse(const std::string& why) {
    server_->refuse(out_, peer_, grpc::Code::kInvalidArgument, why);
  }

  // The first message names the domain of the stream.
  bool takes_domain(const std::string& domain) {
    if (!domain_.empty()) {
      if (domain.empty() || domain == domain_) return true;
      refuse("the domain is " + base::in_quotes(domain) + "; expected " + base::in_quotes(domain_) +
             ", the one of the first message, or none");
      return false;
    }
    const RuleSet rules = server_->rules().current();
    if (domain.empty() || !has_domain(rules, domain)) {
      refuse(domain.empty() ? "the first message has no domain; expected the domain of rules"
                            : "the domain " + base::in_quotes(domain) +
                                  " is unknown; expected the domain of rules");
      return false;
    }
    if (!server_->has_scripts()) {
      server_->refuse(out_, peer_, grpc::Code::kFailedPrecondition,
                      "quotas need scripts in Redis; expected `redis: { scripting: on }`");
      return false;
    }
    domain_ = domain;
    server_->post([id = id_, domain, peer = peer_, send = sender()](QuotaService& service) {
      service.open(id, domain, peer, send);
    });
    return true;
  }

  // Returns the way back to this stream, from the loop of the service.
  SendOrders sender() {
    return [self = self_, &loop = loop_](std::vector<BucketOrder> orders) {
      boost::asio::post(loop, [self, all = std::move(orders)]() mutable {
        if (*self != nullptr) (*self)->send(std::move(all));
      });
    };
  }
  void send(std::vector<BucketOrder> orders) {
    if (waiting_.empty()) since_ = SteadyClock::instance().now();
    for (BucketOrder& order : orders) waiting_[order.bucket] = std::move(order);
    send_waiting();
  }
  // Sends what waits, as far as the client reads. A client that does not is left.
  void send_waiting() {
    constexpr std::size_t kMostOrders = 256;  // of a message, so that it is not too large
    constexpr std::size_t kMostUnread = std::size_t{128} << 10;
    constexpr Duration kLongestWait = std::chrono::seconds{5};
    while (!waiting_.empty() && out_.unread() < kMostUnread) {
      std::vector<BucketOrder> orders;
      while (!waiting_.empty() && orders.size() < kMostOrders) {
        orders.push_back(std::move(waiting_.extract(waiting_.begin()).mapped()));
      }
      if (!out_.send(written(orders))) {
        for (BucketOrder& order : orders) waiting_.emplace(order.bucket, std::move(order));
        break;
      }
      since_ = SteadyClock::instance().now();
    }
    if (waiting_.empty() || SteadyClock::instance().now() - since_ < kLongestWait) return;
    waiting_.clear();
    out_.end(grpc::Code::kResourceExhausted, "the assignments are not read");
  }

  bool read(const wire::BucketUsage& usage, std::vector<BucketReport>& all) {
    if (usage.bucket_id().bucket().empty()) {
      refuse("a report has no bucket_id; expected at least one name and value");
      return false;
    }
    auto report = read_id(usage.bucket_id());
    if (!report) {
      if (!std::exchange(warned_, true)) {
        server_->log().warning(
            "a proxy reports a bucket whose id is longer than 4096 bytes or not UTF-8; it gets no "
            "assignment",
            {{"peer", peer_}, {"domain", domain_}});
      }
      return true;
    }
    const auto& elapsed = usage.time_elapsed();
    if (elapsed.seconds() < 0 || elapsed.nanos() < 0) {
      refuse("time_elapsed is negative; expected the time since the last report");
      return false;
    }
    const std::chrono::seconds seconds{elapsed.seconds()};
    report->elapsed = seconds > kLongestElapsed
                          ? Duration{kLongestElapsed}
                          : seconds + std::chrono::duration_cast<Duration>(
                                          std::chrono::nanoseconds{elapsed.nanos()});
    report->allowed = usage.num_requests_allowed();
    report->denied = usage.num_requests_denied();
    all.push_back(std::move(*report));
    return true;
  }

  const std::shared_ptr<QuotaServer> server_;
  const std::uint64_t id_;
  const std::string peer_;
  grpc::StreamOut& out_;
  boost::asio::io_context& loop_;
  const std::shared_ptr<QuotaStream*> self_ = std::make_shared<QuotaStream*>(this);
  std::map<std::string, BucketOrder> waiting_;  // the latest of each bucket
  Instant since_{};                             // something waits, or was sent
  std::string domain_;                          // empty: no message has arrived
  bool warned_ = false;
};

}  // namespace

// The service in its loop.
class QuotaServer::Running final : public net::LoopFrontEnd {
 public:
  Running(QuotaServer& server, boost::asio::io_context& loop, Store& store, StoreKind kind,
          const Overrides* overrides, ClaimShare claim_share)
      : server_(server.shared_from_this()),
        loop_(loop),
        limiter_(store),
        service_({.rules = server.rules_,
                  .overrides = overrides,
                  .limiter = limiter_,
                  .log = server.log_,
                  .config = server.config_,
                  .claim_share = std::move(claim_share),
                  .charges = kind != StoreKind::kQuota,
                  .for_each = kind != StoreKind::kMemory
                                  ? QuotaService::ForEach(std::bind_front(&Running::for_each, this))
                                  : nullptr}),
        timer_(loop),
        again_(loop) {
    const net::FiberPool::Options fibers{.most = 1 + kMostAsking};
    if (kind != StoreKind::kMemory) fibers_.emplace(fibers);  // others may wait
    wait();
  }
  ~Running() override {
    const std::scoped_lock lock(server_->mutex_);
    server_->running_ = nullptr;
  }

  void follow_rules() override {
    service_.follow_rules();
    divide(true);
  }
  void stop_accepting(net::Queued, std::function<void()> stopped) override { stopped(); }
  // Shares are claimed once more, for as long as the parts of these proxies last and no longer:
  // then the servers to which the proxies go have all.
  void drain(std::function<void()> drained) override {
    timer_.cancel();
    again_.cancel();
    is_draining_ = true;
    drained_ = std::move(drained);
    service_.close_all();
    end();
  }

  void post(std::function<void(QuotaService&)> event) {
    boost::asio::post(loop_, [this, event = std::move(event)] {
      event(service_);
      divide_later();
    });
  }

 private:
  // On the fiber of a division: other fibers make the calls, which wait for the store.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& call) {
    net::FiberWait wait;
    std::size_t next = 0;
    const std::size_t fibers = std::min(count, kMostAsking);
    std::size_t running = fibers + 1;  // the last one is the function that starts them
    const auto calls = [&] {
      while (next < count) call(next++);
    };
    const auto done = [&] {
      if (--running == 0) wait.finish();
    };
    std::vector<net::FiberJob> parts(fibers, {calls, done});
    // A fiber cannot start another one.
    boost::asio::post(loop_, [&] {
      for (net::FiberJob& part : parts) fibers_->run(part);
      done();
    });
    wait.wait();
  }

  void wait() {
    timer_.expires_after(server_->config_.every);
    timer_.async_wait([this](const boost::system::error_code& why) {
      if (why) return;
      wait();
      divide(true);
    });
  }
  // Until the store has more units for a limit.
  void wait_again() {
    if (is_running_ || is_draining_ || service_.next() >= wakes_) return;
    wakes_ = service_.next();
    again_.expires_after(wakes_ - SteadyClock::instance().now());
    again_.async_wait([this](const boost::system::error_code& why) {
      if (why) return;
      wakes_ = Instant::max();
      if (!is_running_) divide(false);
    });
  }
  void divide(bool all) {
    if (is_draining_) return;
    publishes_ |= all;
    if (!fibers_ || is_running_) {
      service_.divide(all);
      publish();
      return divide_later();
    }
    divides_all_ = all;
    is_running_ = true;
    fibers_->run(job_);
  }
  // The job has ended.
  void divided() {
    is_running_ = false;
    publish();
    if (drained_) return boost::asio::post(loop_, [this] { end(); });
    divide_later();
  }
  // When it drains: goes on until nothing is left to claim.
  void end() {
    if (is_running_) return;
    if (!fibers_ || !service_.has_news()) return std::exchange(drained_, nullptr)();
    is_running_ = true;
    fibers_->run(job_);
  }
  // If there is more to do, after the events that have arrived already. A job goes on by itself.
  void divide_later() {
    if (is_running_ || !service_.has_news() || std::exchange(will_divide_, true)) return;
    boost::asio::post(loop_, [this] {
      will_divide_ = false;
      divide(false);
    });
  }
  void publish() {
    wait_again();
    base::JsonWriter json;
    const bool writes = std::exchange(publishes_, false);
    if (writes) service_.write(json, kMostShown);
    const std::scoped_lock lock(server_->mutex_);
    if (writes) server_->json_ = json.view();
    server_->stats_ = service_.stats();
  }

  static constexpr std::size_t kMostShown = 1000;  // subscribers
  static constexpr std::size_t kMostAsking = 32;   // the store at once

  const std::shared_ptr<QuotaServer> server_;
  boost::asio::io_context& loop_;
  Limiter limiter_;
  QuotaService service_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer again_;
  Instant wakes_ = Instant::max();  // when `again_` ends
  std::optional<net::FiberPool> fibers_;
  // Divides on the fiber, if the store may wait; else divide() does it at once.
  net::FiberJob job_{[this] { service_.divide(std::exchange(divides_all_, false)); },
                     [this] { divided(); }};
  bool is_running_ = false;
  bool is_draining_ = false;
  std::function<void()> drained_;  // called when nothing is left to do, unless it is empty
  bool divides_all_ = false;
  bool publishes_ = false;
  bool will_divide_ = false;
};

std::unique_ptr<net::LoopFrontEnd> QuotaServer::start(boost::asio::io_context& loop, Store& store,
                                                      StoreKind kind, const Overrides* overrides,
                                                      ClaimShare claim_share) {
  auto running =
      std::make_unique<Running>(*this, loop, store, kind, overrides, std::move(claim_share));
  const std::scoped_lock lock(mutex_);
  running_ = running.get();
  return running;
}

std::unique_ptr<grpc::StreamIn> QuotaServer::open_stream(const grpc::Call& call,
                                                         grpc::StreamOut& out,
                                                         boost::asio::io_context& loop) {
  std::uint64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    id = ++last_proxy_;
  }
  return std::make_unique<QuotaStream>(shared_from_this(), id, std::string(call.peer), out, loop);
}

void QuotaServer::refuse(grpc::StreamOut& out, std::string_view peer, grpc::Code code,
                         std::string_view why) {
  const Instant now = SteadyClock::instance().now();
  bool logs = false;
  {
    const std::scoped_lock lock(mutex_);
    logs = !refusal_logged_ || now - *refusal_logged_ >= kRefusalsLogged;
    if (logs) refusal_logged_ = now;
  }
  if (logs) {
    log_.warning("the quota service refuses a proxy, which has no parts of limits",
                 {{"peer", peer}, {"why", why}});
  }
  out.end(code, why);
}

void QuotaServer::post(std::function<void(QuotaService&)> event) {
  const std::scoped_lock lock(mutex_);
  if (running_ != nullptr) running_->post(std::move(event));
}

std::string QuotaServer::json() const {
  const std::scoped_lock lock(mutex_);
  return json_;
}

QuotaStats QuotaServer::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

}  // namespace sluice::server
