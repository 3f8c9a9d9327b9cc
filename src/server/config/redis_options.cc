#include <string>

#include "server/config/config.h"
#include "server/config/secret.h"
#include "stores/redis/client/target.h"

namespace sluice::server {

std::string find_store_error(const std::string& store, const RedisConfig& redis) {
  if (store == "memory") return {};
  if (store.find("://") == store.npos) {
    return "unknown store; expected memory, or the URL of a Redis server, such as "
           "redis://127.0.0.1:6379";
  }
  // Files are not read. It matters only whether there is a password.
  RedisOptions options{.url = store, .username = redis.options.username};
  const auto placeholder = [](const SecretSource& source) { return source.is_set() ? "-" : ""; };
  options.password = placeholder(redis.password);
  options.sentinel_username = redis.options.sentinel_username;
  options.sentinel_password = placeholder(redis.sentinel_password);
  const auto target = redis::make_target(options);
  return target ? std::string() : target.error();
}

Expected<RedisOptions> redis_options(const Config& config) {
  const RedisConfig& redis = config.redis;
  RedisOptions options = redis.options;
  options.url = config.store;
  auto password = read_password(redis.password);
  if (!password) return Unexpected{password.error()};
  options.password = std::move(*password);
  auto of_sentinels = read_password(redis.sentinel_password);
  if (!of_sentinels) return Unexpected{of_sentinels.error()};
  options.sentinel_password = std::move(*of_sentinels);
  if (const auto target = redis::make_target(options); !target) {
    return Unexpected{"the store: " + target.error()};
  }
  return options;
}

RuleTerms rule_terms(const Config& config) noexcept {
  const bool in_memory = config.store == "memory";
  return {.scripting = in_memory || config.redis.options.scripting,
          .max_log_bytes = in_memory ? config.max_log_bytes : 0,
          .leases = !in_memory,
          .in_redis = !in_memory};
}

std::string rules_key(const RedisConfig& redis) {
  return redis.rules_key.empty() ? redis.options.prefix + "rules" : redis.rules_key;
}

}  // namespace sluice::server
