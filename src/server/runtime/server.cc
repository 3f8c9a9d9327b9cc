#include "server/runtime/server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "server/rules/server_overrides.h"
#include "server/runtime/descriptors.h"
#include "server/runtime/front_ends.h"
#include "server/runtime/handover.h"
#include "server/runtime/loops.h"
#include "server/runtime/notify.h"
#include "server/runtime/server_metrics.h"
#include "server/runtime/server_rules.h"
#include "server/runtime/shutdown.h"
#include "server/storage/stores.h"

namespace sluice::server {
namespace {

using boost::system::error_code;

constexpr auto kChangeCheck = std::chrono::milliseconds(500);
constexpr auto kCollectKeys = std::chrono::milliseconds(500);
constexpr std::size_t kKeysAtOnce = 64;  // limits and loops: some ms

insight::TopKeysOptions top_keys_options(const Config& config) {
  return {.keys = config.log.keys == LogKeys::kNone ? 0 : config.top_keys,
          .loops = Loops::count(config.threads),
          .hashed = config.log.keys == LogKeys::kHash};
}

constexpr std::array kWithoutEffect = {SIGUSR1, SIGUSR2, SIGALRM, SIGIO};

bool has_no_effect(int signal) {
  return std::find(kWithoutEffect.begin(), kWithoutEffect.end(), signal) != kWithoutEffect.end();
}

// A signal that arrives from here on does not end the process with the signal's status, when nobody
// waits for signals any more. Only the calling thread may be left by then.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

class Server::Impl {
 public:
  Impl(const Config& config, ServerRules rules, std::unique_ptr<ServerOverrides> overrides,
       TrustedProxies trusted, AdminToken token);

  Expected<bool> open();
  std::string ready_line() const { return front_ends_.ready_line(); }
  std::string hint() const;
  bool run();

 private:
  AdminParts admin_parts();
  void start_loops(std::size_t threads);
  void start_administration();
  void wait_for_signal();
  void check_for_changes();
  ServerRules::Reloaded reload();
  ServerStatus status() const;
  void follow_rules();
  void follow_overrides();
  void collect_keys();
  bool keep_overrides();
  std::vector<int> descriptors_to_give();
  void hand_over();

  const net::LoopClock& clock_ = net::LoopClock::system();
  boost::asio::io_context main_{1};
  // Destroyed after every member that has a thread; see block_signals().
  boost::asio::signal_set signals_{main_};
  const Config config_;
  Log log_;
  ServerRules rules_;
  const std::unique_ptr<ServerOverrides> overrides_;
  const TrustedProxies trusted_;
  AdminToken token_;
  std::unique_ptr<Stores> stores_;
  metrics::Registry registry_;
  DenialLog denials_;
  std::unique_ptr<TrafficLog> traffic_;    // null: requests are not recorded
  std::deque<TrafficRecorder> recorders_;  // of the loops
  insight::TopKeys top_keys_;
  std::atomic<bool> ready_{false};
  const net::SteadyTime started_ = clock_.now();
  net::DescriptorBudget descriptors_;
  LiveEvents events_{{registry_, rules_.manager(), [this] { return status(); }, clock_}};

  FrontEnds front_ends_;
  boost::asio::steady_timer change_timer_{main_};
  boost::asio::steady_timer keys_timer_{main_};
  net::SteadyTime::duration keys_took_{0};    // of the parts since keys_timer_
  std::unique_ptr<LoopStores> admin_stores_;  // if the store may wait
  net::FiberSleeps admin_sleeps_{main_};
  std::unique_ptr<net::LoopFrontEnd> administration_;
  detail::Waits waits_{{.most = config_.bounds.waiting}};  // of all loops
  Loops loops_;
  Shutdown shutdown_{{main_, config_, log_, front_ends_, loops_, ready_}};
  Handover handover_{{main_, log_, [this] { return descriptors_to_give(); },
                      [this] { hand_over(); },
                      [this] { static_cast<void>(stores_->write_last_snapshot()); },
                      [this] { stores_->continue_writing_snapshots(); }}};
  // Destroyed first, because the metrics borrow the other members.
  MetricsWorker metrics_worker_{registry_};
};

Server::Impl::Impl(const Config& config, ServerRules rules,
                   std::unique_ptr<ServerOverrides> overrides, TrustedProxies trusted,
                   AdminToken token)
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
                   &top_keys_},
                  admin_parts()) {
  if (!token_.warning().empty()) log_.warning(token_.warning());
  rules_.log_warnings(log_);
  for (const int signal : {SIGTERM, SIGINT, SIGPWR, SIGHUP}) signals_.add(signal);
  for (const int signal : kWithoutEffect) signals_.add(signal);
}

AdminParts Server::Impl::admin_parts() {
  const auto done = [this](std::string_view what, std::string_view peer) {
    log_.info("administration", {{"what", what}, {"peer", peer}});
    follow_rules();
  };
  const auto push = [this](const auto& before, auto texts, auto by) {
    return rules_.push(before, std::move(texts), std::move(by));
  };
  const auto find_blocks = [this](std::size_t most) {
    return stores_->find_blocks(admin_stores_.get(), most);
  };
  return {rules_.manager(),
          token_,
          [this] { return status(); },
          [this] { return reload(); },
          done,
          overrides_.get(),
          push,
          find_blocks,
          top_keys_,
          &events_};
}

Expected<bool> Server::Impl::open() {
  auto stores = Stores::open(config_, log_);
  if (!stores) return Unexpected{stores.error()};
  stores_ = std::move(*stores);
  stores_->add_metrics(registry_);
  if (!config_.record.file.empty()) {
    auto traffic = TrafficLog::open(config_.record, log_);
    if (!traffic) return Unexpected{traffic.error()};
    traffic_ = std::move(*traffic);
    add_traffic_metrics(registry_, *traffic_);
  }
  const auto most = [this] {
    return std::min(front_ends_.most_connections(), descriptors_.most());
  };
  add_server_metrics(registry_, {rules_.manager(), rules_.envoy(), log_, ready_, most,
                                 [this] { return waits_.waiting(); }, overrides_->all()});
  const std::size_t threads = Loops::count(config_.threads);
  auto inherited = handover_.inherit(config_.handover);
  if (!inherited) return Unexpected{inherited.error()};
  if (auto locked = stores_->lock_snapshot(handover_.take_locks()); !locked) return locked;
  auto opened = front_ends_.open(threads, *inherited);
  if (opened) {
    start_loops(threads);
    start_administration();
    const auto plan = plan_descriptors({.limit = raise_descriptor_limit(),
                                        .open = count_open_descriptors(),
                                        .loops = threads,
                                        .redis = admin_stores_ != nullptr,
                                        .connections = front_ends_.most_connections()});
    descriptors_.set(plan.connections, plan.reserve);
    if (!plan.warning.empty()) log_.warning(plan.warning);
    const bool succeeds = handover_.has_predecessor();
    if (!succeeds) stores_->read_snapshot();
    ready_ = true;
    opened = handover_.succeed(config_.handover);
    if (opened && succeeds) stores_->read_snapshot();  // which the predecessor has just written
  }
  if (!opened && handover_.has_predecessor()) {
    front_ends_.keep_unix_sockets();  // it continues to serve
  }
  return opened;
}

void Server::Impl::start_loops(std::size_t threads) {
  const auto make_stores = [this](boost::asio::io_context& loop) { return stores_->make(loop); };
  const bool hash_all = config_.log.keys != LogKeys::kPlain;
  for (std::size_t i = 0; i < threads; ++i) {
    TrafficRecorder* const traffic =
        traffic_ ? &recorders_.emplace_back(*traffic_, denials_, hash_all) : nullptr;
    insight::KeyRecorder* const keys = top_keys_.is_on() ? &top_keys_.make_recorder() : nullptr;
    Loop& loop = loops_.add({stores_->limiter(),
                             rules_.manager(),
                             registry_.make_recorder(),
                             denials_,
                             clock_,
                             make_stores,
                             &overrides_->all(),
                             traffic,
                             keys,
                             {},
                             &waits_});
    front_ends_.start(loop, i);
  }
}

void Server::Impl::start_administration() {
  metrics::Recorder& recorder = registry_.make_recorder();
  admin_stores_ = stores_->make(main_);
  Limiter& limiter = admin_stores_ ? admin_stores_->limiter() : stores_->limiter();
  LoopServices services{
      main_, recorder,
      [this, &limiter, &recorder]() -> Session::Parts {
        return {limiter, rules_.manager(), recorder, denials_, {.overrides = &overrides_->all()}};
      },
      clock_};
  services.fibers = kAdminFibers;  // /metrics waits, whatever the store does
  services.sleeps = &admin_sleeps_;
  administration_ = front_ends_.start_administration(services);
}

std::string Server::Impl::hint() const {
  const std::string example = front_ends_.example();
  if (!rules_.only_built_in() || example.empty()) return {};
  return "No rules were given, so a built-in example is active (--rules FILE selects others).\n"
         "Try it, six times within a minute:\n  " +
         example;
}

bool Server::Impl::run() {
  loops_.start();
  wait_for_signal();
  check_for_changes();
  if (top_keys_.is_on()) collect_keys();
  rules_.follow_pushes(main_, log_, [this] { follow_rules(); });
  overrides_->follow(main_, [this](std::string_view why) {
    if (why.empty()) return log_.info("the overrides in Redis can be read again");
    log_.warning("the overrides in Redis cannot be read; the known ones count", {{"why", why}});
  });
  stores_->follow(main_);
  notify_manager("READY=1");
  main_.run();
  stores_->stop_following();
  rules_.stop_following();
  overrides_->stop();
  admin_sleeps_.stop();
  if (admin_stores_) admin_stores_->stop();
  loops_.stop();
  const bool overrides = keep_overrides();
  const bool counters = stores_->write_last_snapshot();
  block_signals();
  return overrides && counters;
}

void Server::Impl::wait_for_signal() {
  signals_.async_wait([this](const error_code& why, int signal) {
    if (why) return;
    wait_for_signal();
    if (signal == SIGHUP) return static_cast<void>(reload());
    if (has_no_effect(signal)) {
      return log_.warning("a signal has no effect", {{"signal", ::strsignal(signal)}});
    }
    if (shutdown_.begun()) return shutdown_.stop();
    handover_.close();
    events_.end();
    shutdown_.drain();
  });
}

// Detects changed files, and rules that the administration has changed.
void Server::Impl::check_for_changes() {
  if (config_.watch && rules_.changed_on_disk()) static_cast<void>(reload());
  follow_rules();
  follow_overrides();
  events_.tick();
  stores_->log_freed_keys();
  change_timer_.expires_after(kChangeCheck);
  change_timer_.async_wait([this](const error_code& why) {
    if (!why) check_for_changes();
  });
}

ServerRules::Reloaded Server::Impl::reload() {
  notify_reloading(clock_.now());
  const auto changed = token_.reload();
  if (!changed) log_.error("the token is unchanged", {{"why", changed.error()}});
  // In a turn of its own, because a request may have asked for the reload.
  if (changed && *changed) boost::asio::post(main_, [this] { events_.end_current(); });
  front_ends_.reload(log_);
  auto result = rules_.reload(log_);
  follow_rules();
  notify_manager("READY=1");
  return result;
}

ServerStatus Server::Impl::status() const {
  const auto up = clock_.now() - started_;
  ServerStatus out{.version = SLUICE_VERSION,
                   .uptime = std::chrono::duration_cast<std::chrono::seconds>(up),
                   .ready = ready_,
                   .draining = shutdown_.begun(),
                   .threads = loops_.size(),
                   .listeners = front_ends_.status(),
                   .store = stores_->status()};
  if (rules_.envoy().has_files()) out.envoy = rules_.envoy().status();
  return out;
}

void Server::Impl::follow_rules() {
  if (rules_.changed()) loops_.follow_rules();
}

// Follows the file, which a server that hands over to this one, or its successor, may change.
void Server::Impl::follow_overrides() {
  const auto read = overrides_->reread();
  if (!read) log_.error("the overrides are unchanged", {{"why", read.error()}});
  overrides_->drop_ended(SystemClock().now());
}

// Adds the keys that the loops have handed over to their history, in parts, because this thread
// also serves the administration; and spends at most a twentieth of its time on that.
void Server::Impl::collect_keys() {
  const auto start = clock_.now();
  const bool more = top_keys_.collect(rules_.manager().current(), kKeysAtOnce);
  keys_took_ += clock_.now() - start;
  if (more) return boost::asio::post(main_, [this] { collect_keys(); });
  loops_.hand_over_keys();
  keys_timer_.expires_after(std::max<net::SteadyTime::duration>(kCollectKeys, 20 * keys_took_));
  keys_took_ = {};
  keys_timer_.async_wait([this](const error_code& why) {
    if (!why) collect_keys();
  });
}

bool Server::Impl::keep_overrides() {
  const auto kept = overrides_->keep();
  if (!kept) log_.error("the latest overrides are not in the file", {{"why", kept.error()}});
  return kept.has_value();
}

std::vector<int> Server::Impl::descriptors_to_give() {
  static_cast<void>(keep_overrides());
  std::vector<int> out = front_ends_.descriptors();
  if (const int lock = stores_->snapshot_lock(); lock >= 0) out.push_back(lock);
  return out;
}

void Server::Impl::hand_over() {
  stores_->unlock_snapshot();  // the successor has the same lock
  if (administration_) administration_->stop_accepting(net::Queued::kLeave, [] {});
  events_.end();
  shutdown_.hand_over();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Expected<std::unique_ptr<Server>> Server::start(const Config& config) {
  auto rules = ServerRules::open(config);
  if (!rules) return Unexpected{rules.error()};
  auto overrides = open_overrides(config);
  if (!overrides) return Unexpected{overrides.error()};
  auto trusted = TrustedProxies::parse(config.trusted_proxies);
  if (!trusted) return Unexpected{"trusted_proxies: " + trusted.error()};
  auto token = AdminToken::from(config.admin_token);
  if (!token) return Unexpected{token.error()};
  auto impl = std::make_unique<Impl>(config, std::move(*rules), std::move(*overrides),
                                     std::move(*trusted), std::move(*token));
  if (auto opened = impl->open(); !opened) return Unexpected{opened.error()};
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::ready_line() const { return impl_->ready_line(); }
std::string Server::hint() const { return impl_->hint(); }
bool Server::run() { return impl_->run(); }

}  // namespace sluice::server
