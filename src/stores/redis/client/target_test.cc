#include "stores/redis/client/target.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

Expected<std::shared_ptr<const Target>> of(const std::string& url, RedisOptions options = {}) {
  options.url = url;
  return make_target(options);
}
std::string error_of(const std::string& url, const RedisOptions& options = {}) {
  const auto target = of(url, options);
  return target ? "no error" : target.error();
}
std::string servers_of(const Target& target) {
  std::string out;
  for (const ServerAddress& one : target.servers) out += one.to_string() + " ";
  return out;
}

TEST(Target, IsOneServer) {
  const auto target = of("redis://redis.example:7000/3").value();
  EXPECT_EQ(target->kind, Target::Kind::kStandalone);
  EXPECT_EQ(servers_of(*target), "redis.example:7000 ");
  EXPECT_EQ(target->database, 3);
  EXPECT_EQ(target->tls, nullptr);
  EXPECT_EQ(servers_of(*of("redis://redis.example").value()), "redis.example:6379 ");
  EXPECT_EQ(servers_of(*of("redis://127.0.0.1/").value()), "127.0.0.1:6379 ");
  EXPECT_EQ(servers_of(*of("redis://[::1]").value()), "[::1]:6379 ");
  EXPECT_EQ(servers_of(*of("redis://[fe80::1]:7000/0").value()), "[fe80::1]:7000 ");
}

TEST(Target, IsAUnixSocket) {
  const auto target = of("redis+unix:///run/my%20redis.sock?db=2").value();
  EXPECT_EQ(target->kind, Target::Kind::kStandalone);
  EXPECT_EQ(servers_of(*target), "/run/my redis.sock ");
  EXPECT_EQ(target->database, 2);
}

TEST(Target, IsTheMasterOfSentinels) {
  const auto target = of("redis+sentinel://a,b:5000,[::1]/my%2Fmaster/4").value();
  EXPECT_EQ(target->kind, Target::Kind::kSentinel);
  EXPECT_EQ(servers_of(*target), "a:26379 b:5000 [::1]:26379 ");
  EXPECT_EQ(target->master, "my/master");
  EXPECT_EQ(target->database, 4);
}

TEST(Target, IsACluster) {
  const auto target = of("redis+cluster://a:7000,b").value();
  EXPECT_EQ(target->kind, Target::Kind::kCluster);
  EXPECT_EQ(servers_of(*target), "a:7000 b:6379 ");
}

TEST(Target, UsesTlsIfTheSchemeSaysSo) {
  for (const std::string scheme : {"rediss://a", "rediss+sentinel://a/m", "rediss+cluster://a"}) {
    EXPECT_NE(of(scheme).value()->tls, nullptr) << scheme;
  }
}

TEST(Target, DecodesUserAndPasswordAndHidesThePassword) {
  const auto target = of("redis://us%40er:p%3A%25%2F@host/1").value();
  EXPECT_EQ(target->options.username, "us@er");
  EXPECT_EQ(target->options.password, "p:%/");
  EXPECT_EQ(target->shown, "redis://us%40er@host/1");
  EXPECT_EQ(target->options.url, target->shown);
  const auto nameless = of("redis://:secret@host").value();
  EXPECT_EQ(nameless->options.username, "");
  EXPECT_EQ(nameless->options.password, "secret");
  EXPECT_EQ(nameless->shown, "redis://host");
  EXPECT_EQ(of("redis+unix://u:secret@/run/r.sock").value()->shown, "redis+unix://u@/run/r.sock");
}

TEST(Target, UsesTheOptionsInsteadOfTheUrlsPassword) {
  const auto target = of("redis://a:b@host", {.username = "user", .password = "pass"}).value();
  EXPECT_EQ(target->options.username, "user");
  EXPECT_EQ(target->options.password, "pass");
}

TEST(Target, ReportsWhatIsWrongWithAUrlAndWhatIsRight) {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "the URL has no scheme; redis://host:port/db, rediss://..."},
      {"localhost:6379", "the URL has no scheme; redis://host:port/db"},
      {"http://host", "the URL has an unknown scheme 'http'; redis://host:port/db"},
      {"redis://", "the URL has no host ''; a name or an address, such as 127.0.0.1:6379"},
      {"redis://host:0", "the URL has no port '0'; a port is a number from 1 to 65535"},
      {"redis://host:65536", "the URL has no port '65536'; a port is"},
      {"redis://host:", "the URL has no port ''; a port is"},
      {"redis://ho st", "the URL has a space or control character at byte 10; such bytes"},
      {"redis://::1:6379",
       "the URL has more than one ':' in '::1:6379'; an IPv6 address is written in"},
      {"redis://[::1", "the URL has no IPv6 address in brackets: '[::1'; such as [::1]:6379"},
      {"redis://[::1]6379", "the URL has '6379' after an IPv6 address; a port"},
      {"redis://host/x", "the URL has no database 'x'; a database is a number from 0"},
      {"redis://host/-1", "the URL has no database '-1'; a database is"},
      {"redis://host/1/2", "the URL has no database '1/2'; a database is"},
      {"redis://host?db=1", "the URL has '?db=1'; no query"},
      {"redis://host#x", "the URL has a '#'; it is written as %23"},
      {"redis://a,b", "the URL names 2 servers; one, or redis+sentinel:// or redis+cluster://"},
      {"redis://u:p/q@host", "the URL has an '@' after a '/' or '?'; in a password these are"},
      {"redis://u:%4@host", "the URL's password has a '%' without two hexadecimal digits"},
      {"redis://u:%zz@host", "the URL's password has a '%' without two hexadecimal digits"},
      {"redis://user@host", "there is a user name but no password; user:password@ in the URL"},
      {"redis+unix://host/run/r.sock", "the URL of a Unix socket names a host; redis+unix:///"},
      {"redis+unix://", "the URL names no Unix socket; redis+unix:///path/to.sock"},
      {"redis+unix:///r.sock?x=1", "the URL of a Unix socket has 'x=1' after its '?'; only ?db=N"},
      {"redis+unix:///" + std::string(200, 'x'), "the URL's path has 201 bytes; a Unix socket's"},
      {"redis+sentinel://a,b", "the URL does not name the master that the Sentinels watch"},
      {"redis+sentinel://a,,b/m", "the URL has no host ''; a name or an address"},
      {"redis+cluster://a/1", "the URL has database 1; a cluster has only database 0"},
  };
  for (const auto& [url, error] : wrong) {
    EXPECT_EQ(error_of(url).substr(0, error.size()), error) << url;
  }
}

TEST(Target, NeverShowsAPasswordInAnError) {
  for (const std::string url :
       {"redis://u:hush@host:x", "redis://u:hush@", "redis://u:hush@a,b", "redis://u:hu%sh@host",
        "redis://u:hush/@host", "foo://u:hush@host", "redis://u:hush@host/hash?x"}) {
    const std::string error = error_of(url);
    EXPECT_NE(error, "no error") << url;
    EXPECT_EQ(error.find("hush"), error.npos) << error;
  }
}

TEST(Target, ReportsWhatIsWrongWithOptions) {
  const std::string url = "redis://host";
  EXPECT_EQ(error_of(url, {.deadline = 0ms}), "deadline is 0 ms; from 1 ms to a day");
  EXPECT_EQ(error_of(url, {.first_backoff = 10ms, .longest_backoff = 5ms}),
            "longest_backoff is 5 ms; from 10 ms to a day");
  EXPECT_EQ(error_of(url, {.max_pending = 0}), "max_pending is 0; at least 1");
  EXPECT_EQ(error_of(url, {.protocol = 4}), "protocol is 4; 2, 3, or 0 for either");
  EXPECT_EQ(error_of(url, {.explicit_timestamp_expiry = 0ms}),
            "explicit_timestamp_expiry is 0 ms; at least 1 ms");
  EXPECT_EQ(error_of(url, {.sentinel_password = "x"}).find("there is a sentinel_password, but"),
            0u);
  EXPECT_EQ(error_of("redis+sentinel://a/m", {.sentinel_username = "x"}),
            "there is a sentinel_username but no sentinel_password; both, or neither");
}

TEST(Target, ReportsWhatIsWrongWithFilesOfTls) {
  EXPECT_EQ(error_of("redis://host", {.tls_ca_file = "/x"}),
            "tls_ca_file is set, but the URL does not use TLS; a URL that begins with rediss, or "
            "leave it out");
  EXPECT_EQ(error_of("rediss://host", {.tls_ca_file = "/nowhere/ca.crt"}),
            "cannot use the authorities in '/nowhere/ca.crt': No such file or directory");
  EXPECT_EQ(error_of("rediss://host", {.tls_cert_file = "/nowhere/a.crt"}),
            "only one of tls_cert_file and tls_key_file is set; both, or neither");
}

}  // namespace
}  // namespace sluice::redis
