#include "server/runtime/server_rules.h"

#include <string>
#include <utility>
#include <vector>

#include "server/rules/redis_overrides.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

std::string joined(const std::vector<RuleError>& errors) {
  std::string out;
  for (const RuleError& error : errors) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

Expected<std::shared_ptr<const redis::Target>> redis_target(const Config& config) {
  const auto options = redis_options(config);
  if (!options) return Unexpected{options.error()};
  return redis::make_target(*options);
}

Expected<std::unique_ptr<PushedRules>> open_pushed(const Config& config) {
  auto target = redis_target(config);
  if (!target) return Unexpected{target.error()};
  return PushedRules::open({.target = std::move(*target), .key = rules_key(config.redis)},
                           rule_terms(config));
}

EnvoyOptions envoy_options(const EnvoyConfig& envoy) {
  return {.merge_domains = envoy.merge_domains,
          .consume_on_reject = envoy.consume_on_reject,
          .shadow_mode = envoy.shadow_mode,
          .headers = envoy.headers,
          .limit_header = envoy.limit_header,
          .remaining_header = envoy.remaining_header,
          .reset_header = envoy.reset_header,
          .request_metadata = envoy.request_metadata};
}

}  // namespace

Expected<std::unique_ptr<ServerOverrides>> open_overrides(const Config& config) {
  if (config.store == "memory") return ServerOverrides::open(overrides_path(config));
  auto target = redis_target(config);
  if (!target) return Unexpected{target.error()};
  auto overrides = std::make_unique<RedisOverrides>(RedisOverridesSource{std::move(*target)});
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
    if (!manager) return Unexpected{joined(manager.error())};
    rules.manager_ = std::move(*manager);
  }
  auto envoy = EnvoyManager::open(config.envoy.files, envoy_options(config.envoy), terms);
  if (!envoy) return Unexpected{joined(envoy.error())};
  rules.envoy_ = std::move(*envoy);
  static_cast<void>(rules.changed());
  return rules;
}

void ServerRules::log_warnings(Log& log) const {
  const auto rules = manager_->current();
  for (const RuleError& warning : rules.warnings()) log.warning(warning.to_string());
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
    if (*result) log_warnings(log);
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
  if (!result) {
    read.error().insert(read.error().begin(), result.error().begin(), result.error().end());
  }
  result = Unexpected{std::move(read.error())};
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

Expected<PushedRules::Outcome> ServerRules::push(const std::vector<RulesText>& before,
                                                 std::vector<RulesText> texts, std::string by) {
  if (!pushed_) return PushedRules::Outcome::kNotInRedis;
  return pushed_->push(before, std::move(texts), std::move(by));
}

void ServerRules::follow_pushes(boost::asio::io_context& loop, Log& log,
                                std::function<void()> changed) {
  if (pushed_) pushed_->follow(loop, *manager_, log, std::move(changed));
}

}  // namespace sluice::server
