#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include "server/config/config.h"
#include "stores/redis/client/client.h"

namespace sluice::server {
namespace {

constexpr std::size_t kLongest = 4096;

// One line, at most kLongest bytes of it, without its end.
Expected<std::string> checked(std::string text, const std::string& source) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Unexpected{source + " is empty; expected a password"};
  if (text.size() > kLongest || text.find('\n') != text.npos) {
    return Unexpected{source + " is no password; expected one line of at most 4096 bytes"};
  }
  return text;
}

Expected<std::string> read_secret_file(const std::string& path) {
  const std::string source = "password file " + path;
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kLongest + 3, '\0');
  if (stream) stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad()) {
    return Unexpected{source + " cannot be read: " + std::system_category().message(errno)};
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return checked(std::move(text), source);
}

// Empty where there is neither.
Expected<std::string> secret(const std::string& file, const std::string& variable) {
  if (!file.empty()) return read_secret_file(file);
  if (variable.empty()) return std::string();
  const char* const value = std::getenv(variable.c_str());
  if (value == nullptr) return Unexpected{"environment variable " + variable + " is not set"};
  return checked(value, "environment variable " + variable);
}

}  // namespace

std::string find_store_error(const std::string& store, const RedisConfig& redis) {
  if (store == "memory") return {};
  if (store.find("://") == store.npos) {
    return "there is no such store; expected memory, or the URL of a Redis, such as "
           "redis://127.0.0.1:6379";
  }
  // What is in files is not looked at; that there is a password, is.
  RedisOptions options{.url = store, .username = redis.options.username};
  const auto placeholder = [](const std::string& file, const std::string& variable) {
    return std::string(file.empty() && variable.empty() ? "" : "-");
  };
  options.password = placeholder(redis.password_file, redis.password_env);
  options.sentinel_username = redis.options.sentinel_username;
  options.sentinel_password =
      placeholder(redis.sentinel_password_file, redis.sentinel_password_env);
  const auto target = redis::make_target(options);
  return target ? std::string() : target.error();
}

Expected<RedisOptions> redis_options(const Config& config) {
  const RedisConfig& redis = config.redis;
  RedisOptions options = redis.options;
  options.url = config.store;
  auto password = secret(redis.password_file, redis.password_env);
  if (!password) return Unexpected{password.error()};
  options.password = std::move(*password);
  auto of_sentinels = secret(redis.sentinel_password_file, redis.sentinel_password_env);
  if (!of_sentinels) return Unexpected{of_sentinels.error()};
  options.sentinel_password = std::move(*of_sentinels);
  if (const auto target = redis::make_target(options); !target) {
    return Unexpected{"the store: " + target.error()};
  }
  return options;
}

RuleTerms rule_terms(const Config& config) noexcept {
  return {.scripting = config.store == "memory" || config.redis.options.scripting};
}

std::string rules_key(const RedisConfig& redis) {
  return redis.rules_key.empty() ? redis.options.prefix + "rules" : redis.rules_key;
}

}  // namespace sluice::server
