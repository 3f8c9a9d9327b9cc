#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/config/config.h"

namespace sluice::server::redis_config_test {
namespace {

using namespace std::chrono_literals;

// Returns every error of a file with these lines after its version, one for each line, or "ok".
std::string errors_with(const std::string& lines) {
  const auto config = parse_config("version: 1\n" + lines, "f");
  if (config) return "ok";
  std::string out;
  for (const RuleError& error : config.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(RedisConfig, ReadsEveryKey) {
  const auto config = parse_config(R"(
version: 1
store: redis+sentinel://a,b/shop
redis:
  username: u
  password_file: secrets/redis
  sentinel_username: s
  sentinel_password_env: SENTINEL
  tls: { ca_file: ca.pem, cert_file: /c.pem, key_file: k.pem, server_name: redis, verify: false }
  prefix: "shop:"
  deadline: 20ms
  connect_timeout: 2s
  max_pending: 7
  protocol: 2
  scripting: off
  module: off
  nodes: 3
  deny_cache: { enabled: false, max_keys: 70, longest: 500ms }
  leases: { share: 5, max_keys: 800 }
  breaker: { failures: 9, open_for: 3s, longest_open: 4s }
  rules_key: "all rules"
rules: redis
)",
                                   "/etc/sluice/sluice.yaml");
  ASSERT_TRUE(config.has_value()) << config.error().front().to_string();
  EXPECT_EQ(config->store, "redis+sentinel://a,b/shop");
  const RedisConfig& redis = config->redis;
  EXPECT_EQ(redis.options.username, "u");
  EXPECT_EQ(redis.options.password, "");
  EXPECT_EQ(redis.password.file, "/etc/sluice/secrets/redis");
  EXPECT_EQ(redis.options.sentinel_username, "s");
  EXPECT_EQ(redis.sentinel_password.variable, "SENTINEL");
  EXPECT_EQ(redis.options.tls_ca_file, "/etc/sluice/ca.pem");
  EXPECT_EQ(redis.options.tls_cert_file, "/c.pem");
  EXPECT_EQ(redis.options.tls_key_file, "/etc/sluice/k.pem");
  EXPECT_EQ(redis.options.tls_server_name, "redis");
  EXPECT_FALSE(redis.options.tls_verify);
  EXPECT_EQ(redis.options.prefix, "shop:");
  EXPECT_EQ(redis.options.deadline, 20ms);
  EXPECT_EQ(redis.options.connect_timeout, 2s);
  EXPECT_EQ(redis.options.max_pending, 7u);
  EXPECT_EQ(redis.options.protocol, 2);
  EXPECT_FALSE(redis.options.scripting);
  EXPECT_EQ(redis.options.module, ModuleUse::kOff);
  EXPECT_EQ(redis.nodes, 3u);
  EXPECT_FALSE(redis.deny_cache_enabled);
  EXPECT_EQ(redis.deny_cache.max_keys, 70u);
  EXPECT_EQ(redis.deny_cache.longest, 500ms);
  EXPECT_EQ(redis.lease_percent, 5u);
  EXPECT_EQ(redis.lease_keys, 800u);
  EXPECT_EQ(redis.breaker.failures, 9u);
  EXPECT_EQ(redis.breaker.open_for, 3s);
  EXPECT_EQ(redis.breaker.longest_open, 4s);
  EXPECT_EQ(rules_key(redis), "all rules");
  EXPECT_TRUE(config->rules_in_redis);
  EXPECT_TRUE(config->rules.empty());
}

TEST(RedisConfig, KeepsTheRulesUnderThePrefixByDefault) {
  EXPECT_EQ(rules_key(RedisConfig{}), "sluice:rules");
}

TEST(RedisConfig, ChecksTheUrlWithItsPlaceAndNeverRepeatsItsPassword) {
  for (const std::string store :
       {"redis", "redis://u:hunter2@a:port", "user:hunter2@a", "http://u:hunter2@a",
        "\"redis://u:hunter2@a/\\x01\"", "redis://u:hunter2@a,b", "redis://:hunter2@a/x",
        "rediss+unix://u:hunter2@/a"}) {
    const std::string errors = errors_with("store: " + store + "\n");
    EXPECT_EQ(errors.substr(0, 11), "f:2:8: erro") << store;
    EXPECT_EQ(errors.find('\n'), errors.npos) << errors;
    EXPECT_NE(errors.find("; "), errors.npos) << errors;
    EXPECT_EQ(errors.find("hunter2"), errors.npos) << errors;
  }
  EXPECT_EQ(errors_with("store: redis+unix:///run/redis.sock?db=1\n"), "ok");
}

TEST(RedisConfig, CountsAPasswordFileAsAPassword) {
  EXPECT_EQ(errors_with("store: redis://u@a\n").substr(0, 14), "f:2:8: error: ");
  EXPECT_EQ(errors_with("store: redis://u@a\nredis: { password_env: P }\n"), "ok");
  EXPECT_EQ(errors_with("store: redis://a\nredis: { username: u, password_file: p }\n"), "ok");
}

TEST(RedisConfig, ReportsTheErrorOfEachKey) {
  EXPECT_EQ(
      errors_with("redis: { prefix: \"{a}\" }\n"),
      "f:2:18: error: 'prefix' is the text '{a}'; expected text without braces, which mark tags");
  EXPECT_EQ(errors_with("redis: { protocol: 1 }\n"),
            "f:2:20: error: 'protocol' is '1'; expected 2, 3, or 0 for the version that the server "
            "supports");
  EXPECT_EQ(errors_with("redis: { scripting: true }\n"),
            "f:2:21: error: 'scripting' is 'true'; expected off or on");
  EXPECT_EQ(errors_with("redis: { password_file: a, password_env: B }\n"),
            "f:2:42: error: both 'password_file' and 'password_env'; expected one of them");
  EXPECT_EQ(errors_with("redis: { password_env: 'A B' }\n"),
            "f:2:24: error: 'password_env' is the text 'A B'; expected the name of an environment "
            "variable, such as REDIS_PASSWORD");
  EXPECT_EQ(errors_with("redis: { password: hunter2 }\n").substr(0, 37),
            "f:2:10: error: unknown key 'password'");
  EXPECT_EQ(errors_with("redis: { breaker: { open_for: 20s } }\n"),
            "f:2:31: error: 'open_for' is longer than 'longest_open'; expected at most "
            "'longest_open', which is 10s by default");
  EXPECT_EQ(errors_with("redis: { deadline: 0ms }\n"),
            "f:2:20: error: 'deadline' is '0ms'; expected a period from 1ms to 1d");
}

TEST(RedisConfig, TakesRulesFromRedisOrFromFiles) {
  EXPECT_EQ(errors_with("rules: [redis, a.yaml]\n"),
            "f:2:9: error: 'rules' has 'redis' among files; expected it alone, or ./redis for a "
            "file with this name");
  const auto file = parse_config("version: 1\nrules: ./redis\n", "f");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->rules, std::vector<std::string>{"./redis"});
  EXPECT_FALSE(file->rules_in_redis);
}

TEST(RedisConfig, ReportsConflicts) {
  Config config;
  EXPECT_EQ(find_conflict(config), "");
  config.rules_in_redis = true;
  EXPECT_EQ(find_conflict(config),
            "rules in Redis need a store in Redis, but the store is memory; expected --store URL, "
            "or rules files");
  config.store = "redis://a";
  EXPECT_EQ(find_conflict(config), "");
  config.http = config.admin;
  EXPECT_EQ(find_conflict(config),
            "HTTP and the administration cannot both listen at 127.0.0.1:6070; expected another "
            "address for one of them");
}

// Files with secrets in a folder of their own.
class RedisSecrets : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& text) {
    std::string path = folder_ / "secret";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string password_from(const std::string& path) {
    Config config;
    config.store = "redis://user:other@a";
    config.redis.password.file = path;
    const auto options = redis_options(config);
    return options ? options->password : options.error();
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("sluice-redis-config-test-" + std::to_string(::getpid()));
};

TEST_F(RedisSecrets, AreReadFromFilesWithoutTheLineEnd) {
  EXPECT_EQ(password_from(file("hunter 2\r\n")), "hunter 2");
  const std::string path = (folder_ / "secret").string();
  EXPECT_EQ(password_from(file("")), "password file " + path + " is empty; expected a password");
  EXPECT_EQ(
      password_from(file("a\nb")),
      "password file " + path + " is not a password; expected one line of at most 4096 bytes");
  EXPECT_EQ(
      password_from(file(std::string(4097, 'x'))),
      "password file " + path + " is not a password; expected one line of at most 4096 bytes");
  EXPECT_EQ(password_from("/nonexistent/p"),
            "password file /nonexistent/p cannot be read: No such file or directory");
  EXPECT_EQ(password_from(folder_).substr(0, 14), "password file ");
}

TEST_F(RedisSecrets, AreReadFromTheEnvironment) {
  Config config;
  config.store = "redis+sentinel://a/m";
  config.redis.options.sentinel_username = "s";
  config.redis.sentinel_password.variable = "SLUICE_TEST_SECRET";
  ::unsetenv("SLUICE_TEST_SECRET");
  const auto missing = redis_options(config);
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error(), "environment variable SLUICE_TEST_SECRET is not set");
  ::setenv("SLUICE_TEST_SECRET", "hunter2", 1);
  const auto options = redis_options(config);
  ::unsetenv("SLUICE_TEST_SECRET");
  ASSERT_TRUE(options.has_value()) << options.error();
  EXPECT_EQ(options->sentinel_password, "hunter2");
  EXPECT_EQ(options->url, "redis+sentinel://a/m");
}

TEST_F(RedisSecrets, ReportAMissingFile) {
  Config config;
  config.store = "rediss://a";
  config.redis.options.tls_ca_file = "/nonexistent/ca.pem";
  const auto options = redis_options(config);
  ASSERT_FALSE(options.has_value());
  EXPECT_NE(options.error().find("/nonexistent/ca.pem"), std::string::npos) << options.error();
}

}  // namespace
}  // namespace sluice::server::redis_config_test
