#include "tests/simulation/quota_simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "envoy/service/rate_limit_quota/v3/rlqs.pb.h"
#include "sluice/detail/async_waits.h"
#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/overrides.h"
#include "sluice/permit_id.h"
#include "tests/oracle/fair.h"

namespace sluice::quota_simulation {
namespace {

using namespace std::chrono_literals;
using quota::kWhole;
namespace rlqs = envoy::service::rate_limit_quota::v3;

constexpr Duration kLatency = 1s;  // that the service allows
constexpr Duration kLook = 250ms;
// Then all parts of an old limit have expired: 3 * 5.5 s of a proxy, and the time of the messages.
constexpr Duration kLongestPart = 25s;
constexpr Duration kPaidBack = 4 * 1s + 2 * 5500ms;  // of what is owed, for the slowest proxy
constexpr Limit kLeased = fixed_window(1'000'000).per(24h).leased(100ms);
constexpr Limit kBudget = budget(100'000).per(24h);
constexpr Limit kQueue = sliding_window_log(20).per(2s);
constexpr Limit kPermits = concurrency(4).lease(10s);
constexpr const char* kBucket = "/api";
constexpr const char* kStops[] = {"partition", "restart", "kill", "clock"};

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

// `limit`: per second.
std::string rules_of(std::uint64_t limit, const Simulation::Options& options) {
  const auto seconds = static_cast<std::uint64_t>(options.period.count());
  return "version: 1\ndomain: shop\nrules:\n  - name: api\n    match: { path: "
         "/api }\n    limits: "
         "[ "
         "{ name: requests, key: \"{path}\", algorithm: " +
         options.algorithm + ", per: " + std::to_string(seconds) +
         "s, limit: " + std::to_string(limit * seconds) +
         ", share: { weight: \"{x-weight|1}\" } }" +
         (options.has_tiers
              ? ", { name: tier, key: \"{x-weight}\", algorithm: token_bucket, per: 1s, "
                "limit: " +
                    std::to_string(kTier) + " }"
              : "") +
         " ]\n";
}

PermitId permit_of(std::uint64_t caller) {
  return PermitId::named("caller-" + std::to_string(caller));
}

bool is_stop(std::string_view fault) {
  return std::find(std::begin(kStops), std::end(kStops), fault) != std::end(kStops);
}

}  // namespace

std::vector<server::BucketReport> reports_of(QuotaClient::Buckets& client) {
  std::vector<server::BucketReport> out;
  for (const std::string& message : client.report(true)) {
    rlqs::RateLimitQuotaUsageReports reports;
    if (!reports.ParseFromString(message)) return {};
    for (const auto& usage : reports.bucket_quota_usages()) {
      const auto& id = usage.bucket_id().bucket();
      const auto& elapsed = usage.time_elapsed();
      server::BucketReport& report = out.emplace_back();
      report.attributes.assign(id.begin(), id.end());
      std::ranges::sort(report.attributes);
      for (const auto& [name, value] : report.attributes) report.bucket += value;
      report.elapsed = std::chrono::seconds(elapsed.seconds()) + Duration{elapsed.nanos() / 1000};
      report.allowed = usage.num_requests_allowed();
      report.denied = usage.num_requests_denied();
    }
  }
  return out;
}

std::string message_of(const server::BucketOrder& order, const server::BucketAttributes& id) {
  using Kind = server::Assignment::Kind;
  rlqs::RateLimitQuotaResponse response;
  auto& action = *response.add_bucket_action();
  action.mutable_bucket_id()->mutable_bucket()->insert(id.begin(), id.end());
  if (!order.assignment) {
    action.mutable_abandon_action();
    return response.SerializeAsString();
  }
  const server::Assignment& next = *order.assignment;
  auto& given = *action.mutable_quota_assignment_action();
  auto& ttl = *given.mutable_assignment_time_to_live();
  ttl.set_seconds(order.ttl / 1s);
  ttl.set_nanos(static_cast<std::int32_t>(order.ttl % 1s / 1ns));
  auto& strategy = *given.mutable_rate_limit_strategy();
  if (next.kind == Kind::kDenyAll) {
    strategy.set_blanket_rule(envoy::type::v3::RateLimitStrategy::DENY_ALL);
  } else if (next.kind == Kind::kTokens) {
    auto& tokens = *strategy.mutable_token_bucket();
    tokens.set_max_tokens(next.tokens);
    tokens.mutable_tokens_per_fill()->set_value(next.tokens);
    tokens.mutable_fill_interval()->set_seconds(next.interval / 1s);
  }
  return response.SerializeAsString();
}

// The store, as a server reaches it.
class Simulation::Connection final : public Store {
 public:
  Connection(Simulation& of, std::size_t server) : of_(of), server_(server) {}
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    const bool fails = !of_.reaches_store(server_);
    const bool loses_answer = of_.servers_[server_].loses_answers;
    Decision said = Decision::refused(Reason::kStoreTimeout);
    if (!fails || loses_answer) said = of_.store_.apply(action, charges, now, each);
    if (!fails) return said;
    said = Decision::refused(Reason::kStoreTimeout);
    std::fill(each.begin(), each.end(), said);
    return said;
  }

 private:
  Simulation& of_;
  const std::size_t server_;
};

// The shares of a counter in the store, as a server reaches them.
class Simulation::Shares {
 public:
  Shares(Simulation& of, std::size_t server, std::uint64_t life)
      : of_(of), server_(server), life_(std::to_string(life)) {}
  std::optional<server::QuotaShare> claim(const Charge& counter, const quota::Claim& claim,
                                          std::uint64_t most_weight, std::uint64_t held,
                                          Duration ttl) {
    const bool fails = !of_.reaches_store(server_);
    if (fails && !of_.servers_[server_].loses_answers) return std::nullopt;
    const auto now = of_.store_clock_.now().time_since_epoch();
    SharesModel& shares = of_.shares_[std::string(counter.key)];
    const server::QuotaShare given = shares.claim(
        life_, claim, most_weight, held, std::chrono::ceil<std::chrono::milliseconds>(ttl) / 1ms,
        std::chrono::floor<std::chrono::milliseconds>(now) / 1ms);
    if (shares.kept() > kWhole) of_.fail("The servers keep more than the limit");
    if (fails) return std::nullopt;
    if (counter.key.find("|tier|") == counter.key.npos) share = given.part;
    return given;
  }

  std::uint64_t share = 0;  // of the limit of all, as the server knows it

 private:
  Simulation& of_;
  const std::size_t server_;
  const std::string life_;
};

// A caller that waits at a server.
class Simulation::Caller final : public detail::WaitingRequest {
 public:
  Caller(Simulation& of, std::size_t server, std::uint64_t life, const Charge& charge,
         Duration at_most)
      : WaitingRequest(charge, of.now_ + at_most),
        of_(of),
        number(++of.callers_),
        server(server),
        life(life),
        began(of.now_) {}
  void ended() noexcept override { of_.ended(*this); }

 private:
  Simulation& of_;

 public:
  const std::uint64_t number;
  const std::size_t server;
  const std::uint64_t life;
  const Instant began;
};

// A server from its start to its end.
struct Simulation::Running {
  Running(Simulation& of, std::size_t server)
      : life(++of.lives_),
        connection(of, server),
        limiter(connection),
        leases({.nodes = static_cast<std::uint32_t>(of.options_.servers), .max_keys = 8},
               of.clock_),
        leased(connection, leases, LeaseReturns::kByCaller),
        shares(of, server, life),
        service({.rules = *of.rules_,
                 .limiter = limiter,
                 .log = of.log_,
                 .config = of.config_,
                 .claim_share = std::bind_front(&Shares::claim, &shares),
                 .steady = of.clock_,
                 .step = of.step_}),
        waits(detail::AsyncWaits::make(
            &connection, nullptr, 100,
            [&of, server, this](Instant at) { of.set_alarm(server, life, at); }, of.clock_)) {}
  ~Running() { waits->close(); }

  const std::uint64_t life;
  Instant wakes = Instant::max();  // when the store has more units for a limit
  Connection connection;
  Limiter limiter;
  Leases leases;
  LeasedStore leased;
  Shares shares;
  server::QuotaService service;
  std::shared_ptr<detail::AsyncWaits> waits;
  struct Admitted {
    std::uint64_t before = 0;  // the last caller that was admitted earlier
    std::uint64_t last = 0;    // the last of all
    Instant at = {};           // when
  };
  std::map<Algorithm, Admitted> last_admitted;
};

Simulation::Simulation(const Options& options)
    : options_(options),
      random_(options.seed),
      clock_(now_),
      store_clock_(now_),
      store_({.max_keys = 128, .max_log_bytes = 1 << 20, .shards = 1}, store_clock_),
      rules_(std::move(*server::RulesManager::open_source(
          {{.name = "rules", .text = rules_of(kLimit, options)}}))),
      step_(dice(2) == 0 ? 1 + dice(16) : 2000),
      proxies_(options.proxies),
      servers_(options.servers),
      looked_(now_) {
  config_.every = options.every;
  // Not all kinds in each run, because some hide what others break. In some runs, none that stop
  // the count of what is in use.
  const bool stops = dice(2) == 0;
  while (kinds_ == 0) {
    for (std::size_t i = 0; i < kFaults.size(); ++i) {
      if (dice(2) == 0 && (stops || !is_stop(kFaults[i]))) kinds_ |= std::uint64_t{1} << i;
    }
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) start(i);
  for (std::size_t i = 0; i < proxies_.size(); ++i) {
    Proxy& proxy = proxies_[i];
    proxy.interval = options.interval;
    if (!options.interval.count()) proxy.interval = 1s + up_to(4s);
    proxy.counted = proxy.reported = now_;
    proxy.weight = options.is_mixed || options.has_tiers ? 1 + dice(5) : 1;
    proxy.bucket = kBucket + std::to_string(proxy.weight);
    if (options.is_mixed && dice(2) == 0) {
      proxy.client = std::make_unique<QuotaClient::Buckets>(client_options_, [] {}, &clock_);
      proxy.own = proxy.client->bucket(
          {{"path", kBucket}, {"x-weight", std::to_string(proxy.weight)}}, true);
    }
    after(up_to(1s), [this, i] { connect(i); });
  }
  after(kLook, [this] { look(); });
  request();
}
Simulation::~Simulation() {
  for (Server& server : servers_) server.running.reset();  // ends callers
}

void Simulation::after(Duration time, std::function<void()> event) {
  events_.emplace(std::pair{now_ + time, ++last_event_}, std::move(event));
}

void Simulation::move_clocks(Instant to) {
  now_ = to;
  clock_.set(now_);
  store_clock_.set(now_ + store_step_);
}

void Simulation::fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = what + " at " + std::to_string(now_.time_since_epoch() / 1ms) + " ms";
}

void Simulation::run(Duration time) {
  const Instant end = now_ + time;
  while (!events_.empty() && events_.begin()->first.first <= end) {
    const auto event = events_.extract(events_.begin());
    move_clocks(event.key().first);
    event.mapped()();
  }
  move_clocks(end);
}

void Simulation::inject_fault() {
  std::size_t kind = dice(kFaults.size());
  while ((kinds_ >> kind & 1) == 0) kind = dice(kFaults.size());
  const std::string_view fault = kFaults[kind];
  ++faults_[std::string(fault)];
  const std::size_t one = dice(proxies_.size());
  const std::size_t server = dice(servers_.size());
  Proxy& proxy = proxies_[one];
  if (fault == "lost") disconnect(one);
  if (fault == "late") proxy.delay = up_to(1s);
  if (fault == "repeated") proxy.repeats = !proxy.repeats;
  if (fault == "partition") {
    servers_[server].reaches_store = now_ + up_to(30s);
    servers_[server].loses_answers = dice(2) == 0;
  }
  if (fault == "restart") {
    drain(server);
    stop(server);
    start(server);
  }
  if (fault == "kill") {
    stop(server);
    after(up_to(30s), [this, server] { start(server); });
  }
  // A clock that steps forward ends what the store knows of servers too early: its operator must
  // slew it. While it does not move for the counters, what is in use is owed.
  if (fault == "clock" && store_step_ > -20s) store_step_ -= up_to(5s);
  if (fault == "limit") set_limit(dice(3) == 0 ? kLimit : kLimit / 4 + dice(kLimit / 2));
  if (fault == "demand") set_demand(one, dice(4) == 0 ? 0 : static_cast<double>(dice(2 * kLimit)));
  move_clocks(now_);
}

void Simulation::reconnect() {
  for (std::size_t i = 0; i < proxies_.size(); ++i) {
    Proxy& proxy = proxies_[i];
    servers_[proxy.server].running->service.close(std::exchange(proxy.stream, 0));
    if (proxy.client) proxy.client->ended("lost");
    connect(i);
  }
}

void Simulation::heal() {
  is_healed_ = true;
  set_limit(kLimit);
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    servers_[i].reaches_store = now_;
    start(i);
  }
  for (Proxy& proxy : proxies_) {
    proxy.delay = Duration{0};
    proxy.repeats = false;
  }
}

void Simulation::set_limit(std::uint64_t limit) {
  limit_ = limit;
  ceiling_ = std::max(ceiling_, limit);
  after(kLongestPart, [this, change = ++limit_changes_] {
    if (change == limit_changes_) ceiling_ = limit_;
  });
  if (!rules_->replace(rules_of(limit, options_), "rules")) fail("The rules are refused");
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (!servers_[i].running) continue;
    servers_[i].running->service.follow_rules();
    divide(i, servers_[i].running->life, true);
  }
}

// The servers.

void Simulation::start(std::size_t server) {
  if (servers_[server].running) return;
  servers_[server].running = std::make_unique<Running>(*this, server);
  after(up_to(1s), [this, server, life = servers_[server].running->life] { round(server, life); });
}

void Simulation::drain(std::size_t server) {
  Running* const running = servers_[server].running.get();
  if (running == nullptr) return;
  running->leased.give_back(LeaseEnd::kAll);
  running->service.close_all();
  while (running->service.has_news()) running->service.divide(false);
}

void Simulation::stop(std::size_t server) {
  servers_[server].running.reset();
  for (std::size_t i = 0; i < proxies_.size(); ++i) {
    if (proxies_[i].stream != 0 && proxies_[i].server == server) disconnect(i);
  }
}

void Simulation::round(std::size_t server, std::uint64_t life) {
  Running* const running = servers_[server].running.get();
  if (running == nullptr || running->life != life) return;
  divide(server, life, true);
  running->leased.give_back();
  after(config_.every, [this, server, life] { round(server, life); });
}

// Messages may arrive between two steps.
void Simulation::divide(std::size_t server, std::uint64_t life, bool all) {
  Running* const running = servers_[server].running.get();
  if (running == nullptr || running->life != life) return;
  running->service.divide(all);
  if (const Instant next = running->service.next(); next < running->wakes) {
    running->wakes = next;
    after(std::max(next - now_, Duration{0}), [this, server, life] { wake(server, life); });
  }
  if (!running->service.has_news()) return;
  after(up_to(1ms), [this, server, life] { divide(server, life, false); });
}

void Simulation::wake(std::size_t server, std::uint64_t life) {
  Running* const running = servers_[server].running.get();
  if (running == nullptr || running->life != life) return;
  running->wakes = Instant::max();
  divide(server, life, false);
}

bool Simulation::reaches_store(std::size_t server) const {
  return now_ >= servers_[server].reaches_store;
}

// The proxies.

void Simulation::disconnect(std::size_t index) {
  Proxy& proxy = proxies_[index];
  if (proxy.stream == 0) return;
  if (const Running* const running = servers_[proxy.server].running.get()) {
    after(up_to(5s), [this, at = proxy.server, life = running->life, stream = proxy.stream] {
      Running* const found = servers_[at].running.get();
      if (found != nullptr && found->life == life) found->service.close(stream);
    });
  }
  proxy.stream = 0;
  if (proxy.client) proxy.client->ended("lost");
  // Some proxies stay away and use what they have.
  after(up_to(dice(2) == 0 ? 2s : 30s), [this, index] { connect(index); });
}

// A new connection sends a report at once.
void Simulation::connect(std::size_t index) {
  Proxy& proxy = proxies_[index];
  if (proxy.stream != 0) return;
  proxy.server = dice(servers_.size());
  Running* const running = servers_[proxy.server].running.get();
  if (running == nullptr) return after(up_to(2s), [this, index] { connect(index); });
  proxy.stream = ++streams_;
  proxy.last_up = proxy.last_down = now_;
  if (proxy.client) proxy.client->opened();
  running->service.open(
      proxy.stream, "shop", "10.0.0.1",
      [this, index, stream = proxy.stream](const auto& orders) { send(index, stream, orders); });
  report(index, proxy.stream);
}

// Each message takes at most half of the latency, with the one before it.
Instant Simulation::arrival(const Proxy& proxy, Instant last) {
  return std::max(last, now_ + std::min(up_to(10ms) + proxy.delay, kLatency / 2 - 1ms));
}

void Simulation::report(std::size_t index, std::uint64_t stream) {
  Proxy& proxy = proxies_[index];
  if (proxy.stream != stream) return;
  use(proxy);
  const std::vector<server::BucketReport> reports = reports_of(proxy);
  proxy.last_up = arrival(proxy, proxy.last_up);
  for (int i = 0; i < (proxy.repeats ? 2 : 1); ++i) {
    after(proxy.last_up - now_, [this, index, stream, reports] {
      if (proxies_[index].stream != stream) return;
      const std::size_t server = proxies_[index].server;
      Running& running = *servers_[server].running;
      running.service.report(stream, reports);
      divide(server, running.life, false);
    });
  }
  after(proxy.interval, [this, index, stream] { this->report(index, stream); });
}

std::vector<server::BucketReport> Simulation::reports_of(Proxy& proxy) {
  if (proxy.client) return quota_simulation::reports_of(*proxy.client);
  std::vector<server::BucketReport> out{{.bucket = proxy.bucket,
                                         .attributes = proxy.attributes(),
                                         .elapsed = now_ - proxy.reported,
                                         .allowed = static_cast<std::uint64_t>(proxy.allowed),
                                         .denied = static_cast<std::uint64_t>(proxy.denied)}};
  proxy.allowed -= std::floor(proxy.allowed);
  proxy.denied -= std::floor(proxy.denied);
  proxy.reported = now_;
  return out;
}

void Simulation::send(std::size_t index, std::uint64_t stream,
                      const std::vector<server::BucketOrder>& orders) {
  Proxy& proxy = proxies_[index];
  if (proxy.stream != stream) return;
  const Duration stalled = options_.stalled.count() > 0 && dice(2) == 0 ? options_.stalled : 0s;
  proxy.last_down = std::max(proxy.last_down, arrival(proxy, now_) + stalled);
  for (int i = 0; i < (proxy.repeats ? 2 : 1); ++i) {
    after(proxy.last_down - now_, [this, index, stream, orders] {
      if (proxies_[index].stream != stream) return;
      for (const server::BucketOrder& order : orders) apply(proxies_[index], order);
    });
  }
}

void Simulation::apply(Proxy& proxy, const server::BucketOrder& order) {
  using Kind = server::Assignment::Kind;
  use(proxy);
  if (order.assignment && order.assignment->kind == Kind::kAllowAll) {
    fail("A proxy may use anything");
  }
  if (proxy.client) return proxy.client->take(message_of(order, proxy.attributes()));
  if (!order.assignment) {
    proxy.until = now_;
    return;
  }
  const server::Assignment& next = *order.assignment;
  proxy.until = now_ + order.ttl;
  const bool keeps = rate(proxy) > 0;
  proxy.most = next.kind == Kind::kTokens ? next.tokens : 0;
  proxy.rate = next.kind == Kind::kTokens ? next.tokens / seconds(next.interval) : 0;
  proxy.tokens = keeps ? std::min(proxy.tokens, proxy.most) : proxy.most;
}

server::BucketAttributes Simulation::Proxy::attributes() const {
  return {{"path", kBucket}, {"x-weight", std::to_string(weight)}};
}

double Simulation::rate(const Proxy& proxy) const {
  if (!proxy.client) return now_ < proxy.until ? proxy.rate : 0;
  const QuotaBucket::Tokens tokens = proxy.own->tokens();
  return tokens.interval > 0ns ? 1e9 / static_cast<double>(tokens.interval / 1ns) : 0;
}

// Counts the requests until now.
void Simulation::use(Proxy& proxy) {
  const double asked = proxy.demand * seconds(now_ - proxy.counted);
  if (proxy.client) {
    proxy.counted = now_;
    proxy.waits += asked;
    const auto units = static_cast<std::uint32_t>(proxy.waits);
    proxy.waits -= units;
    const std::uint64_t left = proxy.own->tokens().left;
    const auto fits = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, left));
    // What the bucket has, and then the rest, which it denies.
    for (const std::uint32_t part : {fits, units - fits}) {
      if (part > 0 && proxy.own->try_take(part)) admitted_ += part;
    }
    return;
  }
  if (proxy.counted < proxy.until) {
    const Duration time = std::min(now_, proxy.until) - proxy.counted;
    const double refilled = proxy.tokens + proxy.rate * seconds(time);
    const double used = std::min(proxy.demand * seconds(time), refilled);
    proxy.tokens = std::min(refilled - used, proxy.most);
    proxy.allowed += used;
    proxy.denied += asked - used;
    admitted_ += used;
  } else {
    proxy.denied += asked;
  }
  if (proxy.until <= now_) proxy.rate = proxy.most = proxy.tokens = 0;
  proxy.counted = now_;
}

void Simulation::set_demand(std::size_t index, double demand) {
  use(proxies_[index]);
  proxies_[index].demand = demand;
}

// The promises.

void Simulation::look() {
  double sum = 0;
  std::map<std::uint64_t, double> tiers;
  for (Proxy& proxy : proxies_) {
    use(proxy);
    sum += rate(proxy);
    tiers[proxy.weight] += rate(proxy);
  }
  const auto ceiling = static_cast<double>(ceiling_);
  most_ = std::max(most_, sum / ceiling);
  // In each latency the parts add up to at most the limit, as the servers see them.
  const double times = std::ceil(seconds(options_.stalled + kLatency / 2));
  if (sum > ceiling * times * 1.000001) {
    fail("The proxies may use " + std::to_string(sum) + " of " + std::to_string(ceiling_));
  }
  for (const auto& [weight, used] : tiers) {
    if (!options_.has_tiers || used <= static_cast<double>(kTier) * times * 1.000001) continue;
    fail("Proxies of one weight may use " + std::to_string(used) + " of " + std::to_string(kTier));
  }
  excess_ = std::max(excess_ + admitted_ - ceiling * seconds(now_ - looked_), 0.);
  used_ += admitted_;
  admitted_ = 0;
  looked_ = now_;
  // docs/quota.md. While servers cannot count what is in use, and the store's clock does not move,
  // the parts still are at most the limit.
  bool counts = options_.stalled.count() == 0;
  for (std::size_t i = 0; i < kFaults.size(); ++i) {
    counts &= (kinds_ >> i & 1) == 0 || !is_stop(kFaults[i]);
  }
  double time = seconds(config_.every) + 1 + 1;
  // The burst of the limit, and what is owed: parts take `kPaidBack` to be smaller by that, and
  // those of proxies that are away last until they expire.
  if (options_.is_mixed) time += 1 + seconds(kPaidBack + kLongestPart);
  const double bound = time * static_cast<double>(kLimit) + static_cast<double>(proxies_.size());
  if (counts && excess_ > bound) {
    fail("The proxies used " + std::to_string(excess_) + " more than the limit");
  }
  const Decision leased = store_.apply_one(Verb::kPeek, {"leased", kLeased, 0}, {});
  if (leased_ > kLeased.limit() - leased.remaining) fail("A lease admitted what was not counted");
  after(kLook, [this] { look(); });
}

double Simulation::usable() const {
  double sum = 0;
  for (const Proxy& proxy : proxies_) sum += std::min(rate(proxy), proxy.demand);
  return sum;
}

double Simulation::wanted() const {
  double sum = 0;
  for (const Proxy& proxy : proxies_) sum += proxy.demand;
  return std::min(sum, static_cast<double>(limit_));
}

// Servers divide each limit as if it were the only one, by what the other one lets proxies use.
void Simulation::check_tiers() {
  std::vector<sluice_oracle::Flow> flows;
  std::vector<sluice_oracle::Rational> limits(6, kTier);
  limits[0] = limit_;
  for (const Proxy& proxy : proxies_) {
    const auto asked = static_cast<std::uint64_t>(proxy.demand);
    flows.push_back({asked, proxy.weight, {0, std::size_t{proxy.weight}}});
  }
  const auto fair = sluice_oracle::fair_rates(flows, limits);
  double sum = 0;
  for (std::size_t i = 0; i < fair.size(); ++i) {
    const auto part = fair[i].convert_to<double>();
    sum += part;
    // With more servers or proxies parts are less fair.
    if (servers_.size() > 1 || proxies_.size() > 8) continue;
    const double usable = std::min(rate(proxies_[i]), proxies_[i].demand);
    if (usable >= part * 0.9 - 1) continue;
    fail("A proxy has " + std::to_string(usable) + " instead of " + std::to_string(part));
  }
  if (usable() >= sum * 0.9) return;
  fail("Only " + std::to_string(usable()) + " of " + std::to_string(sum) + " are usable");
}

void Simulation::check_rest() {
  if (!options_.has_tiers && usable() < wanted() * 0.95) {
    fail("Only " + std::to_string(usable()) + " of " + std::to_string(wanted()) + " are usable");
  }
  if (options_.has_tiers) check_tiers();
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    std::vector<sluice_oracle::Demand> demands, floors;
    std::vector<double> rates;
    for (const Proxy& proxy : proxies_) {
      if (proxy.stream == 0 || proxy.server != i) continue;
      const auto asked = static_cast<std::uint64_t>(proxy.demand);
      demands.push_back({asked, proxy.weight, 0});
      floors.push_back({asked, proxy.weight, std::min(asked, limit_ / 100)});
      rates.push_back(rate(proxy));
      // A part changes by at least 1/32, and has whole tokens.
      const auto most = static_cast<double>(std::max(asked, limit_ / 100)) * 1.04 + 1;
      if (rates.back() > most) {
        fail("A proxy has " + std::to_string(rates.back()) + ", and asks for " +
             std::to_string(asked));
      }
    }
    // What the server has given out: what is owed makes it less than the share of the server, which
    // usable() bounds, and proxies with a least part lose nothing of that.
    const std::uint64_t share =
        std::min(servers_[i].running->shares.share * limit_ / kWhole,
                 static_cast<std::uint64_t>(std::accumulate(rates.begin(), rates.end(), 0.)));
    // There are no least parts if they do not fit.
    const auto fair = sluice_oracle::fair_parts(demands, share);
    const auto with_floors = sluice_oracle::fair_parts(floors, share);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      // A part changes if the change is more than 1/32 of it.
      const auto least = static_cast<double>(std::min(fair[k], with_floors[k])) * 0.9 - 1;
      if (!options_.has_tiers && rates[k] < least) {
        fail("A proxy has " + std::to_string(rates[k]) + " instead of " +
             sluice_oracle::round_down(fair[k]).str());
      }
      if (demands[k].asked > 0 && rates[k] <= 0) fail("A proxy starves");
    }
  }
  const Decision left = store_.apply_one(Verb::kPeek, {"budget", kBudget, 0}, {});
  if (is_healed_ && (open_calls_ > 0 || left.remaining != kBudget.limit() - settled_)) {
    fail("The budget has " + std::to_string(left.remaining) + " left, but " +
         std::to_string(settled_) + " were settled, and " + std::to_string(open_calls_) +
         " calls have no answer");
  }
  if (!is_healed_) return;
  if (!open_.empty()) fail(std::to_string(open_.size()) + " callers still wait");
  if (store_.apply_one(Verb::kPeek, {"permits", kPermits, 0}, {}).remaining != kPermits.limit()) {
    fail("A permit was not given back");
  }
}

// Requests that ask the servers.

void Simulation::request() {
  if (Running* const running = servers_[dice(servers_.size())].running.get()) {
    for (std::uint64_t i = dice(16); i > 0; --i) {
      const Charge charge{"leased", kLeased, 1};
      if (running->leased.apply_one(Verb::kTake, charge, {}).allowed()) ++leased_;
    }
    if (options_.is_mixed && !is_healed_) ask_directly(*running);
  }
  if (!is_healed_) {
    for (std::uint64_t i = dice(10); i > 0; --i) wait(dice(servers_.size()));
  }
  if (!is_healed_ && dice(8) == 0) {
    ++open_calls_;
    const std::uint64_t held = 1 + dice(1000);
    call({.number = ++calls_, .held = held, .actual = dice(held + 1)});
  }
  after(up_to(500ms), [this] { request(); });
}

// The counter is that of the rule.
void Simulation::ask_directly(Running& running) {
  const Attributes attributes{{"path", kBucket}};
  const auto key = name_override(rules_->current(), "api", "requests", attributes, {});
  for (std::uint64_t i = dice(8); key && i > 0; --i) {
    const Limit& limit = rules_->current().rules()[0].limits[0].limit;
    Charge charge{*key, limit, 1 + dice(limit_ / 4)};
    charge.rule.keyspace = Keyspace::kRules;
    if (!running.connection.apply_one(Verb::kTake, charge, {}).allowed()) continue;
    admitted_ += static_cast<double>(charge.cost);
    ++direct_;
  }
}

// A call asks any server until it has an answer, sometimes once more, and the first time with other
// servers than the second.
void Simulation::call(Call call) {
  Running* const running = servers_[dice(servers_.size())].running.get();
  const bool repeats = dice(8) == 0;
  if (running != nullptr) {
    const PermitId id = PermitId::named(std::to_string(call.number));
    const Charge charge{.key = "budget",
                        .limit = kBudget,
                        .cost = call.is_held ? call.actual : call.held,
                        .permit = &id};
    const Action action = call.is_held ? Action{Verb::kSettle} : Action{Verb::kHold, 1h};
    const Decision said = running->connection.apply_one(action, charge, {});
    if (said.reason == Reason::kConflict || said.late) fail("A call was answered as another one");
    if (said.outcome == Outcome::kDenied || (said.allowed() && call.is_held && !repeats)) {
      if (said.allowed()) settled_ += call.actual;
      --open_calls_;
      return;
    }
    if (said.allowed() && !repeats) call.is_held = true;
  }
  after(up_to(2s), [this, call] { this->call(call); });
}

// Callers that wait.

void Simulation::set_alarm(std::size_t server, std::uint64_t life, Instant at) {
  if (at == Instant::max()) return;
  after(std::max(at - now_, Duration{0}), [this, server, life] {
    Running* const running = servers_[server].running.get();
    if (running != nullptr && running->life == life) running->waits->on_time();
  });
}

void Simulation::wait(std::size_t server) {
  Running* const running = servers_[server].running.get();
  if (running == nullptr) return;
  const bool wants_permit = dice(3) == 0;
  const PermitId id = permit_of(callers_ + 1);
  const Charge charge = wants_permit ? Charge{.key = "permits", .limit = kPermits, .permit = &id}
                                     : Charge{.key = "queue", .limit = kQueue};
  auto caller = std::make_unique<Caller>(*this, server, running->life, charge, up_to(10s));
  Caller& one = *caller;
  open_.emplace(one.number, std::move(caller));
  std::optional<Decision> said;
  if (!running->waits->decide(one.charge(), one.deadline, said)) {
    return running->waits->start(one, said);
  }
  one.decision = *said;
  ended(one);
}

void Simulation::ended(Caller& caller) {
  if (!open_.contains(caller.number)) return fail("A caller was answered twice");
  const auto own = std::make_shared<std::unique_ptr<Caller>>(std::move(open_[caller.number]));
  open_.erase(caller.number);
  after(Duration{0}, [own] { own->reset(); });  // it is in use still
  if (caller.is_cancelled || !caller.decision.allowed()) return;
  if (now_ > caller.deadline) fail("A caller was admitted after its deadline");
  if (now_ > caller.began) ++waited_;
  Running& running = *servers_[caller.server].running;
  // Several that one answer admits learn it at the same instant, in any order.
  auto& [before, last, at] = running.last_admitted[caller.limit.algorithm()];
  if (std::exchange(at, now_) != now_) before = last;
  if (caller.number < before) fail("A caller was admitted before one that had come earlier");
  last = std::max(last, caller.number);
  if (!holds_permits(caller.limit.algorithm())) {
    std::erase_if(admissions_,
                  [&](Instant admitted) { return admitted <= now_ - kQueue.period(); });
    admissions_.push_back(now_);
    if (admissions_.size() > kQueue.limit()) fail("More callers were admitted than the limit");
    return;
  }
  std::erase_if(permits_, [&](const auto& one) { return one.second <= now_; });
  permits_[caller.number] = now_ + kPermits.lease();
  if (permits_.size() > kPermits.limit()) fail("More callers have permits than the limit");
  after(up_to(12s), [this, server = caller.server, life = caller.life, number = caller.number] {
    release(server, life, number);
  });
}

// A permit of a server that is gone, or that does not reach the store, ends with its lease.
void Simulation::release(std::size_t server, std::uint64_t life, std::uint64_t caller) {
  Running* const running = servers_[server].running.get();
  const auto found = permits_.find(caller);
  if (running == nullptr || running->life != life || found == permits_.end()) return;
  permits_.erase(found);
  const PermitId permit = permit_of(caller);
  const Charge charge{.key = "permits", .limit = kPermits, .permit = &permit};
  running->connection.apply_one(Verb::kRelease, charge, {});
  running->waits->released({&charge, 1});
}

}  // namespace sluice::quota_simulation
