#include "server/runtime/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <deque>
#include <thread>
#include <utility>

#include "server/config/secret.h"
#include "server/rules/pushed_rules.h"
#include "server/runtime/admin_handler.h"
#include "server/runtime/loop.h"
#include "server/runtime/notify.h"
#include "server/storage/stores.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

using boost::system::error_code;

constexpr auto kHousekeeping = std::chrono::milliseconds(500);
// Some, so that /healthz does not wait for a page that asks the store. With stacks as long as a
// thread's, which take no memory before they are used: rules are parsed there.
constexpr net::FiberPool::Options kAdminFibers{.most = 4, .stack_bytes = std::size_t{8} << 20};

std::string joined(const std::vector<RuleError>& errors) {
  std::string out;
  for (const RuleError& error : errors) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

std::size_t thread_count(const Config& config) {
  if (config.threads > 0) return config.threads;
  return std::max(1U, std::thread::hardware_concurrency());
}

// A door that listens, or is off.
Expected<std::optional<net::Listening>> open_listener(const std::string& text, std::size_t loops) {
  const auto address = parse_address(text);
  if (!address) return Unexpected{text + ": " + address.error()};
  if (address->kind == Address::Kind::kOff) return std::optional<net::Listening>{};
  auto listening = net::listen_at(*address, loops);
  if (!listening) return Unexpected{listening.error()};
  return std::optional(std::move(*listening));
}

// Of the administration: a file of rules fits into a body.
Bounds bounds_for_rules(Bounds bounds) {
  constexpr std::size_t kMostRules = std::size_t{4} << 20;
  bounds.body_bytes = std::max(bounds.body_bytes, kMostRules);
  return bounds;
}

// The users of the RESP door, with their passwords.
Expected<resp::Users> read_users(const RespConfig& config) {
  std::vector<resp::User> users;
  for (const RespUser& user : config.users) {
    auto password = read_secret(user.password_file, user.password_env);
    if (!password) return Unexpected{"resp.users: " + password.error()};
    const auto role = user.role == RespRole::kAdmin ? resp::Role::kAdmin : resp::Role::kCheckOnly;
    users.push_back({user.name, std::move(*password), role});
  }
  return resp::Users(std::move(users));
}

std::vector<metrics::Registry::Row> envoy_rows(const EnvoyManager& envoy) {
  std::vector<metrics::Registry::Row> rows;
  for (const EnvoyCounts::Row& of : envoy.counted()) {
    for (std::size_t i = 0; i < of.cells.size(); ++i) {
      const auto outcome = EnvoyCounts::to_string(static_cast<EnvoyCounts::Cell>(i));
      rows.push_back({{of.name, std::string(outcome)}, static_cast<double>(of.cells[i])});
    }
  }
  return rows;
}

std::string name_of(const std::optional<net::Listening>& listening) {
  return listening ? listening->name : "off";
}

}  // namespace

class Server::Impl {
 public:
  // What a server is made of, once it has been read.
  struct Parts {
    std::unique_ptr<RulesManager> manager;
    std::unique_ptr<EnvoyManager> envoy;
    std::unique_ptr<PushedRules> pushed;  // null: the rules are in files
    TrustedProxies trusted;
    AdminToken token;
  };
  Impl(const Config& config, Parts parts);
  ~Impl();

  Expected<bool> open_stores();
  Expected<bool> listen();
  Expected<bool> open_grpc();
  Expected<bool> open_resp();
  std::string ready_line() const {
    return "ready http=" + name_of(http_) + " grpc=" + name_of(grpc_) + " resp=" + name_of(resp_) +
           " admin=" + name_of(admin_);
  }
  std::string hint() const;
  void run();

 private:
  void add_metrics();
  void start_loops(const Operations& operations);
  void start_administration(const Operations& operations);
  void wait_for_signal();
  void on_signal(int signal);
  void keep_house();
  Expected<bool, RulesManager::Errors> reload();
  void reload_envoy(Expected<bool, RulesManager::Errors>& changed);
  ServerStatus status() const;
  std::size_t connections() const;
  void follow_rules();
  void drain();
  void begin_drain();
  void one_drained();
  void stop();

  const Config config_;
  const Bounds admin_bounds_ = bounds_for_rules(config_.bounds);
  Log log_;
  std::unique_ptr<RulesManager> manager_;
  std::unique_ptr<EnvoyManager> envoy_;
  const TrustedProxies trusted_;
  AdminToken token_;
  std::unique_ptr<Stores> stores_;
  metrics::Registry registry_;
  DenialLog denials_;
  std::atomic<bool> ready_{false};
  std::atomic<std::size_t> connections_{0};
  grpc::Common grpc_common_;
  resp::Common resp_common_;
  std::atomic<std::size_t> admin_connections_{0};
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  std::optional<net::Listening> http_;
  std::optional<net::Listening> grpc_;
  std::optional<net::Listening> resp_;
  std::optional<net::Listening> admin_;
  boost::asio::io_context main_{1};
  boost::asio::signal_set signals_{main_, SIGTERM, SIGINT, SIGHUP};
  boost::asio::steady_timer housekeeping_{main_};
  boost::asio::steady_timer drain_timer_{main_};
  std::unique_ptr<PushedRules> pushed_;
  std::unique_ptr<LoopStores> admin_stores_;  // where the store waits; then workers,
  std::optional<http::Workers> admin_workers_;
  std::unique_ptr<AdminHandler> admin_handler_;  // else a handler
  std::optional<http::Listener> admin_listener_;
  std::deque<Loop> loops_;
  std::uint64_t followed_version_ = 0;
  std::uint64_t followed_envoy_ = 0;
  std::size_t draining_loops_ = 0;
  bool draining_ = false;
};

Server::Impl::Impl(const Config& config, Parts parts)
    : config_(config),
      log_(config.log),
      manager_(std::move(parts.manager)),
      envoy_(std::move(parts.envoy)),
      trusted_(std::move(parts.trusted)),
      token_(std::move(parts.token)),
      denials_(log_),
      pushed_(std::move(parts.pushed)) {
  if (!token_.warning().empty()) log_.warning(token_.warning());
}

Server::Impl::~Impl() {
  loops_.clear();
  for (const auto* listening : {&http_, &grpc_, &resp_, &admin_}) {
    if (*listening && !(*listening)->unix_path.empty()) ::unlink((*listening)->unix_path.c_str());
  }
}

void Server::Impl::add_metrics() {
  const auto number = [](auto value) { return static_cast<double>(value); };
  stores_->add_metrics(registry_);
  registry_.add_gauge("sluice_rules_version", "Counts every change of the rules in force, from 1.",
                      [this, number] { return number(manager_->version()); });
  registry_.add_counter(
      "sluice_rules_reloads_total", "Reloads that changed the rules.",
      [this, number] { return number(manager_->status().reloads + envoy_->status().reloads); });
  registry_.add_counter(
      "sluice_rules_reload_failures_total", "Reloads that were refused; the rules in force stayed.",
      [this, number] { return number(manager_->status().failures + envoy_->status().failures); });
  registry_.add_gauge("sluice_rules_last_reload_successful",
                      "0 while the newest reading of the rules was refused, else 1.", [this] {
                        const bool right = manager_->status().last_errors.empty() &&
                                           envoy_->status().last_errors.empty();
                        return right ? 1. : 0.;
                      });
  registry_.add_table("sluice_envoy_decisions_total",
                      "Answers of the limits of Envoy's files, by the descriptor.",
                      {"descriptor", "outcome"}, [this] { return envoy_rows(*envoy_); });
  registry_.add_counter("sluice_log_lines_dropped_total", "Log lines that were not written.",
                        [this, number] { return number(log_.dropped()); });
  registry_.add_gauge("sluice_connections_max", "Connections that all listeners may have at once.",
                      [this, number] {
                        const int listeners = int{http_.has_value()} + int{grpc_.has_value()} +
                                              int{resp_.has_value()} + int{admin_.has_value()};
                        return number(config_.bounds.connections) * listeners;
                      });
  registry_.add_gauge("sluice_ready", "Whether /readyz says so.",
                      [this] { return ready_.load() ? 1.0 : 0.0; });
}

Expected<bool> Server::Impl::open_stores() {
  auto stores = Stores::open(config_, log_);
  if (!stores) return Unexpected{stores.error()};
  stores_ = std::move(*stores);
  add_metrics();
  return true;
}

Expected<bool> Server::Impl::listen() {
  auto http = open_listener(config_.http, thread_count(config_));
  if (!http) return Unexpected{http.error()};
  http_ = std::move(*http);
  if (auto grpc = open_grpc(); !grpc) return Unexpected{grpc.error()};
  if (auto resp = open_resp(); !resp) return Unexpected{resp.error()};
  auto admin = open_listener(config_.admin, 1);
  if (!admin) return Unexpected{admin.error()};
  admin_ = std::move(*admin);
  if (admin_ && !admin_->loopback && !token_.is_set()) {
    return Unexpected{"administration at " + admin_->name +
                      " needs a token, as other machines reach it; set admin.token_file or "
                      "admin.token_env in the configuration file, or listen on 127.0.0.1"};
  }
  const Operations operations(registry_, ready_);
  start_loops(operations);
  if (admin_) start_administration(operations);
  followed_version_ = manager_->version();
  followed_envoy_ = envoy_->version();
  ready_ = true;
  return true;
}

Expected<bool> Server::Impl::open_grpc() {
  const GrpcConfig& grpc = config_.grpc_options;
  grpc_common_.paths = rls_paths();
  grpc_common_.most_streams = grpc.streams;
  grpc_common_.ages.most = grpc.max_age;
  if (!grpc.cert_file.empty()) {
    auto tls = net::TlsContext::open({grpc.cert_file, grpc.key_file, grpc.client_ca_file});
    if (!tls) return Unexpected{"gRPC: " + tls.error()};
    grpc_common_.tls = std::move(*tls);
  }
  auto listening = open_listener(config_.grpc, thread_count(config_));
  if (!listening) return Unexpected{listening.error()};
  grpc_ = std::move(*listening);
  return true;
}

Expected<bool> Server::Impl::open_resp() {
  auto resp = open_listener(config_.resp, thread_count(config_));
  if (!resp) return Unexpected{resp.error()};
  resp_ = std::move(*resp);
  if (!resp_) return true;
  resp_common_.idle_timeout = config_.resp_door.idle_timeout;
  auto users = read_users(config_.resp_door);
  if (!users) return Unexpected{users.error()};
  resp_common_.users = std::move(*users);
  if (!resp_->loopback && resp_common_.users.none()) {
    return Unexpected{"RESP at " + resp_->name +
                      " needs users with passwords, as other machines reach it; set resp.users in "
                      "the configuration file, or listen on 127.0.0.1"};
  }
  resp_common_.unix_path = resp_->unix_path;
  resp_common_.about.version = SLUICE_VERSION;
  return true;
}

void Server::Impl::start_loops(const Operations& operations) {
  std::function<std::unique_ptr<LoopStores>(boost::asio::io_context&)> make_stores;
  if (stores_->waits()) {
    make_stores = [this](boost::asio::io_context& loop) { return stores_->make(loop); };
  }
  const std::size_t threads = thread_count(config_);
  for (std::size_t i = 0; i < threads; ++i) {
    loops_.emplace_back(Loop::Parts{stores_->limiter(), *manager_, registry_.make_recorder(),
                                    denials_, log_, trusted_, config_.bounds, operations,
                                    connections_, *envoy_, make_stores});
    if (http_) loops_.back().listen(std::move(http_->sockets[i]));
    if (grpc_) loops_.back().listen_grpc(std::move(grpc_->sockets[i]), grpc_common_, ready_);
    if (resp_) loops_.back().listen_resp(std::move(resp_->sockets[i]), resp_common_);
  }
}

void Server::Impl::start_administration(const Operations& operations) {
  metrics::Recorder& recorder = registry_.make_recorder();
  if (stores_->waits()) admin_stores_ = stores_->make(main_);
  Limiter& limiter = admin_stores_ ? admin_stores_->limiter() : stores_->limiter();
  const auto done = [this](std::string_view what, std::string_view peer) {
    log_.info("administration", {{"what", what}, {"peer", peer}});
    follow_rules();
  };
  const AdminHandler::Parts parts{{.rules = *manager_,
                                   .limiter = limiter,
                                   .token = token_,
                                   .status = [this] { return status(); },
                                   .reload = [this] { return reload(); },
                                   .done = done},
                                  operations,
                                  recorder,
                                  log_};
  const auto make = [parts] { return std::make_unique<AdminHandler>(parts); };
  if (admin_stores_) {
    admin_workers_.emplace(make, kAdminFibers);
  } else {
    admin_handler_ = make();
  }
  const http::Behind behind =
      admin_workers_ ? http::Behind(*admin_workers_) : http::Behind(*admin_handler_);
  admin_listener_.emplace(
      http::Listener::Parts{main_, admin_bounds_, behind, recorder, log_, admin_connections_},
      std::move(admin_->sockets[0]));
}

std::string Server::Impl::hint() const {
  if (!manager_->built_in() || envoy_->has_files() || !http_) return {};
  const std::string at = http_->unix_path.empty()
                             ? "http://" + http_->name + "/v1/check"
                             : "--unix-socket " + http_->unix_path + " http://localhost/v1/check";
  return "No rules were given, so a built-in example is in force (--rules FILE gives others).\n"
         "Try it, six times within a minute:\n  curl -i " +
         at + R"( -d '{"attributes":{"method":"POST","path":"/login","ip":"203.0.113.9"}}')";
}

void Server::Impl::run() {
  for (Loop& loop : loops_) loop.start();
  wait_for_signal();
  keep_house();
  if (pushed_) pushed_->follow(main_, *manager_, log_, [this] { follow_rules(); });
  notify_manager("READY=1");
  main_.run();
  if (admin_stores_) admin_stores_->stop();
  for (Loop& loop : loops_) loop.stop();
}

void Server::Impl::wait_for_signal() {
  signals_.async_wait([this](const error_code& why, int signal) {
    if (why) return;
    on_signal(signal);
    wait_for_signal();
  });
}

void Server::Impl::on_signal(int signal) {
  if (signal == SIGHUP) return static_cast<void>(reload());
  if (draining_) return stop();
  drain();
}

// Follows changes of the files, and of the rules by the administration.
void Server::Impl::keep_house() {
  if (config_.watch) {
    const bool rules = manager_->changed_on_disk();
    if (const bool envoy = envoy_->changed_on_disk(); rules || envoy) static_cast<void>(reload());
  }
  follow_rules();
  housekeeping_.expires_after(kHousekeeping);
  housekeeping_.async_wait([this](const error_code& why) {
    if (!why) keep_house();
  });
}

Expected<bool, RulesManager::Errors> Server::Impl::reload() {
  notify_reloading();
  if (const auto read = token_.reload(); !read) {
    log_.error("the token stays as it is", {{"why", read.error()}});
  }
  if (grpc_common_.tls) {
    if (const auto read = grpc_common_.tls->reload(); !read) {
      log_.error("gRPC's certificate stays as it is", {{"why", read.error()}});
    }
  }
  auto changed = manager_->reload();
  if (!changed) {
    for (const RuleError& error : changed.error()) {
      log_.error("the rules stay as they are", {{"why", error.to_string()}});
    }
  } else {
    log_.info(*changed ? "new rules are in force" : "the rules are as they were",
              {{"version", manager_->version()}, {"rules", manager_->status().rules}});
  }
  reload_envoy(changed);
  follow_rules();
  notify_manager("READY=1");
  return changed;
}

// Adds to what the rules' files came to.
void Server::Impl::reload_envoy(Expected<bool, RulesManager::Errors>& changed) {
  auto read = envoy_->reload();
  if (read) {
    if (*read) log_.info("new files of Envoy's are in force", {{"version", envoy_->version()}});
    if (*read && changed) changed = true;
    return;
  }
  for (const RuleError& error : read.error()) {
    log_.error("Envoy's files stay as they are", {{"why", error.to_string()}});
  }
  if (!changed)
    read.error().insert(read.error().begin(), changed.error().begin(), changed.error().end());
  changed = Unexpected{std::move(read.error())};
}

std::size_t Server::Impl::connections() const {
  return connections_ + grpc_common_.connections + resp_common_.connections;
}

ServerStatus Server::Impl::status() const {
  const auto up = std::chrono::steady_clock::now() - started_;
  ServerStatus out{.version = SLUICE_VERSION,
                   .uptime = std::chrono::duration_cast<std::chrono::seconds>(up),
                   .ready = ready_,
                   .draining = draining_,
                   .threads = loops_.size()};
  out.listeners.push_back({"http", name_of(http_), connections_});
  out.listeners.push_back({"grpc", name_of(grpc_), grpc_common_.connections});
  out.listeners.push_back({"resp", name_of(resp_), resp_common_.connections});
  out.listeners.push_back({"admin", name_of(admin_), admin_connections_});
  out.store = stores_->status();
  if (envoy_->has_files()) out.envoy = envoy_->status();
  return out;
}

void Server::Impl::follow_rules() {
  const std::uint64_t version = manager_->version();
  const std::uint64_t envoy = envoy_->version();
  const bool same = std::exchange(followed_version_, version) == version;
  if (std::exchange(followed_envoy_, envoy) == envoy && same) return;
  for (Loop& loop : loops_) loop.follow_rules();
}

void Server::Impl::drain() {
  draining_ = true;
  ready_ = false;
  notify_manager("STOPPING=1");
  log_.info("draining", {{"connections", connections()}});
  drain_timer_.expires_after(config_.drain_delay);
  drain_timer_.async_wait([this](const error_code& why) {
    if (!why) begin_drain();
  });
}

void Server::Impl::begin_drain() {
  // Who comes now is refused by the file system; who is in the queue is taken.
  for (const auto* listening : {&http_, &grpc_, &resp_}) {
    if (*listening && !(*listening)->unix_path.empty()) ::unlink((*listening)->unix_path.c_str());
  }
  draining_loops_ = loops_.size();
  for (Loop& loop : loops_) {
    loop.drain([this] { boost::asio::post(main_, [this] { one_drained(); }); });
  }
  drain_timer_.expires_after(config_.drain_timeout);
  drain_timer_.async_wait([this](const error_code& why) {
    if (why) return;
    log_.warning("connections were cut, as they did not end in time",
                 {{"connections", connections()}});
    stop();
  });
}

void Server::Impl::one_drained() {
  if (--draining_loops_ == 0) stop();
}

void Server::Impl::stop() {
  log_.info("stopped");
  main_.stop();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

namespace {

// The rules to start with, and where they are in Redis, what goes on to follow them.
Expected<std::unique_ptr<RulesManager>> open_rules(const Config& config,
                                                   std::unique_ptr<PushedRules>& pushed) {
  const RuleTerms terms = rule_terms(config);
  if (!config.rules_in_redis) {
    auto manager = RulesManager::open(config.rules, SystemClock::instance(), terms);
    if (!manager) return Unexpected{joined(manager.error())};
    return std::move(*manager);
  }
  const auto options = redis_options(config);
  if (!options) return Unexpected{options.error()};
  auto target = redis::make_target(*options);
  if (!target) return Unexpected{target.error()};
  auto opened =
      PushedRules::open({.target = std::move(*target), .key = rules_key(config.redis)}, terms);
  if (!opened) return Unexpected{opened.error()};
  pushed = std::move(*opened);
  return pushed->take_manager();
}

Expected<std::unique_ptr<EnvoyManager>> open_envoy(const Config& config) {
  const EnvoyConfig& envoy = config.envoy;
  auto manager = EnvoyManager::open(envoy.files,
                                    {.consume_on_reject = envoy.consume_on_reject,
                                     .shadow_mode = envoy.shadow_mode,
                                     .headers = envoy.headers,
                                     .limit_header = envoy.limit_header,
                                     .remaining_header = envoy.remaining_header,
                                     .reset_header = envoy.reset_header,
                                     .request_metadata = envoy.request_metadata},
                                    rule_terms(config));
  if (!manager) return Unexpected{joined(manager.error())};
  return std::move(*manager);
}

}  // namespace

Expected<std::unique_ptr<Server>> Server::start(const Config& config) {
  Impl::Parts parts;
  auto manager = open_rules(config, parts.pushed);
  if (!manager) return Unexpected{manager.error()};
  parts.manager = std::move(*manager);
  auto envoy = open_envoy(config);
  if (!envoy) return Unexpected{envoy.error()};
  parts.envoy = std::move(*envoy);
  auto trusted = TrustedProxies::parse(config.trusted_proxies);
  if (!trusted) return Unexpected{"trusted_proxies: " + trusted.error()};
  parts.trusted = std::move(*trusted);
  auto token = AdminToken::from(config.admin_token_file, config.admin_token_env);
  if (!token) return Unexpected{token.error()};
  parts.token = std::move(*token);
  auto impl = std::make_unique<Impl>(config, std::move(parts));
  if (auto opened = impl->open_stores(); !opened) return Unexpected{opened.error()};
  if (auto listening = impl->listen(); !listening) return Unexpected{listening.error()};
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

std::string Server::ready_line() const { return impl_->ready_line(); }
std::string Server::hint() const { return impl_->hint(); }
void Server::run() { impl_->run(); }

}  // namespace sluice::server
