#include "server/config/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"
#include "server/config/config.h"

namespace sluice::server::config {
namespace {

using rules::schema::Key;
using rules::schema::Map;

const std::filesystem::path kSource = SLUICE_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ConfigSchema, MatchesTheManual) {
  EXPECT_TRUE(text_of(kSource / "docs/reference/config.md")
                  .ends_with("\n" + rules::schema::reference(file())))
      << "docs/reference/config.md does not end with what `sluice docs config` prints";
}

TEST(ConfigSchema, MatchesTheSchemaForEditors) {
  EXPECT_TRUE(text_of(kSource / "docs/config.schema.json") == json_schema())
      << "docs/config.schema.json differs from what `sluice docs config --schema` prints";
}

TEST(ConfigSchema, ReportsTheDefaultAddressesOfConfig) {
  for (const ListenAddress& one : kListenAddresses) {
    EXPECT_EQ(one.otherwise, "`" + Config().*one.address + "`") << one.key;
  }
}

TEST(ConfigSchema, ExamplesOfTheManualAreValid) {
  const std::string manual = text_of(kSource / "docs/config.md");
  const std::string fence = "```yaml\n";
  int examples = 0;
  for (std::size_t at = manual.find(fence); at != manual.npos; at = manual.find(fence, at)) {
    at += fence.size();
    const auto config = parse_config(manual.substr(at, manual.find("```", at) - at), "f");
    EXPECT_TRUE(config.has_value()) << config.error().front().to_string();
    ++examples;
  }
  EXPECT_EQ(examples, 6);
}

// Returns a default as the example writes it: that of the reference without backquotes.
std::string written(std::string_view otherwise) {
  std::string out(otherwise);
  out.erase(std::remove(out.begin(), out.end(), '`'), out.end());
  return out == "\"\"" ? "" : out;
}

// Checks that the example names every key with the default of the reference.
void expect_defaults(const rules::Node& node, const Map& map) {
  for (const Key& key : map.keys) {
    const auto found = std::find_if(node.pairs.begin(), node.pairs.end(),
                                    [&](const auto& pair) { return pair.first->text == key.name; });
    ASSERT_NE(found, node.pairs.end()) << "the example lacks " << key.name;
    const rules::Node& value = *found->second;
    EXPECT_FALSE(key.help.empty()) << key.name;
    if (key.map != nullptr && !value.is_sequence()) {
      expect_defaults(value, *key.map);
    } else if (value.is_sequence()) {
      EXPECT_EQ(written(key.otherwise), "[]") << key.name;
      EXPECT_TRUE(value.items.empty()) << key.name;
    } else if (!key.required) {
      EXPECT_EQ(value.text, written(key.otherwise)) << key.name;
    }
  }
}

TEST(ConfigSchema, ExampleNamesEveryKeyWithItsDefault) {
  const std::string text = text_of(kSource / "examples/sluice.yaml");
  rules::Diagnostics diagnostics(text, "examples/sluice.yaml");
  const rules::Document document = read_yaml(diagnostics);
  ASSERT_NE(document.root, nullptr);
  expect_defaults(*document.root, file());
}

void expect_equal(const Bounds& a, const Bounds& b) {
  EXPECT_EQ(a.header_bytes, b.header_bytes);
  EXPECT_EQ(a.body_bytes, b.body_bytes);
  EXPECT_EQ(a.header_timeout, b.header_timeout);
  EXPECT_EQ(a.body_timeout, b.body_timeout);
  EXPECT_EQ(a.write_timeout, b.write_timeout);
  EXPECT_EQ(a.idle_timeout, b.idle_timeout);
  EXPECT_EQ(a.connections, b.connections);
  EXPECT_EQ(a.requests_per_connection, b.requests_per_connection);
}

void expect_equal(const LogOptions& a, const LogOptions& b) {
  EXPECT_EQ(a.level, b.level);
  EXPECT_EQ(a.json, b.json);
  EXPECT_EQ(a.keys, b.keys);
  EXPECT_EQ(a.denials_per_second, b.denials_per_second);
  EXPECT_EQ(a.access, b.access);
}

void expect_equal(const RedisOptions& a, const RedisOptions& b) {
  EXPECT_EQ(a.username, b.username);
  EXPECT_EQ(a.sentinel_username, b.sentinel_username);
  EXPECT_EQ(a.tls_ca_file, b.tls_ca_file);
  EXPECT_EQ(a.tls_cert_file, b.tls_cert_file);
  EXPECT_EQ(a.tls_key_file, b.tls_key_file);
  EXPECT_EQ(a.tls_server_name, b.tls_server_name);
  EXPECT_EQ(a.tls_verify, b.tls_verify);
  EXPECT_EQ(a.prefix, b.prefix);
  EXPECT_EQ(a.deadline, b.deadline);
  EXPECT_EQ(a.connect_timeout, b.connect_timeout);
  EXPECT_EQ(a.max_pending, b.max_pending);
  EXPECT_EQ(a.protocol, b.protocol);
  EXPECT_EQ(a.scripting, b.scripting);
  EXPECT_EQ(a.module, b.module);
}

void expect_equal(const RedisConfig& a, const RedisConfig& b) {
  expect_equal(a.options, b.options);
  EXPECT_EQ(a.password, b.password);
  EXPECT_EQ(a.sentinel_password, b.sentinel_password);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_EQ(a.deny_cache_enabled, b.deny_cache_enabled);
  EXPECT_EQ(a.deny_cache.max_keys, b.deny_cache.max_keys);
  EXPECT_EQ(a.deny_cache.longest, b.deny_cache.longest);
  EXPECT_EQ(a.breaker.failures, b.breaker.failures);
  EXPECT_EQ(a.breaker.open_for, b.breaker.open_for);
  EXPECT_EQ(a.breaker.longest_open, b.breaker.longest_open);
  EXPECT_EQ(a.rules_key, b.rules_key);
}

void expect_equal(const Config& a, const Config& b) {
  EXPECT_EQ(a.http, b.http);
  EXPECT_EQ(a.grpc, b.grpc);
  EXPECT_EQ(a.resp, b.resp);
  EXPECT_EQ(a.admin, b.admin);
  EXPECT_EQ(a.store, b.store);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.max_keys, b.max_keys);
  EXPECT_EQ(a.max_log_bytes, b.max_log_bytes);
  expect_equal(a.redis, b.redis);
  EXPECT_EQ(a.rules, b.rules);
  EXPECT_EQ(a.rules_in_redis, b.rules_in_redis);
  EXPECT_EQ(a.watch, b.watch);
  EXPECT_EQ(a.trusted_proxies, b.trusted_proxies);
  EXPECT_EQ(a.admin_token, b.admin_token);
  EXPECT_EQ(a.clients.size(), b.clients.size());
  EXPECT_EQ(a.hosts, b.hosts);
  expect_equal(a.bounds, b.bounds);
  EXPECT_EQ(a.resp_users.size(), b.resp_users.size());
  EXPECT_EQ(a.resp_idle_timeout, b.resp_idle_timeout);
  EXPECT_EQ(a.drain_delay, b.drain_delay);
  EXPECT_EQ(a.drain_timeout, b.drain_timeout);
  EXPECT_EQ(a.handover, b.handover);
  expect_equal(a.log, b.log);
  EXPECT_EQ(a.record.file, b.record.file);
  EXPECT_EQ(a.record.share, b.record.share);
  EXPECT_EQ(a.record.sample_by, b.record.sample_by);
  EXPECT_EQ(a.record.max_bytes, b.record.max_bytes);
  EXPECT_EQ(a.record.attributes, b.record.attributes);
  EXPECT_EQ(a.record.hash, b.record.hash);
}

TEST(ConfigSchema, ExampleAndAnEmptyFileAreTheDefaults) {
  const auto example = load_config(kSource / "examples/sluice.yaml");
  ASSERT_TRUE(example.has_value()) << example.error().front().to_string();
  expect_equal(*example, Config{});
  const auto least = parse_config("version: 1\n", "f");
  ASSERT_TRUE(least.has_value());
  expect_equal(*least, Config{});
}

}  // namespace
}  // namespace sluice::server::config
