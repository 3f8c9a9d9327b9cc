#include "server/storage/stores.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "sluice/decision.h"
#include "stores/redis/client/clients.h"

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds kPatience{2'000};

std::optional<std::uint64_t> number_of(std::string_view text) {
  return base::read_number<std::uint64_t>(text);
}

bool is_replica(std::string_view name) {
  constexpr std::string_view kSlave = "slave";
  return name.starts_with(kSlave) && number_of(name.substr(kSlave.size()));
}

}  // namespace

ServerInfo ServerInfo::read(std::string_view text) {
  ServerInfo info;
  std::vector<std::string_view> replicas;
  std::optional<std::uint64_t> offset;
  while (!text.empty()) {
    std::string_view value = base::take_until(text, '\n');
    if (value.ends_with('\r')) value.remove_suffix(1);
    const std::string_view name = base::take_until(value, ':');
    if (is_replica(name)) replicas.push_back(value);
    if (name == "used_memory") info.used_memory = number_of(value);
    if (name == "maxmemory") info.max_memory = number_of(value);
    if (name == "maxmemory_policy") info.policy = value;
    if (name == "total_commands_processed") info.commands = number_of(value);
    if (name == "evicted_keys") info.evicted_keys = number_of(value);
    if (name == "connected_slaves") info.replicas = number_of(value);
    if (name == "master_repl_offset") offset = number_of(value);
  }
  for (std::string_view one : replicas) {  // "ip=127.0.0.1,port=6380,state=online,offset=42,lag=1"
    while (!one.empty()) {
      std::string_view value = base::take_until(one, ',');
      const std::string_view name = base::take_until(value, '=');
      const auto number = number_of(value);
      if (name == "lag" && number)
        info.lag_seconds = std::max(info.lag_seconds.value_or(0), *number);
      if (name != "offset" || !number || !offset) continue;
      const std::uint64_t behind = *offset - std::min(*offset, *number);
      info.lag_bytes = std::max(info.lag_bytes.value_or(0), behind);
    }
  }
  return info;
}

std::string ServerInfo::trouble() const {
  if (policy.empty() || policy == "noeviction") return {};
  return name + " deletes counters in use when its memory is full: maxmemory-policy is " + policy +
         "; expected noeviction";
}

RedisHealth::RedisHealth(std::shared_ptr<const redis::Target> target, Log& log,
                         std::chrono::milliseconds every)
    : target_(std::move(target)), log_(log), every_(every) {}

RedisHealth::~RedisHealth() { stop(); }

void RedisHealth::start(boost::asio::io_context& loop) {
  auto patient = std::make_shared<redis::Target>(*target_);
  patient->options.deadline = std::max(patient->options.deadline, kPatience);
  timer_ = std::make_unique<boost::asio::steady_timer>(loop);
  client_ = redis::make_client(loop, std::move(patient), nullptr);
  look();
}

void RedisHealth::stop() noexcept {
  timer_.reset();
  client_.reset();  // ends the commands in progress
  asks_.clear();
}

void RedisHealth::submit(std::optional<std::uint16_t> slot,
                         std::initializer_list<std::string_view> words,
                         std::function<void(const redis::Reply* reply)> see) {
  ++pending_;
  redis::AskCommand& one =
      asks_.emplace_back([this, see = std::move(see)](const redis::Answer& answer) {
        if (timer_ == nullptr) return;  // stopped
        if (answer.failure == redis::Failure::kError) refuse(answer.text);
        see(answer.failure == redis::Failure::kNone ? answer.reply : nullptr);
        if (--pending_ == 0) finish();
      });
  one.slot = slot;
  for (const std::string_view word : words) one.append(word);
  client_->submit(one);
}

void RedisHealth::look() {
  asks_.clear();
  seen_.clear();
  if (target_->kind != redis::Target::Kind::kCluster) return ask(target_->shown, {});
  submit({}, {"CLUSTER", "SLOTS"}, [this](const redis::Reply* reply) {
    if (reply == nullptr) return;
    const auto map = redis::SlotMap::read(*reply, {});
    if (!map) return refuse(map.error());
    std::vector<std::uint16_t> slots = map->slot_of_each();
    slots.resize(std::min(slots.size(), kMostServers));
    for (const std::uint16_t slot : slots) {
      const redis::ServerAddress& master = map->masters()[map->owner_of(slot)];
      ask(master.host + ":" + std::to_string(master.port), slot);
    }
  });
}

void RedisHealth::ask(std::string name, std::optional<std::uint16_t> slot) {
  submit(slot, {"INFO"}, [this, name = std::move(name)](const redis::Reply* reply) {
    if (reply == nullptr) return;
    seen_.push_back(ServerInfo::read(reply->string()));
    seen_.back().name = name;
  });
}

void RedisHealth::refuse(std::string_view why) {
  const auto now = std::chrono::steady_clock::now();
  if (why == refused_ && now < next_line_) return;
  refused_ = why;
  next_line_ = now + kWarnEvery;
  log_.warning("Redis refuses to say how it is; the metrics sluice_redis_* are missing",
               {{"store", target_->shown}, {"why", why}});
}

// Waits for the next round.
void RedisHealth::finish() {
  {
    const std::lock_guard lock(mutex_);
    servers_.swap(seen_);
  }
  if (std::string found = trouble(); !found.empty() && found != warned_) {
    log_.warning(found);
    warned_ = std::move(found);
  }
  timer_->expires_after(every_);
  timer_->async_wait([this](const boost::system::error_code& why) {
    if (!why) look();
  });
}

std::vector<ServerInfo> RedisHealth::servers() const {
  const std::lock_guard lock(mutex_);
  return servers_;
}

std::string RedisHealth::trouble() const {
  const std::lock_guard lock(mutex_);
  for (const ServerInfo& server : servers_) {
    if (std::string found = server.trouble(); !found.empty()) return found;
  }
  return {};
}

void add_health_metrics(metrics::Registry& registry, const RedisHealth& health) {
  const auto add = [&](const char* name, const char* help,
                       std::optional<std::uint64_t> ServerInfo::* value) {
    registry.add_rows(name, help, {"server"}, [&health, value] {
      std::vector<metrics::Registry::Row> rows;
      for (const ServerInfo& server : health.servers()) {
        const auto& number = server.*value;
        if (number) rows.push_back({{server.name}, static_cast<double>(*number)});
      }
      return rows;
    });
  };
  add("sluice_redis_memory_used_bytes", "Memory that the Redis server uses.",
      &ServerInfo::used_memory);
  add("sluice_redis_memory_max_bytes", "Its maxmemory; 0 if it has none.", &ServerInfo::max_memory);
  add("sluice_redis_commands_total", "Commands that it has executed.", &ServerInfo::commands);
  add("sluice_redis_evicted_keys_total", "Keys that it has evicted.", &ServerInfo::evicted_keys);
  add("sluice_redis_replicas", "Replicas that are connected to it.", &ServerInfo::replicas);
  add("sluice_redis_replication_lag_bytes", "Bytes that its slowest replica is behind.",
      &ServerInfo::lag_bytes);
  add("sluice_redis_replication_lag_seconds", "Time since its most silent replica has reported.",
      &ServerInfo::lag_seconds);
}

namespace {

void add_requests(metrics::Registry& registry, const std::function<RedisStoreStats()>& stats) {
  using Stats = RedisStoreStats;
  registry.add_stats(
      stats,
      {{"sluice_store_asked_total", "Requests to the store.", &Stats::requests},
       {"sluice_store_timeouts_total",
        "Requests to the store without an answer within the deadline.", &Stats::timeouts},
       {"sluice_store_errors_total",
        "Requests that could not be sent or were answered with an error.", &Stats::errors},
       {"sluice_store_redirects_total", "MOVED and ASK replies of a cluster.", &Stats::redirects},
       {"sluice_store_given_back_total",
        "Requests over several slots that were undone because one slot denied or failed.",
        &Stats::gave_back},
       {"sluice_store_connections", "Connections to the store that are ready.", &Stats::connected},
       {"sluice_store_pending", "Requests that wait for an answer of the store.",
        &Stats::pending}});
}

void add_leases(metrics::Registry& registry, const Leases& leases) {
  registry.add_stats<LeaseStats>(
      [&leases] { return leases.stats(); },
      {{"sluice_lease_local_total", "Requests that leases admitted without asking the store.",
        &LeaseStats::local},
       {"sluice_lease_batches_total", "Batches of units that leases took from the store.",
        &LeaseStats::batches},
       {"sluice_lease_units_taken_total", "Units of these batches.", &LeaseStats::taken},
       {"sluice_lease_units_given_back_total",
        "Units that leases did not use and gave back to the store.", &LeaseStats::given_back},
       {"sluice_lease_counters", "Counters with a lease.", &LeaseStats::held}});
}

}  // namespace

void add_store_metrics(metrics::Registry& registry, const StoreLog& events,
                       const CircuitBreaker& breaker, const Leases& leases,
                       const std::function<RedisStoreStats()>& stats, const DenyCache* deny_cache,
                       const std::function<metrics::DurationCounts()>& durations) {
  add_requests(registry, stats);
  registry.add_histogram("sluice_store_duration_seconds",
                         "Time from a request to the store to its answer or its failure.",
                         durations);
  add_leases(registry, leases);
  registry.add_rows(
      "sluice_store_events_total", "Events of the store, by kind.", {"event"}, [&events] {
        std::vector<metrics::Registry::Row> rows;
        for (std::size_t i = 0; i < kStoreEventKinds; ++i) {
          const auto kind = static_cast<StoreEventKind>(i);
          rows.push_back({{std::string(to_string(kind))}, static_cast<double>(events.count(kind))});
        }
        return rows;
      });
  registry.add(
      "sluice_store_breaker_open", "1 while the circuit breaker is open, otherwise 0.",
      [&breaker] { return breaker.state() == CircuitBreaker::State::kClosed ? 0.0 : 1.0; });
  registry.add("sluice_store_not_asked_total",
               "Requests that were decided without the store because the circuit breaker was open.",
               [&breaker] { return static_cast<double>(breaker.refused()); });
  registry.add("sluice_deny_cache_hits_total", "Requests denied by the deny cache.", [deny_cache] {
    return deny_cache != nullptr ? static_cast<double>(deny_cache->hits()) : 0.0;
  });
}

void add_memory_metrics(metrics::Registry& registry,
                        const std::function<MemoryStoreStats()>& stats) {
  using Stats = MemoryStoreStats;
  registry.add_stats(
      stats, {{"sluice_store_keys", "Counters in the memory store.", &Stats::keys},
              {"sluice_store_log_bytes", "Bytes of window logs and slices.", &Stats::log_bytes},
              {"sluice_store_evictions_total",
               "Counters in use that were evicted because of a bound.", &Stats::evictions},
              {"sluice_store_freed_keys_total", "Blocked keys that were freed because of a bound.",
               &Stats::freed_keys},
              {"sluice_store_swept_total",
               "Counters that were deleted because they were fully replenished.", &Stats::swept},
              {"sluice_store_merged_logs_total",
               "Times that a window log was merged into slices because it did not fit.",
               &Stats::merged_logs}});
}

namespace {

LogLevel level_of(StoreEventKind kind) noexcept {
  using enum StoreEventKind;
  if (kind == kBreakerOpened) return LogLevel::kError;
  const bool is_failure =
      kind == kConnectionLost || kind == kConnectFailed || kind == kRequestFailed;
  return is_failure ? LogLevel::kWarning : LogLevel::kInfo;
}

// In the order of the enumerators.
constexpr auto kEventTexts = std::to_array<std::string_view>({
    "connected to the store",
    "a connection to the store was lost",
    "cannot connect to the store",
    "the topology of the store has changed",
    "the store answered with an error",
    "a script was sent to the store, which did not have it",
    "the circuit breaker has opened; policies decide without the store",
    "one request probes the store",
    "the circuit breaker has closed; the store decides again",
});
static_assert(kEventTexts.size() == kStoreEventKinds);

// Says in plain words why a store fails, as far as the event says.
std::string cause_of(const StoreEvent& event) {
  const std::string where = event.endpoint.empty() ? "" : " at " + std::string(event.endpoint);
  const std::string why = event.why.empty() ? "" : ": " + std::string(event.why);
  if (event.kind == StoreEventKind::kConnectionLost) {
    return "the connection to Redis" + where + " broke" + why;
  }
  if (event.kind == StoreEventKind::kRequestFailed) {
    return "Redis" + where + " answers with an error" + why;
  }
  if (event.why.find("onnection refused") != event.why.npos) {
    return "Redis" + where + " refuses connections";
  }
  return "Redis" + where + " cannot be used" + why;
}

// Whether a server answers so to all requests that change something.
bool is_refusal(std::string_view error) {
  constexpr std::array<std::string_view, 7> kRefusals = {
      "NOREPLICAS", "READONLY", "MISCONF", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "BUSY"};
  return std::ranges::find(kRefusals, base::take_until(error, ' ')) != kRefusals.end();
}

}  // namespace

void SlowRequests::add(const metrics::DurationCounts& all, std::uint64_t timeouts, Instant now) {
  constexpr std::size_t kFast = 14;  // buckets, up to 2^13 µs
  Sample sample{.timeouts = timeouts};
  for (std::size_t i = 0; i < all.buckets.size(); ++i) {
    sample.all += all.buckets[i];
    if (i >= kFast) sample.slow += all.buckets[i];
  }
  samples_.push_back(sample);
  if (samples_.size() > kSamples) samples_.pop_front();
  const std::uint64_t slow = sample.slow - samples_.front().slow;
  const std::uint64_t asked = sample.all - samples_.front().all;
  if (slow < 10 || slow * 100 <= asked) {
    since_.reset();
    return why_.clear();
  }
  if (!since_) since_ = now;
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(),
                "%.1f %% of %" PRIu64 " requests within a minute took more than 8 ms",
                100.0 * static_cast<double>(slow) / static_cast<double>(asked), asked);
  why_ = text.data();
  if (const std::uint64_t late = timeouts - samples_.front().timeouts; late > 0) {
    why_ += "; " + std::to_string(late) + " had no answer in time and were decided without it";
  }
}

constexpr std::chrono::minutes kFullFor{1};
constexpr std::chrono::seconds kShortest{1};  // of outages that have not opened the breaker
constexpr std::chrono::seconds kApart{10};    // sooner after its end, a failure continues an outage

Instant StoreLog::from(Instant start) const {
  const bool continues = last_outage_ && start - last_outage_->to < kApart;
  return continues ? std::min(start, last_outage_->from) : start;
}

void StoreLog::begin(Duration lasted) {
  const Instant start = std::min(date_.now() - lasted, owes_since_.value_or(Instant::max()));
  failing_since_ = std::min(from(start), failing_since_.value_or(Instant::max()));
}

// Notes that a master of a cluster refuses, with mutex_ held. The breaker may stay closed.
void StoreLog::refuse() {
  const Instant now = date_.now();
  if (!refused_ || now - *refused_ > kApart) refusing_since_ = now;
  refused_ = now;
  if (failing_since_ || now - refusing_since_ < kShortest) return;
  last_outage_ = {from(refusing_since_), now, cause_};
}

void StoreLog::owe(std::optional<Instant> since) {
  const std::lock_guard lock(mutex_);
  if (since) since = std::max(*since, answered_);
  owe_locked(since);
}

bool StoreLog::owes() const {
  const std::lock_guard lock(mutex_);
  return owes_since_ && date_.now() - *owes_since_ > Duration{kSilent} / 4;
}

void StoreLog::answered() {
  const std::lock_guard lock(mutex_);
  answered_ = date_.now();
  owe_locked({});
}

void StoreLog::owe_locked(std::optional<Instant> since) {
  const auto before = std::exchange(owes_since_, since);
  if (since && failing_since_) failing_since_ = std::min(*failing_since_, *since);
  if (since || !before || failing_since_) return;
  const Instant now = date_.now();
  if (now - *before < kSilent) return;
  // Where it ends an outage that events have noted, only the end is new.
  const bool is_known = last_outage_ && *before <= last_outage_->to;
  last_outage_ = {from(*before), now, is_known ? last_outage_->why : silent_};
}

// Ends the failure of the server or the breaker of this event, and the outage if none is left.
void StoreLog::end(const StoreEvent& event, std::optional<Duration>& lasted) {
  const bool closes = event.kind == StoreEventKind::kBreakerClosed;
  if (closes) is_open_ = false;
  lost_.erase(std::string(event.endpoint));
  if (is_open_) return;  // until a probe has succeeded
  const Instant now = std::max(failing_since_.value_or(Instant{}), date_.now());
  if (failing_since_ && closes) lasted = now - *failing_since_;
  if (!lost_.empty()) return;
  if (failing_since_ && (closes || now - *failing_since_ >= kShortest)) {
    last_outage_ = {*failing_since_, now, cause_};
  }
  failing_since_.reset();
  cause_.clear();
}

// Returns the cause of a breaker that has opened, else an empty text. Sets how long the store
// failed that works again.
std::string StoreLog::note(const StoreEvent& event, std::optional<Duration>& lasted) {
  using enum StoreEventKind;
  const std::lock_guard lock(mutex_);
  switch (event.kind) {
    case kConnectFailed:
    case kConnectionLost:
      begin();
      cause_ = cause_of(event);
      if (is_cluster_) lost_.emplace(event.endpoint);
      return {};
    case kRequestFailed:
      if (event.why.starts_with("STOREFULL") || event.why.starts_with("OOM")) {
        const Instant now = date_.now();
        if (!full_ || now - *full_ > kFullFor) full_since_ = now;
        full_ = now;
      }
      cause_ = cause_of(event);
      if (is_cluster_ && is_refusal(event.why)) refuse();
      return {};
    case kBreakerOpened:
      is_open_ = true;
      // Without a connection that failed, requests that got no answer have opened it.
      if (!failing_since_ && event.why.ends_with(to_string(Reason::kStoreTimeout))) cause_.clear();
      begin(event.lasted);
      if (cause_.empty()) cause_ = silent_;
      return cause_;
    case kTopologyChanged:
      if (!is_cluster_) return {};
      lost_.clear();  // those that are masters still fail again
      refused_.reset();
      [[fallthrough]];
    case kBreakerClosed:
    case kConnected: end(event, lasted); return {};
    case kScriptLoaded:
    case kBreakerProbing: break;
  }
  return {};
}

std::optional<Instant> StoreLog::full_since() const {
  const std::lock_guard lock(mutex_);
  return full_ && date_.now() - *full_ <= kFullFor ? full_since_ : std::nullopt;
}

std::optional<PastOutage> StoreLog::last_outage() const {
  const std::lock_guard lock(mutex_);
  return last_outage_;
}

std::optional<StoreLog::Failing> StoreLog::failing() const {
  const std::lock_guard lock(mutex_);
  const bool is_silent = owes_since_ && date_.now() - *owes_since_ > kSilent;
  if (failing_since_) return Failing{*failing_since_, cause_, is_silent, !lost_.empty()};
  const bool is_refusing = refused_ && last_outage_ && last_outage_->to == *refused_ &&
                           date_.now() - *refused_ <= kApart;
  if (is_refusing && !is_silent) return Failing{last_outage_->from, last_outage_->why, false, true};
  if (!is_silent) return std::nullopt;
  return Failing{from(*owes_since_), silent_, true};
}

void StoreLog::on(const StoreEvent& event) noexcept {
  const auto index = static_cast<std::size_t>(event.kind);
  if (index >= kinds_.size()) return;
  Kind& kind = kinds_[index];
  kind.count.fetch_add(1, std::memory_order_relaxed);
  std::optional<Duration> lasted;
  const std::string cause = note(event, lasted);
  const LogLevel level = level_of(event.kind);
  if (level < log_.options().level) return;
  if (!kind.lines.admit(clock_.now().time_since_epoch() / kEvery)) return;
  std::vector<LogField> fields{{"event", to_string(event.kind)}};
  if (!event.endpoint.empty()) fields.emplace_back("endpoint", event.endpoint);
  if (!event.why.empty()) fields.emplace_back("why", event.why);
  if (!cause.empty()) fields.emplace_back("cause", cause);
  if (lasted) {
    fields.emplace_back("lasted_ms",
                        std::chrono::floor<std::chrono::milliseconds>(*lasted).count());
  }
  const std::uint64_t suppressed = kind.lines.take_suppressed();
  if (suppressed > 0) fields.emplace_back("suppressed", suppressed);
  log_.write_all(level, kEventTexts[index], fields);
}

std::uint64_t StoreLog::count(StoreEventKind kind) const noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return index < kinds_.size() ? kinds_[index].count.load(std::memory_order_relaxed) : 0;
}

}  // namespace sluice::server
