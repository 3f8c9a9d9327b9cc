// `sluice serve` from start to end: reads rules and overrides, opens the store, starts the event
// loops and front ends, and hands sockets over to a successor. The main thread then runs
// administration, the watching of files, signals and the questions about the health of Redis, until
// it drains the loops and ends.

#include "server/runtime/server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/period.h"
#include "metrics/metrics.h"
#include "server/api/quota/quota_server.h"
#include "server/config/config.h"
#include "server/logging/denial_log.h"
#include "server/logging/log.h"
#include "server/logging/traffic_log.h"
#include "server/net/loop_clock.h"
#include "server/net/loop_front_end.h"
#include "server/net/readiness.h"
#include "server/otlp/exporter.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/redis_rules.h"
#include "server/rules/rules_manager.h"
#include "server/rules/server_overrides.h"
#include "server/runtime/front_ends.h"
#include "server/runtime/handover.h"
#include "server/runtime/loop.h"
#include "server/storage/stores.h"
#include "sluice/expected.h"
#include "sluice/overrides.h"
#include "sluice/permit_id.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

// All rules of a server: its own, from files or from Redis, and those from Envoy's files.
//
// Thread-safety: one thread only; the managers from any thread.
class ServerRules {
 public:
  using Reloaded = Expected<bool, RulesManager::Errors>;

  // Reads the rules. Errors: one line for each.
  static Expected<ServerRules> open(const Config& config);

  RulesManager& manager() const noexcept { return *manager_; }
  EnvoyManager& envoy() const noexcept { return *envoy_; }
  // Logs the warnings about the active rules.
  bool only_built_in() const { return manager_->built_in() && !envoy_->has_files(); }

  // Reads all files again and logs the result. Returns whether any rules changed. If there are
  // errors, returns all of them and keeps the active rules.
  Reloaded reload(Log& log);
  // Adds errors of other files that were read with the rules.
  static void add_errors(Reloaded& result, RulesManager::Errors errors);
  // Returns whether files have changed since they were read. Call it about twice a second.
  bool changed_on_disk();
  // Returns whether the active rules have changed since the last call.
  bool changed();
  // Follows the rules in Redis, if they are there. Calls `changed` after each change.
  void follow_pushes(boost::asio::io_context& loop, Log& log, std::function<void()> changed);
  // Pushes rules if they are in Redis. Call it on a fiber of that loop.
  Expected<PushedRules::Pushed, PushFailure> push(const std::vector<RulesText>& before,
                                                  std::vector<RulesText> texts, std::string by,
                                                  bool replaces);
  // Ends that. Call it before the loop is destroyed.
  void stop_following() noexcept { pushed_.reset(); }

 private:
  void reload_envoy(Log& log, Reloaded& result);

  std::unique_ptr<RulesManager> manager_;
  std::unique_ptr<EnvoyManager> envoy_;
  std::unique_ptr<PushedRules> pushed_;  // null: the rules are in files
  std::uint64_t followed_version_ = 1;
  std::uint64_t followed_envoy_ = 1;
};

// Reports the state of the process ("READY=1") to the service manager by the protocol of
// sd_notify(3). Does nothing if there is no service manager (NOTIFY_SOCKET is not set). Does not
// report errors, because no caller could act on them.
void notify_manager(std::string_view state) noexcept;

namespace {

// Files that are open for a short time: rules, certificates, tokens, name resolution.
constexpr std::size_t kFiles = 32;
// Connections of a loop to the servers of Redis.
constexpr std::size_t kToRedis = 16;
constexpr std::size_t kForAdministration = 16;
// The fewest connections of each kind, if the limit is too low for anything else.
constexpr std::size_t kLeast = 8;
// More connections suffice for a gateway, so that a low limit is only worth a warning if someone
// has asked for more.
constexpr std::size_t kMany = 1000;

}  // namespace

DescriptorPlan plan_descriptors(const DescriptorPlan::Needs& needs) {
  const std::size_t others = needs.open + kFiles + (needs.redis ? (needs.loops + 1) * kToRedis : 0);
  const std::size_t left = needs.limit > others ? needs.limit - others : 0;
  DescriptorPlan plan{.connections = std::max(left, 2 * kLeast), .reserve = 0, .warning = {}};
  plan.reserve = std::clamp(plan.connections / 4, kLeast, kForAdministration);
  const std::size_t served = plan.connections - plan.reserve;
  if (served < needs.connections && (needs.chosen || served < kMany)) {
    plan.warning = "the limit of " + std::to_string(needs.limit) + " open files is enough for " +
                   std::to_string(served) + " connections, but bounds.connections allows " +
                   std::to_string(needs.connections) +
                   " on all listeners together; raise the limit (ulimit -n, LimitNOFILE) to " +
                   std::to_string(others + needs.connections + kForAdministration);
  }
  return plan;
}

std::size_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  if (limit.rlim_cur == limit.rlim_max) return limit.rlim_cur;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

std::size_t count_open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

namespace {

std::vector<metrics::Registry::Row> envoy_rows(const EnvoyManager& envoy) {
  std::vector<metrics::Registry::Row> rows;
  for (const auto& [name, cells] : envoy.counted()) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      rows.push_back(
          {{name, std::string(EnvoyFiles::kCellNames[i])}, static_cast<double>(cells[i])});
    }
  }
  return rows;
}

double number(std::uint64_t value) { return static_cast<double>(value); }

// Ownership: the registry borrows the rules.
void add_rule_metrics(metrics::Registry& registry, const RulesManager& rules,
                      const EnvoyManager& envoy) {
  registry.add("sluice_rules_version",
               "Version of the active rules: 1 at the start; increases with every change.",
               [&rules] { return number(rules.version()); });
  registry.add("sluice_rules_reloads_total", "Reloads that changed the rules.", [&rules, &envoy] {
    return number(rules.status().reloads + envoy.status().reloads);
  });
  registry.add(
      "sluice_rules_reload_failures_total", "Rejected reloads; the previous rules stayed active.",
      [&rules, &envoy] { return number(rules.status().failures + envoy.status().failures); });
  registry.add("sluice_rules_last_reload_successful",
               "0 if the last reload of the rules failed, 1 otherwise.", [&rules, &envoy] {
                 const RulesStatus now = rules.status();
                 const bool right = now.last_errors.empty() && !now.older_since &&
                                    envoy.status().last_errors.empty();
                 return right ? 1. : 0.;
               });
  registry.add_rows("sluice_envoy_decisions_total",
                    "Decisions by the limits of Envoy files, for each descriptor.",
                    {"descriptor", "outcome"}, [&envoy] { return envoy_rows(envoy); });
}

}  // namespace

// Adds the metrics of recorded requests. Ownership: the registry borrows the log.
void add_traffic_metrics(metrics::Registry& registry, const TrafficLog& traffic) {
  using Stats = TrafficLog::Stats;
  registry.add_stats<Stats>(
      [&traffic] { return traffic.stats(); },
      {{"sluice_recorded_requests_total", "Requests that were recorded.", &Stats::lines},
       {"sluice_recorded_bytes_total", "Bytes of recorded requests.", &Stats::bytes},
       {"sluice_recorded_dropped_total",
        "Requests that were to be recorded, but were too many, too long, or could not be written.",
        &Stats::dropped},
       {"sluice_recorded_rotations_total",
        "Times that the file of recorded requests was full and a new one began.",
        &Stats::rotations}});
}

// Adds the metrics of what is sent to OpenTelemetry. Ownership: the registry borrows the exporter.
void add_otlp_metrics(metrics::Registry& registry, const OtlpExporter& otlp) {
  using Stats = OtlpExporter::Stats;
  registry.add_stats<Stats>(
      [&otlp] { return otlp.stats(); },
      {{"sluice_otlp_spans_total", "Spans that the receiver has accepted.", &Stats::spans},
       {"sluice_otlp_spans_dropped_total",
        "Spans that were dropped, because too many waited or the receiver refused them.",
        &Stats::dropped},
       {"sluice_otlp_errors_total",
        "Messages of spans or metrics that the receiver refused or did not answer.",
        &Stats::errors}});
}

// Adds the metrics of quotas. Ownership: the registry borrows the server.
void add_quota_metrics(metrics::Registry& registry, const QuotaServer& quota) {
  registry.add_stats<QuotaStats>(
      [&quota] { return quota.stats(); },
      {{"sluice_quota_proxies", "Streams of proxies that have parts of limits.",
        &QuotaStats::proxies},
       {"sluice_quota_buckets", "Buckets that proxies report.", &QuotaStats::buckets},
       {"sluice_quota_not_renewed_limits", "Limits whose assignments the store could not renew.",
        &QuotaStats::not_renewed},
       {"sluice_quota_reports_total", "Reports of buckets.", &QuotaStats::reports},
       {"sluice_quota_assigned_units_total", "Units of limits that were taken for proxies.",
        &QuotaStats::assigned},
       {"sluice_quota_used_units_total", "Units that proxies reported as used.", &QuotaStats::used},
       {"sluice_quota_wasted_units_total",
        "Units that a proxy could have used since its report before, and did not.",
        &QuotaStats::wasted},
       {"sluice_quota_reassignments_total", "Assignments that differ from the one before.",
        &QuotaStats::reassignments}});
}

namespace {

Expected<std::shared_ptr<const redis::Target>> redis_target(const Config& config) {
  const auto options = redis_options(config);
  if (!options) return Unexpected{options.error()};
  return redis::make_target(*options);
}

Expected<std::unique_ptr<PushedRules>> open_pushed(const Config& config) {
  auto target = redis_target(config);
  if (!target) return Unexpected{target.error()};
  Log log(config.log);  // the server has none yet
  return PushedRules::open({.target = std::move(*target),
                            .key = rules_key(config.redis),
                            .cache = config.redis.rules_cache},
                           log, rule_terms(config));
}

}  // namespace

// The overrides of a server: in a file, or in Redis if the counters are there. Errors: one line.
Expected<std::unique_ptr<ServerOverrides>> open_overrides(const Config& config) {
  if (kind_of(config) != StoreKind::kRedis) return ServerOverrides::open(overrides_path(config));
  auto target = redis_target(config);
  if (!target) return Unexpected{target.error()};
  auto overrides = std::make_unique<RedisOverrides>(std::move(*target));
  overrides->read_all();
  return Expected<std::unique_ptr<ServerOverrides>>(std::move(overrides));
}

Expected<ServerRules> ServerRules::open(const Config& config) {
  ServerRules rules;
  const RuleTerms terms = rule_terms(config);
  if (config.rules_in_redis) {
    auto pushed = open_pushed(config);
    if (!pushed) return Unexpected{pushed.error()};
    rules.pushed_ = std::move(*pushed);
    rules.manager_ = rules.pushed_->take_manager();
  } else {
    auto manager = RulesManager::open(config.rules, SystemClock::instance(), terms);
    if (!manager) return Unexpected{error_lines(manager.error())};
    rules.manager_ = std::move(*manager);
  }
  auto envoy = EnvoyManager::open(config.envoy, terms);
  if (!envoy) return Unexpected{error_lines(envoy.error())};
  rules.envoy_ = std::move(*envoy);
  static_cast<void>(rules.changed());
  return rules;
}

ServerRules::Reloaded ServerRules::reload(Log& log) {
  auto result = manager_->reload();
  if (!result) {
    for (const RuleError& error : result.error()) {
      log.error("the active rules are unchanged", {{"why", error.to_string()}});
    }
  } else {
    log.info(*result ? "new rules are active" : "the rules did not change",
             {{"version", manager_->version()}, {"rules", manager_->status().rules}});
    if (const std::string undone = manager_->status().undone_text(); *result && !undone.empty()) {
      log.warning("the files have undone changes of the administration", {{"undone", undone}});
    }
  }
  reload_envoy(log, result);
  return result;
}

void ServerRules::reload_envoy(Log& log, Reloaded& result) {
  auto read = envoy_->reload();
  if (read) {
    if (*read) log.info("new Envoy files are active", {{"version", envoy_->version()}});
    if (*read && result) result = true;
    return;
  }
  for (const RuleError& error : read.error()) {
    log.error("the active Envoy files are unchanged", {{"why", error.to_string()}});
  }
  add_errors(result, std::move(read.error()));
}

void ServerRules::add_errors(Reloaded& result, RulesManager::Errors errors) {
  if (errors.empty()) return;
  if (!result) errors.insert(errors.begin(), result.error().begin(), result.error().end());
  result = Unexpected{std::move(errors)};
}

bool ServerRules::changed_on_disk() {
  const bool rules = manager_->changed_on_disk();
  return envoy_->changed_on_disk() || rules;
}

bool ServerRules::changed() {
  const std::uint64_t version = manager_->version();
  const std::uint64_t envoy = envoy_->version();
  const bool same = std::exchange(followed_version_, version) == version;
  return std::exchange(followed_envoy_, envoy) != envoy || !same;
}

Expected<PushedRules::Pushed, PushFailure> ServerRules::push(const std::vector<RulesText>& before,
                                                             std::vector<RulesText> texts,
                                                             std::string by, bool replaces) {
  if (!pushed_) return PushedRules::Pushed{};
  return pushed_->push(before, std::move(texts), std::move(by), replaces);
}

void ServerRules::follow_pushes(boost::asio::io_context& loop, Log& log,
                                std::function<void()> changed) {
  if (pushed_) pushed_->follow(loop, *manager_, log, std::move(changed));
}

void notify_manager(std::string_view state) noexcept {
  const char* const path = std::getenv("NOTIFY_SOCKET");  // NOLINT: nobody sets it meanwhile
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  const std::size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';  // in the abstract namespace
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  static_cast<void>(::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                             reinterpret_cast<const sockaddr*>(&address), length));
  ::close(socket);
}

// Reports "RELOADING=1" with the time, which the protocol requires.
void notify_reloading(net::SteadyTime now) noexcept {
  const auto since = std::chrono::floor<std::chrono::microseconds>(now.time_since_epoch());
  char text[64];
  const int size = std::snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld",
                                 static_cast<long long>(since.count()));
  notify_manager({text, static_cast<std::size_t>(size)});
}

namespace {

using boost::system::error_code;

constexpr auto kChangeCheck = std::chrono::milliseconds(500);
constexpr auto kCollectKeys = std::chrono::milliseconds(500);
constexpr std::size_t kKeysAtOnce = 64;  // limits and loops: some ms

insight::TopKeysOptions top_keys_options(const Config& config) {
  return {.keys = config.log.keys == LogKeys::kNone ? 0 : config.top_keys,
          .loops = count_loops(config.threads),
          .hashed = config.log.keys == LogKeys::kHash};
}

bool has_chosen_bounds(const Config& config) {
  return config.bounds.connections != Bounds{}.connections;
}

constexpr std::array kWithoutEffect = {SIGUSR1, SIGUSR2, SIGALRM, SIGIO, SIGPROF, SIGVTALRM};

bool is_real_time(int signal) { return signal >= SIGRTMIN && signal <= SIGRTMAX; }

bool has_no_effect(int signal) {
  return is_real_time(signal) ||
         std::find(kWithoutEffect.begin(), kWithoutEffect.end(), signal) != kWithoutEffect.end();
}

// Lets the signals that end no server wait while there is none to take them.
void hold_signals(int how) {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGHUP);
  for (const int signal : kWithoutEffect) sigaddset(&held, signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(&held, signal);
  pthread_sigmask(how, &held, nullptr);
}

class Server {
 public:
  Server(const Config& config, ServerRules rules, std::unique_ptr<ServerOverrides> overrides,
         TrustedProxies trusted, AdminToken token);

  Status open();
  std::string ready_line() const { return front_ends_.ready_line(); }
  std::string hint() const;
  int run();

 private:
  void warn_about_overrides();
  AdminEndpoint admin_parts();
  Status open_otlp();
  void add_metrics();
  Session::Parts session_parts(LoopStores* stores);
  void start_loops(std::size_t threads);
  void start_quota(Loop& loop);
  void wait_for_signal();
  void check_for_changes();
  ServerRules::Reloaded reload();
  ServerStatus status();
  void follow_shared_overrides();
  void follow_rules();
  void follow_overrides();
  void end_temporary_changes();
  void collect_keys();
  bool keep_overrides();
  std::vector<int> descriptors_to_give();
  void log_lost_changes();
  void hand_over();
  // The end (docs/config.md): closes the listeners, lets the connections finish, and stops
  // `main_`.
  void drain();
  void close_listeners(net::Queued queued);
  std::string connections_by_listener() const;
  void cut(std::string_view why);
  void stop();

  const net::LoopClock& clock_ = net::LoopClock::system();
  const Config config_;
  Log log_;
  ServerRules rules_;
  const std::unique_ptr<ServerOverrides> overrides_;
  std::atomic<std::uint64_t> overrides_lost_{0};  // by Redis, while this server knew them
  OverridesLost lost_overrides_;                  // used by the main thread
  const TrustedProxies trusted_;
  AdminToken token_;
  std::unique_ptr<Stores> stores_;
  metrics::Registry registry_;
  DenialLog denials_;
  std::unique_ptr<TrafficLog> traffic_;    // null: requests are not recorded
  std::deque<TrafficRecorder> recorders_;  // of the loops
  std::unique_ptr<OtlpExporter> otlp_;     // null: nothing is sent to OpenTelemetry
  insight::TopKeys top_keys_;
  RecentRequests recent_{count_loops(config_.threads)};
  net::Readiness ready_;
  const net::SteadyTime started_ = clock_.now();
  net::DescriptorBudget descriptors_;
  LiveEvents events_{registry_, rules_.manager(), [this] { return status(); }, clock_};

  const std::shared_ptr<QuotaServer> quota_ = std::make_shared<QuotaServer>(
      config_.quota, rules_.manager(), log_, rule_terms(config_).scripting);
  FrontEnds front_ends_;
  Loop main_;  // runs the administration and the timers, in the thread of run()
  boost::asio::signal_set signals_{main_.context()};
  boost::asio::steady_timer change_timer_{main_.context()};
  boost::asio::steady_timer keys_timer_{main_.context()};
  net::SteadyTime::duration keys_took_{0};       // of the parts since keys_timer_
  detail::Waits waits_{config_.bounds.waiting};  // of all loops
  std::deque<Loop> loops_;
  boost::asio::steady_timer shutdown_timer_{main_.context()};
  bool is_ending_ = false;
  bool was_told_to_end_ = false;  // by a signal
  bool has_handed_over_ = false;
  Handover handover_{main_.context(), log_, [this] { return descriptors_to_give(); },
                     [this] { hand_over(); }, [this] { return stores_->snapshot_lock() >= 0; }};
  // Destroyed first, because the metrics borrow the other members.
  MetricsWorker metrics_worker_{registry_};
};

Server::Server(const Config& config, ServerRules rules, std::unique_ptr<ServerOverrides> overrides,
               TrustedProxies trusted, AdminToken token)
    : config_(config),
      log_(config.log),
      rules_(std::move(rules)),
      overrides_(std::move(overrides)),
      trusted_(std::move(trusted)),
      token_(std::move(token)),
      denials_(log_),
      top_keys_(top_keys_options(config_), denials_.key_hash()),
      front_ends_({config_,
                   log_,
                   rules_.envoy(),
                   trusted_,
                   {registry_, ready_, &metrics_worker_},
                   ready_,
                   clock_,
                   descriptors_,
                   overrides_.get(),
                   &top_keys_,
                   quota_.get(),
                   &main_},
                  [this] { return admin_parts(); }) {
  if (!config_.found_file.empty()) {
    log_.info("the configuration is a file of the current folder, because there is no --config",
              {{"file", config_.found_file}});
  }
  if (!token_.warning().empty()) log_.warning(token_.warning());
  for (const auto& warning : rules_.manager().new_warnings()) log_.warning(warning);
  warn_about_overrides();
  for (const int signal : {SIGTERM, SIGINT, SIGPWR, SIGHUP}) signals_.add(signal);
  for (const int signal : kWithoutEffect) signals_.add(signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    boost::system::error_code reserved;  // by a tool that runs the server, such as valgrind
    signals_.add(signal, reserved);
  }
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes returns an error
}

// Before somebody needs a block, and has none.
void Server::warn_about_overrides() {
  const std::string& file = overrides_->path();
  const std::string folder = std::filesystem::path(file).parent_path().string();
  if (file.empty() || ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return;
  log_.warning("overrides and blocks cannot be set; expected `overrides: FILE` in another folder",
               {{"file", file}, {"why", std::generic_category().message(errno)}});
}

AdminEndpoint Server::admin_parts() {
  const auto done = [this](std::string_view what, std::string_view peer) {
    log_.info("administration", {{"what", what}, {"peer", peer}});
    follow_rules();
  };
  const auto push = [this](const auto& before, auto texts, auto by, bool replaces) {
    return rules_.push(before, std::move(texts), std::move(by), replaces);
  };
  const auto find_blocks = [this](std::size_t most) {
    return stores_->find_blocks(main_.stores(), most);
  };
  return {.rules = rules_.manager(),
          .limiter = main_.session().limiter,
          .token = token_,
          .status = [this] { return status(); },
          .reload = [this] { return reload(); },
          .done = done,
          .overrides = overrides_.get(),
          .lost = &lost_overrides_,
          .local = main_.session().stores.local,
          .push = push,
          .find_blocks = find_blocks,
          .read_ledger =
              [this](const LedgerReplay::See& see) {
                return stores_->read_ledger(main_.stores(), see);
              },
          .top_keys = &top_keys_,
          .denials = &denials_,
          .events = &events_,
          .recent = &recent_,
          .quota = config_.grpc == "off" ? std::function<std::string()>()
                                         : [this] { return quota_->json(); }};
}

void Server::add_metrics() {
  stores_->add_metrics(registry_);
  if (traffic_) add_traffic_metrics(registry_, *traffic_);
  if (otlp_) add_otlp_metrics(registry_, *otlp_);
  add_rule_metrics(registry_, rules_.manager(), rules_.envoy());
  registry_.add("sluice_log_lines_dropped_total", "Log lines that were not written.",
                [this] { return number(log_.dropped()); });
  front_ends_.add_metrics(registry_);
  registry_.add("sluice_waiting_requests", "Requests that wait for units (wait_ms).",
                [this] { return number(waits_.waiting()); });
  add_quota_metrics(registry_, *quota_);
  registry_.add("sluice_overrides", "Overrides of keys.",
                [this] { return number(overrides_->all().size()); });
  registry_.add("sluice_overrides_lost_total",
                "Overrides and blocks that Redis has lost with its data.",
                [this] { return number(overrides_lost_); });
  registry_.add("sluice_ready", "1 if /readyz reports ready, 0 otherwise.",
                [this] { return ready_ ? 1.0 : 0.0; });
}

// An endpoint of the environment, which may be meant for other programs, is no reason not to start.
Status Server::open_otlp() {
  const OtlpOptions options = otlp_options(config_);
  if (options.endpoint.empty()) return {};
  auto post = OtlpExporter::make_post(options);
  if (!post && !config_.otlp.endpoint.empty()) return Unexpected{"otlp: " + post.error()};
  if (!post) {
    log_.warning("nothing is sent to OpenTelemetry", {{"why", "the environment: " + post.error()}});
    return {};
  }
  const auto shown_key = [this](std::string_view key) { return denials_.shown_key(key); };
  otlp_ = std::make_unique<OtlpExporter>(
      options, OtlpExporter::Parts{registry_, log_, shown_key, *std::move(post)});
  return {};
}

Status Server::open() {
  auto stores = Stores::open(config_, log_);
  if (!stores) return Unexpected{stores.error()};
  stores_ = std::move(*stores);
  if (!config_.record.file.empty()) {
    auto traffic = TrafficLog::open(config_.record, log_);
    if (!traffic) return Unexpected{traffic.error()};
    traffic_ = std::move(*traffic);
  }
  if (auto opened = open_otlp(); !opened) return opened;
  add_metrics();
  const std::size_t threads = count_loops(config_.threads);
  auto inherited = handover_.inherit(config_.handover);
  if (!inherited) return Unexpected{inherited.error()};
  auto locked = stores_->lock_files(handover_.take_locks(), handover_.has_predecessor());
  if (!locked) return locked;
  auto opened = front_ends_.open(threads, *inherited);
  if (opened) {
    start_loops(threads);
    const auto plan = plan_descriptors({.limit = raise_descriptor_limit(),
                                        .open = count_open_descriptors(),
                                        .loops = threads,
                                        .redis = main_.stores() != nullptr,
                                        .connections = front_ends_.most_connections(),
                                        .chosen = has_chosen_bounds(config_)});
    descriptors_.set(plan.connections, plan.reserve);
    if (!plan.warning.empty()) log_.warning(plan.warning);
    const bool succeeds = handover_.has_predecessor();
    if (!succeeds) stores_->begin_files(net::FileDescriptor());
    ready_ = true;
    opened = handover_.succeed(config_.handover);
    if (opened && succeeds) stores_->begin_files(handover_.take_process());  // as it has left them
  }
  if (!opened && handover_.has_predecessor()) {
    front_ends_.keep_unix_sockets();  // it continues to serve
  }
  return opened;
}

// What every loop has.
Session::Parts Server::session_parts(LoopStores* stores) {
  return {stores != nullptr ? stores->limiter() : *stores_->limiter(), rules_.manager(),
          registry_.make_recorder(), denials_, rule_stores(stores, &overrides_->all())};
}

void Server::start_loops(std::size_t threads) {
  const bool hash_all = config_.log.keys != LogKeys::kPlain;
  for (std::size_t i = 0; i < threads; ++i) {
    Loop& loop = loops_.emplace_back();
    auto stores = stores_->make(loop.context());
    Session::Parts session = session_parts(stores.get());
    if (traffic_) session.traffic = &recorders_.emplace_back(*traffic_, denials_, hash_all);
    if (top_keys_.is_on()) session.keys = &top_keys_.make_recorder();
    session.waits = &waits_;
    session.recent = &recent_.make_lane();
    session.otlp = otlp_.get();
    loop.open(std::move(stores), session);
    front_ends_.start(loop, i);
    if (i == 0 && config_.grpc != "off") start_quota(loop);
  }
  auto stores = stores_->make(main_.context());
  const Session::Parts session = session_parts(stores.get());
  main_.open(std::move(stores), session);
  front_ends_.start_administration(main_);
}

// Quotas ask the store itself: a cached denial would lower all parts, and a lease hold units twice.
void Server::start_quota(Loop& loop) {
  const Session::Parts& parts = loop.session();
  Store& store = parts.stores.shadow != nullptr ? *parts.stores.shadow : parts.limiter.store();
  const StoreKind kind = kind_of(config_);
  ClaimShare claim_share;
  if (kind == StoreKind::kRedis) {
    claim_share =
        claim_in_redis(loop.redis(), config_.redis.options.prefix, PermitId::random_text());
  }
  loop.add(quota_->start(loop.context(), store, kind, &overrides_->all(), std::move(claim_share)));
}

std::string Server::hint() const {
  const std::string example = front_ends_.example();
  if (!rules_.only_built_in() || example.empty()) return {};
  return "No rules were given, so a built-in example is active (--rules FILE selects others).\n"
         "Try it, six times within a minute:\n  " +
         example;
}

void Server::follow_shared_overrides() {
  const auto on_trouble = [this](std::string_view why) {
    if (why.empty()) return log_.info("the overrides in Redis can be read again");
    log_.warning("the overrides in Redis cannot be read; the known ones count", {{"why", why}});
  };
  const auto on_lost = [this](ServerOverrides::Entries lost) {
    overrides_lost_ += lost.size();
    lost_overrides_.add(lost, SystemClock().now());
    log_.warning("overrides that this server knew are not in Redis any more, nor are blocks",
                 {{"count", lost.size()}});
  };
  overrides_->follow(main_.context(), on_trouble, on_lost);
}

int Server::run() {
  if (otlp_) otlp_->start();
  for (Loop& loop : loops_) loop.start();
  if (const std::string page = front_ends_.live_page(); !page.empty()) {
    log_.info("the live page shows what the server does", {{"url", page}});
  }
  wait_for_signal();
  check_for_changes();
  if (top_keys_.is_on()) collect_keys();
  rules_.follow_pushes(main_.context(), log_, [this] { follow_rules(); });
  follow_shared_overrides();
  stores_->follow(main_.context());
  notify_manager("READY=1");
  main_.run();
  stores_->stop_following();
  rules_.stop_following();
  overrides_->stop();
  for (Loop& loop : loops_) loop.stop();
  const bool overrides = keep_overrides();
  const bool counters = stores_->end_files();
  handover_.finish();  // a successor that waits for the counters
  if (otlp_) otlp_->stop();
  // From here on, a signal does not end the process with the signal's status, when nobody waits for
  // signals any more. Any other thread that is left blocks all signals.
  block_signals();
  if (overrides && counters) return 0;
  return has_handed_over_ ? kLostAtHandover : kLostAtEnd;
}

void Server::wait_for_signal() {
  signals_.async_wait([this](const error_code& why, int signal) {
    if (why) return;
    wait_for_signal();
    if (signal == SIGHUP) return static_cast<void>(reload());
    if (has_no_effect(signal)) {
      return log_.warning("a signal has no effect", {{"signal", ::strsignal(signal)}});
    }
    if (std::exchange(was_told_to_end_, true)) return cut("of a second signal");
    if (is_ending_) {
      return log_.info(
          "draining already, after the handover; another SIGTERM or Ctrl-C stops it now");
    }
    handover_.close();
    events_.end();
    drain();
  });
}

// Detects changed files, and rules that the administration has changed.
void Server::check_for_changes() {
  if (config_.watch && rules_.changed_on_disk()) static_cast<void>(reload());
  end_temporary_changes();
  follow_rules();
  follow_overrides();
  events_.tick();
  recent_.want(events_.is_watched());
  stores_->owe(overrides_->waits_since());
  stores_->look();
  if (main_.stores() != nullptr) main_.stores()->probe();
  change_timer_.expires_after(kChangeCheck);
  change_timer_.async_wait([this](const error_code& why) {
    if (!why) check_for_changes();
  });
}

ServerRules::Reloaded Server::reload() {
  notify_reloading(clock_.now());
  const auto changed = token_.reload();
  // In a turn of its own, because a request may have asked for the reload.
  if (changed && *changed) boost::asio::post(main_.context(), [this] { events_.end_current(); });
  auto errors = front_ends_.reload();
  if (!changed) {
    log_.error("the token is unchanged", {{"why", changed.error()}});
    errors.push_back({.file = config_.admin_token.file,
                      .what = "the token is unchanged: " + changed.error(),
                      .expected = {}});
  }
  auto result = rules_.reload(log_);
  ServerRules::add_errors(result, std::move(errors));
  follow_rules();
  notify_manager("READY=1");
  return result;
}

ServerStatus Server::status() {
  const auto up = clock_.now() - started_;
  ServerStatus out{.version = SLUICE_VERSION,
                   .uptime = std::chrono::duration_cast<std::chrono::seconds>(up),
                   .ready = ready_,
                   .draining = is_ending_,
                   .threads = loops_.size(),
                   .listeners = front_ends_.status(),
                   .store = stores_->status(),
                   .overrides_lost = lost_overrides_.update(overrides_->all(), SystemClock().now()),
                   .overrides_lost_first = lost_overrides_.first(),
                   .overrides_lost_at = lost_overrides_.at(),
                   .knows_overrides = overrides_->is_read(),
                   .stranger = trusted_.stranger(SystemClock().now()),
                   .proxies = quota_->stats().proxies};
  if (rules_.envoy().has_files()) out.envoy = rules_.envoy().status();
  return out;
}

void Server::follow_rules() {
  if (!rules_.changed()) return;
  for (Loop& loop : loops_) loop.follow_rules();
  for (const auto& warning : rules_.manager().new_warnings()) log_.warning(warning);
}

// Follows the file, which a server that hands over to this one, or its successor, may change.
void Server::follow_overrides() {
  const auto read = overrides_->reread();
  if (!read) log_.error("the overrides are unchanged", {{"why", read.error()}});
  overrides_->drop_ended(SystemClock().now());
  lost_overrides_.update(overrides_->all(), SystemClock().now());
}

void Server::end_temporary_changes() {
  const auto ended =
      rules_.manager().end_changes([now = SystemClock().now()](const TemporaryChange& change) {
        return change.until && *change.until <= now;
      });
  for (const TemporaryChange& change : ended) {
    log_.info("a temporary change of a rule has ended",
              {{"rule", change.place()}, {"key", change.name()}, {"was", change.value}});
  }
}

// Adds the keys that the loops have handed over to their history, in parts, because this thread
// also serves the administration; and spends at most a twentieth of its time on that.
void Server::collect_keys() {
  const auto start = clock_.now();
  const bool more = top_keys_.collect(rules_.manager().current(), kKeysAtOnce);
  keys_took_ += clock_.now() - start;
  if (more) return boost::asio::post(main_.context(), [this] { collect_keys(); });
  for (Loop& loop : loops_) loop.hand_over_keys();
  keys_timer_.expires_after(std::max<net::SteadyTime::duration>(kCollectKeys, 20 * keys_took_));
  keys_took_ = {};
  keys_timer_.async_wait([this](const error_code& why) {
    if (!why) collect_keys();
  });
}

bool Server::keep_overrides() {
  const auto kept = overrides_->keep();
  if (!kept) log_.error("could not save the latest overrides", {{"why", kept.error()}});
  return kept.has_value();
}

std::vector<int> Server::descriptors_to_give() {
  static_cast<void>(keep_overrides());
  std::vector<int> out = front_ends_.descriptors();
  if (const int lock = stores_->snapshot_lock(); lock >= 0) out.push_back(lock);
  return out;
}

// Another server has none of them: not the successor, nor the next start.
void Server::log_lost_changes() {
  for (const TemporaryChange& change : rules_.manager().status().temporary) {
    log_.warning("a temporary change of a rule ends with this server",
                 {{"rule", change.place()}, {"key", change.name()}, {"was", change.value}});
  }
}

// The successor has the sockets, so this server is not missed, and its health is not of interest.
void Server::hand_over() {
  log_lost_changes();
  main_.stop_accepting(net::Queued::kLeave, [] {});
  events_.end();
  is_ending_ = true;
  has_handed_over_ = true;
  log_.info("handed over", {{"connections", front_ends_.connections()}});
  front_ends_.keep_unix_sockets();
  close_listeners(net::Queued::kLeave);
}

// Ends the server after `drain.delay`, in which it still accepts, if a load balancer may need it.
void Server::drain() {
  log_lost_changes();
  is_ending_ = true;
  const std::size_t connections = front_ends_.connections();
  const bool for_nobody = connections == 0 && !ready_.was_asked();
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  const auto delay = for_nobody || at_terminal ? std::chrono::milliseconds(0) : config_.drain_delay;
  // Without a delay, this would only make clients connect again while the listeners close.
  if (delay.count() > 0) ready_ = false;
  notify_manager("STOPPING=1");
  log_.info(delay.count() > 0 ? "draining for " + core::format_period(delay) +
                                    " (drain.delay), then until connections have ended, at most " +
                                    core::format_period(config_.drain_timeout) +
                                    " (drain.timeout); another SIGTERM or Ctrl-C stops it now"
                              : "draining without delay",
            {{"connections", connections}, {"listeners", connections_by_listener()}});
  shutdown_timer_.expires_after(delay);
  shutdown_timer_.async_wait([this](const error_code& why) {
    if (!why) close_listeners(net::Queued::kAccept);
  });
}

void Server::close_listeners(net::Queued queued) {
  // The file system refuses new connections; those in the queue are accepted.
  front_ends_.unlink();
  if (const std::size_t left = front_ends_.connections(); left > 0) {
    log_.info("waiting for connections to end, at most " +
                  core::format_period(config_.drain_timeout) + " (drain.timeout)",
              {{"connections", left}, {"listeners", connections_by_listener()}});
  }
  const auto drain_all = [this, queued] {
    if (queued == net::Queued::kAccept) ready_ = false;
    const auto drained = after_all(loops_, main_.context(), [this] { stop(); });
    for (Loop& loop : loops_) loop.drain(drained);
  };
  const auto stopped = after_all(loops_, main_.context(), drain_all);
  for (Loop& loop : loops_) loop.stop_accepting(queued, stopped);
  shutdown_timer_.expires_after(config_.drain_timeout);
  shutdown_timer_.async_wait([this](const error_code& why) {
    if (!why) cut("they did not end in time (drain.timeout)");
  });
}

// Returns "http 2, resp 1", without the administration, or "none".
std::string Server::connections_by_listener() const {
  std::string text;
  for (const ServerStatus::Listener& one : front_ends_.status()) {
    if (one.connections == 0 || one.name == "admin") continue;
    text.append(text.empty() ? "" : ", ").append(one.name).append(" ");
    text += std::to_string(one.connections);
  }
  return text.empty() ? "none" : text;
}

// Stops without waiting for connections to end. `why` follows "because".
void Server::cut(std::string_view why) {
  if (const std::size_t left = front_ends_.connections(); left > 0) {
    log_.warning("connections were closed because " + std::string(why),
                 {{"connections", left}, {"listeners", connections_by_listener()}});
  }
  stop();
}

void Server::stop() {
  log_.info("stopped");
  main_.stop();
}

}  // namespace

Expected<int> serve(
    const Config& config,
    const std::function<void(const std::string& ready_line, const std::string& hint)>& on_ready) {
  hold_signals(SIG_BLOCK);
  auto rules = ServerRules::open(config);
  if (!rules) return Unexpected{rules.error()};
  auto overrides = open_overrides(config);
  if (!overrides) return Unexpected{overrides.error()};
  auto trusted = TrustedProxies::parse(config.trusted_proxies);
  if (!trusted) return Unexpected{"trusted_proxies: " + trusted.error()};
  auto token = AdminToken::from(config.admin_token);
  if (!token) return Unexpected{token.error()};
  Server server(config, std::move(*rules), std::move(*overrides), std::move(*trusted),
                std::move(*token));
  hold_signals(SIG_UNBLOCK);
  if (auto opened = server.open(); !opened) return Unexpected{opened.error()};
  on_ready(server.ready_line(), server.hint());
  return server.run();
}

}  // namespace sluice::server
