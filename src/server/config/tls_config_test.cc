#include <gtest/gtest.h>

#include <string>

#include "server/config/config.h"

namespace sluice::server::tls_config_test {
namespace {

std::string errors_with(const std::string& yaml) {
  const auto config = parse_config("version: 1\n" + yaml, "f");
  std::string all;
  if (config) return all;
  for (const RuleError& error : config.error()) all += error.to_string() + "\n";
  return all;
}

TEST(TlsConfig, IsReadForEachListener) {
  for (const ListenAddress& one : kListenAddresses) {
    const auto config = parse_config(
        "version: 1\n" + std::string(one.key) +
            ": { tls: { cert_file: a.crt, key_file: /b.key, client_ca_file: ca.crt } }\n",
        "/etc/sluice/f");
    ASSERT_TRUE(config.has_value()) << one.key;
    for (const ListenAddress& other : kListenAddresses) {
      const net::TlsFiles& files = *config.*other.tls;
      const bool same = one.key == other.key;
      EXPECT_EQ(files.cert_file, same ? "/etc/sluice/a.crt" : "");
      EXPECT_EQ(files.key_file, same ? "/b.key" : "");
      EXPECT_EQ(files.client_ca_file, same ? "/etc/sluice/ca.crt" : "");
      EXPECT_TRUE(files.requires_client);
    }
  }
}

TEST(TlsConfig, ClientCertificatesMayBeOptional) {
  const auto config = parse_config(R"(
version: 1
resp:
  tls: { cert_file: a, key_file: b, client_ca_file: c, client_certificate: optional }
)",
                                   "f");
  ASSERT_TRUE(config.has_value());
  EXPECT_FALSE(config->resp_tls.requires_client);
}

TEST(TlsConfig, ReportsMissingFiles) {
  for (const char* listener : {"http", "grpc", "resp", "admin"}) {
    for (const char* files : {"cert_file: a", "key_file: a", "client_ca_file: a"}) {
      EXPECT_NE(errors_with(std::string(listener) + ": { tls: { " + files + " } }")
                    .find("'tls' lacks a file; expected both 'cert_file' and 'key_file'"),
                std::string::npos)
          << listener << files;
    }
  }
  EXPECT_EQ(
      errors_with("http: { tls: { cert_file: a, key_file: b, client_certificate: optional } }"),
      "f:2:63: error: 'client_certificate' without 'client_ca_file'; expected the authorities of "
      "the certificates\n");
}

TEST(ClientCertificates, NameAClientOrAUser) {
  const auto config = parse_config(R"(
version: 1
http: { tls: { cert_file: a, key_file: b, client_ca_file: c } }
clients:
  - { name: shop, certificate: shop.internal }
  - { name: batch, role: operate, certificate: "spiffe://a/b", token_env: BATCH_TOKEN }
resp:
  tls: { cert_file: a, key_file: b, client_ca_file: c }
  users: [ { name: ops, certificate: ops.internal } ]
)",
                                   "f");
  ASSERT_TRUE(config.has_value()) << config.error().front().to_string();
  EXPECT_EQ(config->clients[0].certificate, "shop.internal");
  EXPECT_FALSE(config->clients[0].source.is_set());
  EXPECT_EQ(config->clients[1].certificate, "spiffe://a/b");
  EXPECT_EQ(config->clients[1].source.variable, "BATCH_TOKEN");
  EXPECT_EQ(config->resp_users[0].certificate, "ops.internal");
}

TEST(ClientCertificates, NeedAListenerThatAsksForThem) {
  EXPECT_EQ(errors_with("clients: [ { name: shop, certificate: a } ]\n"
                        "resp: { tls: { cert_file: a, key_file: b, client_ca_file: c } }"),
            "f:2:10: error: 'certificate' of a client, but no listener asks for it; expected 'tls' "
            "with 'client_ca_file' in 'http', 'grpc' or 'admin'\n");
  EXPECT_EQ(errors_with("resp: { users: [ { name: shop, certificate: a } ] }\n"
                        "http: { tls: { cert_file: a, key_file: b, client_ca_file: c } }"),
            "f:2:7: error: 'certificate' of a client, but no listener asks for it; expected 'tls' "
            "with 'client_ca_file' in 'resp'\n");
}

TEST(ClientCertificates, BelongToOneClient) {
  EXPECT_EQ(errors_with("http: { tls: { cert_file: a, key_file: b, client_ca_file: c } }\n"
                        "clients:\n  - { name: a, certificate: x }\n"
                        "  - { name: b, certificate: x }\n"),
            "f:5:5: error: two clients have the same certificate; expected different "
            "certificates\n");
}

}  // namespace
}  // namespace sluice::server::tls_config_test
