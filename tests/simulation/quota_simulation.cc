#include "tests/simulation/quota_simulation.h"

#include <algorithm>

#include "tests/oracle/fair.h"

namespace sluice::quota_simulation {
namespace {

using namespace std::chrono_literals;
using quota::kWhole;

constexpr Duration kTick = 100ms;
constexpr Duration kLatency = 1s;
constexpr Duration kEvery = 1s;
constexpr Duration kTtl = 15s;
constexpr std::uint64_t kAtLeast = kWhole / 1000;

}  // namespace

Simulation::Simulation(const Options& options)
    : options_(options),
      random_(options.seed),
      proxies_(options.proxies),
      servers_(options.servers) {
  // Not all kinds in each run, because some hide what others break.
  while (kinds_ == 0) kinds_ = dice(1 << kFaults.size());
  for (Server& server : servers_) start(server);
  for (Proxy& proxy : proxies_) {
    proxy.next_report = now_ + Duration{dice(1'000'000)};
    proxy.interval = options.interval;
    if (!options.interval.count()) proxy.interval = 300ms + Duration{dice(4'700'000)};
  }
}

void Simulation::start(Server& server) {
  server = {};
  server.parts = std::make_unique<quota::Allocator>(quota::Allocator::Options{.latency = kLatency});
  server.life = ++lives_;
  server.next_round = now_ + Duration{dice(1'000'000)};
}

void Simulation::fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = what + " at " + std::to_string(now_.time_since_epoch() / 1ms) + " ms";
}

Duration Simulation::flight(const Proxy& proxy) {
  return std::min(Duration{dice(50'000)} + proxy.delay, kLatency / 2 - kTick);
}

void Simulation::inject_fault() {
  std::size_t kind = dice(kFaults.size());
  while ((kinds_ >> kind & 1) == 0) kind = dice(kFaults.size());
  const std::string_view fault = kFaults[kind];
  ++faults_[std::string(fault)];
  Proxy& proxy = proxies_[dice(proxies_.size())];
  Server& server = servers_[dice(servers_.size())];
  if (fault == "lost") disconnect(proxy);
  if (fault == "late") proxy.delay = Duration{dice(1'000'000)};
  if (fault == "repeated") proxy.repeats = !proxy.repeats;
  if (fault == "partition") server.reaches_store = now_ + Duration{dice(30'000'000)};
  if (fault == "restart") start(server);
  if (fault == "kill") {
    server = {};
    server.starts = now_ + Duration{dice(30'000'000)};
  }
  // A clock that steps forward ends what the store knows of servers too early: its operator must
  // slew it.
  if (fault == "clock") store_clock_ -= Duration{dice(5'000'000)};
  if (fault == "limit") limit_ = dice(3) == 0 ? kWhole : kWhole / 4 + dice(kWhole / 2);
  if (fault == "demand") proxy.demand = dice(4) == 0 ? 0 : dice(2 * kWhole);
}

void Simulation::heal() {
  limit_ = kWhole;
  for (Server& server : servers_) server.starts = server.reaches_store = now_;
  for (Proxy& proxy : proxies_) {
    proxy.delay = Duration{0};
    proxy.repeats = false;
  }
}

void Simulation::disconnect(Proxy& proxy) {
  Server& server = servers_[proxy.server];
  if (server.life == proxy.life && server.streams.contains(proxy.stream)) {
    server.closing[proxy.stream] = now_ + Duration{dice(5'000'000)};
  }
  proxy.stream = 0;
  proxy.up.clear();
  proxy.down.clear();
  // Some proxies stay away and use what they have.
  proxy.next_report = now_ + Duration{dice(dice(2) == 0 ? 2'000'000 : 30'000'000)};
}

// A new connection sends a report at once.
void Simulation::connect(Proxy& proxy) {
  proxy.server = dice(servers_.size());
  Server& server = servers_[proxy.server];
  if (!server.parts) return;
  proxy.life = server.life;
  proxy.stream = ++streams_;
  server.streams[proxy.stream] = static_cast<std::size_t>(&proxy - proxies_.data());
  proxy.next_report = now_;
}

void Simulation::step(Proxy& proxy) {
  if (proxy.stream == 0) {
    if (now_ >= proxy.next_report) connect(proxy);
    if (proxy.stream == 0) return;
  }
  if (servers_[proxy.server].life != proxy.life) return disconnect(proxy);
  if (now_ >= proxy.next_report) {
    Instant at = now_ + flight(proxy);
    if (!proxy.up.empty()) at = std::max(at, proxy.up.back().at);
    proxy.up.push_back({at, true, proxy.demand, Duration{0}});
    if (proxy.repeats) proxy.up.push_back(proxy.up.back());
    proxy.next_report = now_ + proxy.interval;
  }
  while (!proxy.up.empty() && proxy.up.front().at <= now_) {
    const Message message = proxy.up.front();
    proxy.up.pop_front();
    receive_report(servers_[proxy.server], proxy, message.value);
  }
  while (!proxy.down.empty() && proxy.down.front().at <= now_) {
    proxy.part = proxy.down.front().value;
    proxy.until = now_ + proxy.down.front().ttl;
    proxy.down.pop_front();
  }
}

void Simulation::receive_report(Server& server, Proxy& proxy, std::uint64_t demand) {
  server.parts->report(proxy.stream, {.asked = demand, .weight = 1, .at_least = kAtLeast}, now_);
  divide(server);
}

// The server reports to the store what is in use, and sends nothing unless the store answers.
void Simulation::divide(Server& server) {
  if (now_ < server.reaches_store) return;
  claim(server);
  const std::uint64_t total = std::min(server.share, limit_);
  static_cast<void>(server.parts->plan(total, now_));
  const std::uint64_t before = server.parts->held(now_);
  for (const auto& [stream, index] : server.streams) {
    Proxy& proxy = proxies_[index];
    if (server.closing.contains(stream) || proxy.stream != stream) continue;
    const std::uint64_t part = server.parts->planned(stream);
    const bool is_old = now_ - server.sent[stream] >= kTtl / 3;
    if (part == server.parts->assigned(stream) && !is_old) continue;
    server.parts->sent(stream, part, kTtl, now_);
    server.sent[stream] = now_;
    Instant at = now_ + flight(proxy);
    if (!proxy.down.empty()) at = std::max(at, proxy.down.back().at);
    proxy.down.push_back({at, false, part, kTtl});
    if (proxy.repeats) proxy.down.push_back(proxy.down.back());
  }
  if (server.parts->held(now_) > std::max(total, before)) fail("A server raised a part too early");
}

void Simulation::claim(Server& server) {
  std::uint64_t asked = 0;
  for (const auto& [stream, index] : server.streams) {
    asked = std::min(asked + std::max(server.parts->asked(stream), kAtLeast), kWhole);
  }
  const std::uint64_t held = server.parts->held(now_);
  const Instant now = now_ + store_clock_;
  std::erase_if(store_, [&](const auto& one) { return one.second.until <= now; });
  store_.erase(server.life);
  std::uint64_t kept = 0;
  std::vector<quota::Claim> claims{{asked, 1, 0}};
  for (const auto& [life, other] : store_) {
    kept += other.keeps;
    claims.push_back({other.asked, 1, 0});
  }
  std::vector<std::uint64_t> parts(claims.size());
  quota::divide(claims, kWhole, parts);
  server.share = std::min(parts[0], kWhole - std::min(kept, kWhole));
  const std::uint64_t keeps = std::max(server.share, held);
  if (kept + keeps > kWhole) fail("The servers keep more than the limit");
  store_[server.life] = {asked, keeps, now + kTtl + kEvery + kLatency};
}

void Simulation::check_ceiling() {
  std::uint64_t sum = 0;
  for (const Proxy& proxy : proxies_) sum += used(proxy);
  if (sum > kWhole) fail("The proxies may use " + std::to_string(sum) + " of 2^40");
}

void Simulation::step() {
  now_ += kTick;
  for (Server& server : servers_) {
    if (!server.parts) {
      if (now_ >= server.starts) start(server);
      continue;
    }
    for (auto at = server.closing.begin(); at != server.closing.end();) {
      if (at->second > now_) {
        ++at;
        continue;
      }
      server.parts->remove(at->first, now_);
      server.streams.erase(at->first);
      server.sent.erase(at->first);
      at = server.closing.erase(at);
    }
    if (now_ < server.next_round) continue;
    divide(server);
    server.next_round = now_ + kEvery;
  }
  for (Proxy& proxy : proxies_) step(proxy);
  check_ceiling();
}

void Simulation::run(Duration time) {
  for (const Instant end = now_ + time; now_ < end;) step();
}

std::uint64_t Simulation::usable() const {
  std::uint64_t sum = 0;
  for (const Proxy& proxy : proxies_) sum += std::min(used(proxy), proxy.demand);
  return sum;
}

std::uint64_t Simulation::wanted() const {
  std::uint64_t sum = 0;
  for (const Proxy& proxy : proxies_) sum = std::min(sum + proxy.demand, kWhole);
  return sum;
}

void Simulation::check_fairness() {
  for (const Server& server : servers_) {
    std::vector<sluice_oracle::Demand> demands;
    std::vector<std::uint64_t> parts;
    for (const auto& [stream, index] : server.streams) {
      demands.push_back({proxies_[index].demand, 1, kAtLeast});
      parts.push_back(used(proxies_[index]));
    }
    const auto fair = sluice_oracle::fair_parts(demands, server.share);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      // A part changes if the change is more than 1/32 of it.
      const auto least = fair[i] - fair[i] / 16 - 2;
      if (parts[i] < least) {
        fail("A proxy has " + std::to_string(parts[i]) + " instead of " +
             sluice_oracle::round_down(fair[i]).str());
      }
    }
  }
}

}  // namespace sluice::quota_simulation
