#include "server/config/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

// Returns every error of a file, one for each line, or "ok".
std::string errors_of(std::string_view yaml) {
  const auto config = parse_config(yaml, "f");
  if (config) return "ok";
  std::string out;
  for (const RuleError& error : config.error()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

// Returns the errors of a file with this second line.
std::string errors_with(const std::string& line) { return errors_of("version: 1\n" + line + "\n"); }

TEST(Config, ReadsEveryKey) {
  const auto config = parse_config(R"(
version: 1
listen: { http: "0.0.0.0:80", grpc: off, resp: "unix:r.sock", admin: "unix:/run/a.sock" }
store: memory
memory: { max_keys: 128, max_log_bytes: 4096, snapshot: counters, snapshot_interval: 5s }
rules: [rules.d, /etc/rules.yaml]
watch: false
trusted_proxies: [10.0.0.0/8, unix]
threads: 3
admin: { token_file: secret/token }
bounds: { header_bytes: 1024, body_bytes: 2048, header_timeout: 1s, body_timeout: 2s,
  write_timeout: 3s, idle_timeout: 4s, connections: 5, requests_per_connection: 6 }
drain: { delay: 7s, timeout: 8500ms }
log: { level: warning, format: json, keys: hash, denials_per_second: 0, access: true }
record: { file: requests.jsonl, share: 5, sample_by: header.X-User, max_bytes: 20000000,
  attributes: [body.email], hash: [header.X-User] }
ledger: { to: "file:ledger.jsonl", flush: 20ms }
quota: { every: 200ms, idle: 30s, ttl: 8s }
)",
                                   "/etc/sluice/sluice.yaml");
  ASSERT_TRUE(config.has_value()) << config.error().front().to_string();
  EXPECT_EQ(config->record.file, "/etc/sluice/requests.jsonl");
  EXPECT_EQ(config->record.share, 5u);
  EXPECT_EQ(config->record.sample_by, "header.x-user");
  EXPECT_EQ(config->record.max_bytes, 20'000'000u);
  EXPECT_EQ(config->record.attributes, std::vector<std::string>{"body.email"});
  EXPECT_EQ(config->record.hash, std::vector<std::string>{"header.x-user"});
  EXPECT_EQ(config->ledger.file, "/etc/sluice/ledger.jsonl");
  EXPECT_EQ(config->ledger.flush, 20ms);
  EXPECT_EQ(config->quota.every, 200ms);
  EXPECT_EQ(config->quota.idle, 30s);
  EXPECT_EQ(config->quota.ttl, 8s);
  EXPECT_EQ(config->http, "0.0.0.0:80");
  EXPECT_EQ(config->grpc, "off");
  EXPECT_EQ(config->resp, "unix:/etc/sluice/r.sock");
  EXPECT_EQ(config->admin, "unix:/run/a.sock");
  EXPECT_EQ(config->store, "memory");
  EXPECT_EQ(config->max_keys, 128u);
  EXPECT_EQ(config->max_log_bytes, 4096u);
  EXPECT_EQ(config->snapshot, "/etc/sluice/counters");
  EXPECT_EQ(config->snapshot_interval, 5s);
  EXPECT_EQ(find_conflict(*config), "");
  EXPECT_EQ(config->rules, (std::vector<std::string>{"/etc/sluice/rules.d", "/etc/rules.yaml"}));
  EXPECT_FALSE(config->watch);
  EXPECT_EQ(config->trusted_proxies, (std::vector<std::string>{"10.0.0.0/8", "unix"}));
  EXPECT_EQ(config->threads, 3u);
  EXPECT_EQ(config->admin_token.file, "/etc/sluice/secret/token");
  EXPECT_EQ(config->admin_token.variable, "");
  EXPECT_EQ(config->bounds.header_bytes, 1024u);
  EXPECT_EQ(config->bounds.body_bytes, 2048u);
  EXPECT_EQ(config->bounds.header_timeout, 1s);
  EXPECT_EQ(config->bounds.body_timeout, 2s);
  EXPECT_EQ(config->bounds.write_timeout, 3s);
  EXPECT_EQ(config->bounds.idle_timeout, 4s);
  EXPECT_EQ(config->bounds.connections, 5u);
  EXPECT_EQ(config->bounds.requests_per_connection, 6u);
  EXPECT_EQ(config->drain_delay, 7s);
  EXPECT_EQ(config->drain_timeout, 8500ms);
  EXPECT_EQ(config->log.level, LogLevel::kWarning);
  EXPECT_TRUE(config->log.json);
  EXPECT_EQ(config->log.keys, LogKeys::kHash);
  EXPECT_EQ(config->log.denials_per_second, 0u);
  EXPECT_TRUE(config->log.access);
}

TEST(Config, AcceptsAWordForTheLifeOfAnAssignment) {
  const auto config = parse_config("version: 1\nquota: { ttl: auto }\n", "f");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->quota.ttl, 0ms);
  EXPECT_EQ(errors_with("quota: { ttl: 10ms }"),
            "f:2:15: error: 'ttl' is '10ms'; expected a period from 1s to 1d, or auto");
}

TEST(Config, AcceptsOnePathAsAListOfOne) {
  const auto config = parse_config("version: 1\nrules: a.yaml\nadmin: { token_env: TOKEN }\n", "f");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->rules, std::vector<std::string>{"a.yaml"});
  EXPECT_EQ(config->admin_token.variable, "TOKEN");
}

TEST(Config, ReportsAllErrorsWithTheirPlaces) {
  EXPECT_EQ(
      errors_of("listen: { http: 80, grcp: off }\nstore: disk\nlog: { level: loud }\n"),
      "f:1:1: error: file lacks 'version'; expected 'version:' with 1\n"
      "f:1:17: error: '80' is not an address; expected host:port, [v6]:port, unix:PATH or off\n"
      "f:1:21: error: unknown key 'grcp'; expected one of: http, grpc, resp, admin; did you "
      "mean 'grpc'?\n"
      "f:2:8: error: unknown store; expected memory, or the URL of a Redis server, such as "
      "redis://127.0.0.1:6379, or quota://HOST:PORT of another Sluice\n"
      "f:3:15: error: 'level' is 'loud'; expected debug, info, warning, error or off");
  EXPECT_EQ(errors_of(""),
            "f:1:1: error: the file is empty; expected a map that begins with 'version: 1'");
}

TEST(Config, WritesNoFileTwice) {
  const auto conflict = [](const std::string& text) {
    return find_conflict(*parse_config("version: 1\n" + text, "/etc/f"));
  };
  EXPECT_EQ(conflict("memory: { snapshot: a }\nledger: file:./x/../a\n"),
            "memory.snapshot and ledger are one file, /etc/a; expected a file for each");
  EXPECT_EQ(conflict("ledger: file:/b\nrecord: { file: /b }\n"),
            "ledger and record.file are one file, /b; expected a file for each");
  EXPECT_EQ(conflict("memory: { snapshot: a }\nledger: file:b\nrecord: { file: c }\n"), "");
  EXPECT_EQ(conflict("log: { level: info }\n"), "");
}

TEST(Config, KeepsTheCountersOfAMemoryStoreOnly) {
  auto config = parse_config("version: 1\nmemory: { snapshot: /var/lib/sluice/counters }\n", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->snapshot, "/var/lib/sluice/counters");
  EXPECT_EQ(config->snapshot_interval, 60s);
  config->store = "redis://secret@127.0.0.1";
  EXPECT_EQ(find_conflict(*config),
            "memory.snapshot keeps the counters of this process, but the store is in Redis, which "
            "keeps them itself; expected the store memory, or no memory.snapshot");
  config = parse_config("version: 1\nledger: file:ledger.jsonl\n", "/etc/f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->ledger.file, "/etc/ledger.jsonl");
  EXPECT_EQ(config->ledger.flush, 1s);
  config->store = "redis://127.0.0.1";
  EXPECT_EQ(find_conflict(*config),
            "the ledger is a file of the budgets of this process, but the store is in Redis; "
            "expected ledger: redis, or the store memory");
  EXPECT_EQ(errors_with("ledger: off"), "ok");
  config = parse_config("version: 1\nledger: { to: redis, keep: 7 }\n", "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(find_conflict(*config),
            "a ledger in Redis needs a store in Redis, but the store is memory; expected --store "
            "URL, or ledger: file:PATH");
  config->store = "redis://127.0.0.1";
  EXPECT_EQ(find_conflict(*config), "");
  EXPECT_EQ(redis_options(*config)->ledger_keep, 7u);
  EXPECT_EQ(errors_with("ledger: none"),
            "f:2:9: error: the ledger is 'none'; expected file:PATH, such as "
            "file:/var/lib/sluice/ledger.jsonl, or redis, or off");
  EXPECT_EQ(errors_with("ledger: { to: 'file:' }"),
            "f:2:15: error: the ledger is 'file:'; expected file:PATH, such as "
            "file:/var/lib/sluice/ledger.jsonl, or redis, or off");
  EXPECT_EQ(errors_with("ledger: [off]"),
            "f:2:9: error: 'ledger' is a list; expected a text, or a map of ledger");
}

TEST(Config, ChecksEveryRange) {
  EXPECT_EQ(errors_with("memory: { max_keys: 127 }"),
            "f:2:21: error: 'max_keys' is '127'; expected a whole number from 128 to 4294967296");
  EXPECT_EQ(errors_with("threads: 1025"),
            "f:2:10: error: 'threads' is '1025'; expected a whole number from 0 to 1024");
  EXPECT_EQ(errors_with("bounds: { idle_timeout: 0s }"),
            "f:2:25: error: 'idle_timeout' is '0s'; expected a period from 1ms to 366d");
  EXPECT_EQ(errors_with("drain: { timeout: 367d }"),
            "f:2:19: error: 'timeout' is '367d'; expected a period from 0ms to 366d");
  EXPECT_TRUE(errors_with("drain: { timeout: 10 }").ends_with("such as 10s"));
  EXPECT_TRUE(errors_with("redis: { deadline: 20 }").ends_with("such as 20ms"));
  EXPECT_EQ(errors_with("bounds: { header_bytes: 32K }"),
            "f:2:25: error: 'header_bytes' is '32K'; expected a whole number from 1024 to 1048576, "
            "in plain digits");
  EXPECT_EQ(errors_with("rules: ['']"),
            "f:2:9: error: 'rules' is empty; expected text of 1 to 4096 bytes, or a list of texts");
  EXPECT_EQ(errors_with("rules: { a: b }"),
            "f:2:8: error: 'rules' is a map; expected text of 1 to 4096 bytes, or a list of texts, "
            "in quotes");
}

TEST(Config, ReadsTheReceiverOfOpenTelemetry) {
  const auto config = parse_config(
      "version: 1\notlp: { endpoint: 'http://a:1', ca_file: a.crt, sample: 0.001, slow: 5ms }\n",
      "f");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->otlp.endpoint, "http://a:1");
  EXPECT_EQ(config->otlp.ca_file, "a.crt");
  EXPECT_EQ(config->otlp.sample, 0.001);
  EXPECT_EQ(config->otlp.slow, std::chrono::milliseconds{5});
  for (const char* share : {"1.1", "-0.1", "1%", "nan", "'0.5'"}) {
    EXPECT_TRUE(errors_with("otlp: { sample: " + std::string(share) + " }")
                    .ends_with("; expected a number from 0 to 1, such as 0.01"))
        << share;
  }
  EXPECT_EQ(errors_with("otlp: { endpoint: 'ftp://a:1' }"),
            "f:2:19: error: the endpoint is 'ftp://a:1'; expected http://HOST:PORT, such as "
            "http://127.0.0.1:4318, or https://HOST:PORT");
}

TEST(Config, ReportsThePlaceOfAnInvalidProxy) {
  EXPECT_EQ(errors_with("trusted_proxies: [10.0.0.0/8, nobody]").substr(0, 14), "f:2:31: error:");
  EXPECT_EQ(errors_with("trusted_proxies: nobody").substr(0, 14), "f:2:18: error:");
}

TEST(Config, RefusesTwoListenersAtOneAddress) {
  EXPECT_EQ(errors_with("listen: { http: '127.0.0.1:6070' }"),
            "f:2:9: error: 'admin' has the address of 'http'; expected another address for each "
            "listener");
  EXPECT_EQ(errors_with("listen: { http: 'unix:a', admin: 'unix:./a' }"), "ok");
  EXPECT_EQ(errors_with("listen: { http: 'unix:a', grpc: 'unix:a' }"),
            "f:2:33: error: 'grpc' has the address of 'http'; expected another address for each "
            "listener");
  EXPECT_EQ(errors_with("listen: { http: 'a:0', grpc: 'a:0', resp: off, admin: off }"), "ok");
}

TEST(Config, AcceptsOnlyOneSourceOfTheToken) {
  EXPECT_EQ(errors_with("admin: { token_file: a, token_env: B }"),
            "f:2:36: error: both 'token_file' and 'token_env'; expected one of them");
  EXPECT_EQ(errors_with("admin: { token_env: A=B }"),
            "f:2:21: error: 'token_env' is 'A=B'; expected the name of an environment variable, "
            "such as SLUICE_TOKEN");
}

TEST(Config, IsLoadedFromAFileAndFindsFilesNextToIt) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice-config-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "sluice.yaml";
  std::ofstream(path) << "version: 1\nrules: rules.yaml\n";
  const auto config = load_config(path);
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(config->rules, std::vector<std::string>{folder / "rules.yaml"});
  const auto missing = load_config(folder / "none.yaml");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().front().to_string(),
            (folder / "none.yaml").string() +
                ":1:1: error: the file cannot be opened: No such file or directory; expected a "
                "file that can be read");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::server
