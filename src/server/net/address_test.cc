#include "server/net/address.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

Address tcp(std::string host, std::uint16_t port) {
  return {.kind = Address::Kind::kTcp, .host = std::move(host), .port = port, .path = {}};
}

TEST(Address, IsAHostAndItsPort) {
  EXPECT_EQ(*parse_address("127.0.0.1:8080"), tcp("127.0.0.1", 8080));
  EXPECT_EQ(*parse_address("[::1]:0"), tcp("::1", 0));
  EXPECT_EQ(*parse_address("[2001:db8::192.0.2.1]:65535"), tcp("2001:db8::192.0.2.1", 65535));
  EXPECT_EQ(*parse_address("localhost:80"), tcp("localhost", 80));
  EXPECT_EQ(*parse_address("a-1.b_2.example:80"), tcp("a-1.b_2.example", 80));
}

TEST(Address, IsAPathOrNothing) {
  const auto unix_path = parse_address("unix:/run/a b:c.sock");
  ASSERT_TRUE(unix_path.has_value());
  EXPECT_EQ(unix_path->kind, Address::Kind::kUnix);
  EXPECT_EQ(unix_path->path, "/run/a b:c.sock");
  EXPECT_EQ(parse_address("off")->kind, Address::Kind::kOff);
  EXPECT_TRUE(parse_address("unix:" + std::string(107, 'a')).has_value());
}

std::string error_of(std::string_view text) {
  const auto address = parse_address(text);
  return address ? "ok" : address.error();
}

TEST(Address, ErrorsSayWhatIsExpected) {
  const std::string form = "; expected host:port, [v6]:port, unix:PATH or off";
  for (const std::string text : {"", "8080", "Off", "localhost", "a::1", "::"}) {
    EXPECT_EQ(error_of(text), "'" + text + "' is not an address" + form);
  }
  EXPECT_EQ(error_of("2001:db8:1:80"),
            "'2001:db8:1:80' has colons in its host; expected brackets around IPv6, such as "
            "[::1]:8080");
  EXPECT_EQ(error_of("http://a:80"), "'http://a:80' is a URL; expected its address alone: a:80");
  EXPECT_EQ(error_of("https://a:80"), "'https://a:80' is a URL; expected its address alone: a:80");
  EXPECT_EQ(error_of("/run/a"), "'/run/a' is a path; expected unix:/run/a");
  const std::string all =
      " names no host; expected 127.0.0.1:PORT for this machine only, 0.0.0.0:PORT or [::]:PORT "
      "for all";
  EXPECT_EQ(error_of(":80"), "':80'" + all);
  EXPECT_EQ(error_of("*:80"), "'*:80'" + all);
  for (const std::string text : {"[127.0.0.1]:80", "[::g]:80", "[fe80::1%eth0]:80"}) {
    EXPECT_EQ(error_of(text),
              "'" + text + "' has no IPv6 address in brackets; expected such as [::1]:8080");
  }
  for (const std::string host : {"256.0.0.1", "1.2.3", "127.1", "-a", "a-", "a..b", ".", "a b", "é",
                                 "[]", "[", "a.", "127.0.0.1 "}) {
    EXPECT_EQ(error_of(host + ":80"),
              "'" + host + ":80' has no host '" + host +
                  "'; expected an IP address or a host name, such as 127.0.0.1 or localhost");
  }
  for (const std::string port : {"", "65536", "-1", "+1", "1x", " 80", "http"}) {
    EXPECT_EQ(error_of("a:" + port),
              "'a:" + port + "' has no port '" + port + "'; expected a port from 0 to 65535");
  }
  EXPECT_EQ(error_of("unix:"),
            "'unix:' lacks a path; expected unix:PATH, such as unix:/run/sluice.sock");
  EXPECT_EQ(error_of("unix:" + std::string(108, 'a')),
            "'unix:" + std::string(55, 'a') + "...' has a path of 108 bytes; expected at most 107");
}

TEST(Address, CollidesWithItself) {
  const auto collides = [](std::string_view a, std::string_view b) {
    return collide(*parse_address(a), *parse_address(b));
  };
  EXPECT_TRUE(collides("a:80", "a:80"));
  EXPECT_TRUE(collides("unix:a", "unix:a"));
  EXPECT_FALSE(collides("a:80", "a:81"));
  EXPECT_FALSE(collides("a:80", "b:80"));
  EXPECT_FALSE(collides("a:0", "a:0"));
  EXPECT_FALSE(collides("off", "off"));
  EXPECT_FALSE(collides("unix:a", "unix:b"));
}

}  // namespace
}  // namespace sluice::server
