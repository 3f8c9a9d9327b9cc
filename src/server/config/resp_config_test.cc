#include <gtest/gtest.h>

#include <string>

#include "server/config/config.h"

namespace sluice::server::resp_config_test {
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

TEST(RespConfig, ReadsUsersWithTheFilesOfTheirPasswords) {
  const auto config = parse_config(R"(
version: 1
resp:
  users:
    - { name: default, password_file: secrets/resp }
    - { name: ops, role: admin, password_env: RESP_OPS }
    - { name: batch, role: operate, password_env: RESP_OPS }
    - { name: web, role: check-only, password_env: RESP_OPS }
  idle_timeout: 7m
)",
                                   "/etc/sluice/sluice.yaml");
  ASSERT_TRUE(config.has_value());
  const Config& resp = *config;
  ASSERT_EQ(resp.resp_users.size(), 4u);
  EXPECT_EQ(resp.resp_users[0].name, "default");
  EXPECT_EQ(resp.resp_users[0].role, Role::kCheck);
  EXPECT_EQ(resp.resp_users[0].source.file, "/etc/sluice/secrets/resp");
  EXPECT_EQ(resp.resp_users[1].role, Role::kAdmin);
  EXPECT_EQ(resp.resp_users[1].source.variable, "RESP_OPS");
  EXPECT_EQ(resp.resp_users[2].role, Role::kOperate);
  EXPECT_EQ(resp.resp_users[3].role, Role::kCheck);
  EXPECT_EQ(resp.resp_idle_timeout, 7min);
}

TEST(RespConfig, HasNoUsersAndAnIdleTimeoutByDefault) {
  const auto config = parse_config("version: 1\n", "f");
  ASSERT_TRUE(config.has_value());
  EXPECT_TRUE(config->resp_users.empty());
  EXPECT_EQ(config->resp_idle_timeout, 5min);
}

TEST(RespConfig, ReportsTheErrorOfAUser) {
  EXPECT_EQ(
      errors_with("resp: { users: [ { name: a } ] }"),
      "f:2:18: error: neither 'password_file', 'password_env' nor 'certificate'; expected one "
      "of them");
  EXPECT_EQ(errors_with("resp: { users: [ { name: a, password_file: b, password_env: c } ] }"),
            "f:2:61: error: both 'password_file' and 'password_env'; expected one of them");
  EXPECT_EQ(errors_with("resp: { users: [ { name: a, password_env: 'b c' } ] }"),
            "f:2:43: error: 'password_env' is the text 'b c'; expected the name of an environment "
            "variable, such as RESP_PASSWORD");
  EXPECT_EQ(errors_with("resp: { users: [ { name: a, password_env: B, role: root } ] }"),
            "f:2:52: error: 'role' is 'root'; expected check, operate, admin or check-only");
  EXPECT_EQ(errors_with("resp:\n  users:\n    - { name: a, password_env: B }\n"
                        "    - { name: a, password_env: C }\n"),
            "f:5:7: error: two users have the same name; expected different names");
}

TEST(ClientsConfig, ReadsClientsAndHosts) {
  const auto config = parse_config(R"(
version: 1
clients:
  - { name: shop, token_file: secrets/shop }
  - { name: batch, role: operate, token_env: BATCH_TOKEN }
http: { hosts: [Sluice.Internal, gateway] }
)",
                                   "/etc/sluice/sluice.yaml");
  ASSERT_TRUE(config.has_value());
  const auto& clients = config->clients;
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0].role, Role::kCheck);
  EXPECT_EQ(clients[0].source.file, "/etc/sluice/secrets/shop");
  EXPECT_EQ(clients[1].name, "batch");
  EXPECT_EQ(clients[1].role, Role::kOperate);
  EXPECT_EQ(clients[1].source.variable, "BATCH_TOKEN");
  EXPECT_EQ(config->hosts, (std::vector<std::string>{"sluice.internal", "gateway"}));
}

TEST(ClientsConfig, ReportsTheErrorOfAClientOrAHost) {
  EXPECT_EQ(errors_with("clients: [ { name: a } ]"),
            "f:2:12: error: neither 'token_file', 'token_env' nor 'certificate'; expected one of "
            "them");
  EXPECT_EQ(errors_with("http: { hosts: ['sluice:8080'] }"),
            "f:2:17: error: the host is the text 'sluice:8080'; expected a host name without a "
            "port, such as sluice.internal");
}

}  // namespace
}  // namespace sluice::server::resp_config_test
