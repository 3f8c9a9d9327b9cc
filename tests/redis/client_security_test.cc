// The client of one server: users and their passwords, TLS and its certificates.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/redis/client_probe.h"
#include "tests/redis/redis_server.h"

namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::RedisOptions;

TEST(RedisUser, AuthenticatesWithTheNameAndPasswordOfTheUrl) {
  RedisServer server;
  RedisConnection(server).run({"ACL", "SETUSER", "limits@home", "on", ">p:a/s%s", "~*", "+@all"});
  RedisConnection(server).run({"ACL", "SETUSER", "default", "off"});
  for (const int protocol : {2, 3}) {
    RedisOptions options;
    options.deadline = sluice::testing::kPatience;
    options.protocol = protocol;
    options.url = "redis+unix://limits%40home:p%3Aa%2Fs%25s@" + server.socket();
    Probe probe(options);
    EXPECT_EQ(probe.ask({"ACL", "WHOAMI"}), "limits@home");
    EXPECT_FALSE(probe.saw("p:a"));
  }
}

TEST(RedisUser, ThatIsUnknownGetsAnErrorWithoutThePassword) {
  RedisServer server;
  for (const int protocol : {2, 3}) {
    RedisOptions options;
    options.deadline = sluice::testing::kPatience;
    options.protocol = protocol;
    options.url = "redis+unix://nobody:hushhush@" + server.socket();
    Probe probe(options);
    const std::string said = probe.ask({"PING"});
    EXPECT_EQ(said.find("unavailable: wrong user name or password"), 0u) << said;
    EXPECT_EQ(said.find("hushhush"), said.npos);
    EXPECT_FALSE(probe.saw("hushhush"));
  }
}

TEST(RedisUser, WithoutPermissionForACommandGetsTheError) {
  RedisServer server;
  RedisConnection(server).run({"ACL", "SETUSER", "reader", "on", ">pass", "~*", "+get"});
  RedisOptions options;
  options.deadline = sluice::testing::kPatience;
  options.url = "redis+unix://reader:pass@" + server.socket();
  Probe probe(options);
  EXPECT_EQ(probe.ask({"GET", "key"}), "nil");
  const std::string said = probe.ask({"SET", "key", "1"});
  EXPECT_EQ(said.find("error: NOPERM"), 0u) << said;
}

// Authorities and certificates, created by openssl in a new folder.
class Certificates {
 public:
  Certificates() {
    folder_ = (std::filesystem::temp_directory_path() / "sluice-tls-XXXXXX").string();
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp: " + folder_);
    authority("ca");
    authority("other_ca");
    signed_by("ca", "server", "DNS:localhost,IP:127.0.0.1");
    signed_by("ca", "elsewhere", "DNS:elsewhere.example");
    signed_by("ca", "client", "DNS:client.example");
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string file(const std::string& name) const { return folder_ + "/" + name; }

 private:
  void authority(const std::string& name) {
    openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=" +
            name + " -keyout " + file(name + ".key") + " -out " + file(name + ".crt"));
  }
  void signed_by(const std::string& ca, const std::string& name, const std::string& names) {
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
            " -addext subjectAltName=" + names + " -keyout " + file(name + ".key") + " -out " +
            file(name + ".csr"));
    openssl("x509 -req -days 2 -copy_extensions copyall -in " + file(name + ".csr") + " -CA " +
            file(ca + ".crt") + " -CAkey " + file(ca + ".key") + " -CAcreateserial -out " +
            file(name + ".crt"));
  }
  void openssl(const std::string& words) {
    const std::string line = "openssl " + words + " >" + file("openssl.log") + " 2>&1 </dev/null";
    if (std::system(line.c_str()) != 0) throw std::runtime_error("failed: " + line);
  }

  std::string folder_;
};

class RedisTls : public ::testing::Test {
 protected:
  // Starts a server with the certificate of this name.
  void start(const std::string& name, const std::string& auth_clients = "no") {
    on_free_port([&](std::uint16_t number) {
      port = std::to_string(number);
      server = std::make_unique<RedisServer>(std::vector<std::string>{
          "--tls-port", port, "--bind", "127.0.0.1", "--tls-cert-file", files().file(name + ".crt"),
          "--tls-key-file", files().file(name + ".key"), "--tls-ca-cert-file",
          files().file("ca.crt"), "--tls-auth-clients", auth_clients});
    });
    options.url = "rediss://localhost:" + port;
    options.deadline = options.connect_timeout = sluice::testing::kPatience;
    options.tls_ca_file = files().file("ca.crt");
  }
  std::string ping() {
    Probe probe(options);
    return probe.ask({"PING"});
  }
  static const Certificates& files() {
    static const Certificates certificates;
    return certificates;
  }

  std::unique_ptr<RedisServer> server;
  std::string port;
  RedisOptions options;
};

TEST_F(RedisTls, AcceptsACertificateForTheNameOrTheAddress) {
  start("server");
  EXPECT_EQ(ping(), "PONG");
  options.url = "rediss://127.0.0.1:" + port;
  EXPECT_EQ(ping(), "PONG");
}

TEST_F(RedisTls, CarriesManyAndLargeCommands) {
  start("server");
  Probe probe(options);
  const std::string large(3 << 20, 'x');
  EXPECT_EQ(probe.ask({"SET", "large", large}), "OK");
  std::vector<Ask> asks(2000);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    asks[i].append(i == 1000 ? "GET" : "ECHO");
    asks[i].append(i == 1000 ? "large" : std::to_string(i));
  }
  probe.ask_all(asks);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    ASSERT_TRUE(asks[i].said == (i == 1000 ? large : std::to_string(i))) << i;
  }
}

TEST_F(RedisTls, RefusesACertificateOfAnAuthorityThatIsNotTrusted) {
  start("server");
  options.tls_ca_file = files().file("other_ca.crt");
  const std::string said = ping();
  EXPECT_EQ(said.find("unavailable: TLS: the server's certificate is not accepted: "), 0u) << said;
}

TEST_F(RedisTls, RefusesACertificateForAnotherName) {
  start("elsewhere");
  const std::string said = ping();
  EXPECT_EQ(said, "unavailable: TLS: the server's certificate is not accepted: hostname mismatch");
  options.url = "rediss://127.0.0.1:" + port;
  EXPECT_EQ(ping(),
            "unavailable: TLS: the server's certificate is not accepted: IP address mismatch");
  options.tls_server_name = "elsewhere.example";
  EXPECT_EQ(ping(), "PONG");
}

TEST_F(RedisTls, AcceptsAnyCertificateIfVerificationIsOff) {
  start("elsewhere");
  options.tls_verify = false;
  options.tls_ca_file = "";
  EXPECT_EQ(ping(), "PONG");
}

TEST_F(RedisTls, SendsItsOwnCertificateIfTheServerRequiresOne) {
  start("server", "yes");
  const std::string said = ping();
  EXPECT_NE(said.find("unavailable: "), said.npos) << said;
  options.tls_cert_file = files().file("client.crt");
  options.tls_key_file = files().file("client.key");
  EXPECT_EQ(ping(), "PONG");
}

TEST_F(RedisTls, ReportsAServerWithoutTls) {
  on_free_port([&](std::uint16_t number) {
    port = std::to_string(number);
    server = std::make_unique<RedisServer>(
        std::vector<std::string>{"--port", port, "--bind", "127.0.0.1"});
  });
  options.url = "rediss://127.0.0.1:" + port;
  options.deadline = sluice::testing::kPatience;
  const std::string said = ping();
  EXPECT_EQ(said.find("unavailable: TLS: "), 0u) << said;
}

TEST_F(RedisTls, EndsAHandshakeThatTakesTooLong) {
  start("server");
  server->pause();
  options.connect_timeout = 100ms;
  sluice::testing::wait_until("a handshake does not end in time",  // after it was connected in time
                              [&] { return ping() == "unavailable: TLS: no handshake in time"; });
}

}  // namespace
}  // namespace sluice_redis
