#include "tests/simulation/quota_simulation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sluice/leased_store.h"
#include "sluice/limiter.h"
#include "sluice/permit_id.h"
#include "tests/oracle/fair.h"

namespace sluice::quota_simulation {
namespace {

using namespace std::chrono_literals;
using quota::kWhole;

constexpr Duration kLatency = 1s;  // that the service allows
constexpr Duration kLook = 250ms;
// Then all parts of an old limit have expired: 3 * 5.5 s of a proxy, and the time of the messages.
constexpr Duration kLongestPart = 25s;
constexpr Limit kLeased = fixed_window(1'000'000).per(24h).leased(100ms);
constexpr Limit kBudget = budget(100'000).per(24h);
constexpr const char* kBucket = "/api";
constexpr const char* kStops[] = {"partition", "restart", "kill", "clock"};

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

std::string rules_of(std::uint64_t limit) {
  return "version: 1\ndomain: shop\nrules:\n  - name: api\n    match: { path: /api }\n    limits: "
         "[ "
         "{ name: requests, key: \"{path}\", algorithm: token_bucket, per: 1s, limit: " +
         std::to_string(limit) + " } ]\n";
}

bool is_stop(std::string_view fault) {
  return std::find(std::begin(kStops), std::end(kStops), fault) != std::end(kStops);
}

}  // namespace

// The stream of a proxy, as its server sees it.
class Simulation::Stream final : public server::QuotaProxy {
 public:
  Stream(Simulation& of, std::size_t proxy, std::uint64_t stream)
      : of_(of), proxy_(proxy), stream_(stream) {}
  void send(std::vector<server::BucketOrder> orders) override { of_.send(proxy_, stream_, orders); }

 private:
  Simulation& of_;
  const std::size_t proxy_;
  const std::uint64_t stream_;
};

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

// The rule of the script in redis_shares.cc: a server keeps what is in use there, and gets at most
// what the others do not keep.
class Simulation::Shares final : public server::QuotaShares {
 public:
  Shares(Simulation& of, std::size_t server, std::uint64_t life)
      : of_(of), server_(server), life_(life) {}
  std::optional<std::uint64_t> claim(const Charge&, std::uint64_t asked, std::uint64_t held,
                                     Duration ttl) override {
    const bool fails = !of_.reaches_store(server_);
    if (fails && !of_.servers_[server_].loses_answers) return std::nullopt;
    const std::uint64_t given = divide(asked, held, ttl);
    if (fails) return std::nullopt;
    return share = given;
  }

  std::uint64_t share = 0;  // as the server knows it

 private:
  std::uint64_t divide(std::uint64_t asked, std::uint64_t held, Duration ttl) {
    const Instant now = of_.store_clock_.now();
    auto& all = of_.shares_;
    std::erase_if(all, [&](const auto& one) { return one.second.until <= now; });
    all.erase(life_);
    std::uint64_t kept = 0;
    std::vector<quota::Claim> claims{{asked, 1, 0}};
    for (const auto& [life, other] : all) {
      kept += other.keeps;
      claims.push_back({other.asked, 1, 0});
    }
    std::vector<std::uint64_t> parts(claims.size());
    quota::divide(claims, kWhole, parts);
    const std::uint64_t given = std::min(parts[0], kWhole - std::min(kept, kWhole));
    const std::uint64_t keeps = std::max(given, held);
    if (kept + keeps > kWhole) of_.fail("The servers keep more than the limit");
    all[life_] = {asked, keeps, now + ttl};
    return given;
  }

  Simulation& of_;
  const std::size_t server_;
  const std::uint64_t life_;
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
                 .shares = &shares,
                 .steady = of.clock_}) {}

  const std::uint64_t life;
  Connection connection;
  Limiter limiter;
  Leases leases;
  LeasedStore leased;
  Shares shares;
  server::QuotaService service;
};

Simulation::Simulation(const Options& options)
    : options_(options),
      random_(options.seed),
      clock_(now_),
      store_clock_(now_),
      store_({.max_keys = 128, .max_log_bytes = 1 << 20, .shards = 1}, store_clock_),
      rules_(std::move(
          *server::RulesManager::open_source({{.name = "rules", .text = rules_of(kLimit)}}))),
      proxies_(options.proxies),
      servers_(options.servers),
      looked_(now_) {
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
    after(up_to(1s), [this, i] { connect(i); });
  }
  after(kLook, [this] { look(); });
  request();
}
Simulation::~Simulation() = default;

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
  if (fault == "restart" || fault == "kill") stop(server);
  if (fault == "restart") start(server);
  if (fault == "kill") {
    after(up_to(30s), [this, server] { start(server); });
  }
  // A clock that steps forward ends what the store knows of servers too early: its operator must
  // slew it. While it stands still for the counters, what is in use is owed.
  if (fault == "clock" && store_step_ > -20s) store_step_ -= up_to(5s);
  if (fault == "limit") set_limit(dice(3) == 0 ? kLimit : kLimit / 4 + dice(kLimit / 2));
  if (fault == "demand") set_demand(one, dice(4) == 0 ? 0 : static_cast<double>(dice(2 * kLimit)));
  move_clocks(now_);
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
  if (!rules_->replace(rules_of(limit), "rules")) fail("The rules are refused");
  for (Server& server : servers_) {
    if (!server.running) continue;
    server.running->service.follow_rules();
    server.running->service.divide(true);
  }
}

// The servers.

void Simulation::start(std::size_t server) {
  if (servers_[server].running) return;
  servers_[server].running = std::make_unique<Running>(*this, server);
  after(up_to(1s), [this, server, life = servers_[server].running->life] { round(server, life); });
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
  running->service.divide(true);
  running->leased.give_back();
  after(config_.every, [this, server, life] { round(server, life); });
}

bool Simulation::reaches_store(std::size_t server) const {
  return now_ >= servers_[server].reaches_store;
}

}  // namespace sluice::quota_simulation
