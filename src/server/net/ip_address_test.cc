#include "server/net/trusted_proxies.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::server {
namespace {

TEST(IpAddress, Ipv4EqualsItsMappedForm) {
  EXPECT_EQ(IpAddress::parse("192.0.2.1"), IpAddress::parse("::ffff:192.0.2.1"));
  EXPECT_EQ(IpAddress::parse("192.0.2.1"), IpAddress::parse("::FFFF:C000:0201"));
  EXPECT_TRUE(IpAddress::parse("192.0.2.1")->is_v4());
  EXPECT_FALSE(IpAddress::parse("::192.0.2.1")->is_v4());
}

TEST(IpAddress, RefusesAnythingButAnAddress) {
  for (const std::string& text :
       {std::string(), std::string("1.2.3"), std::string("1.2.3.4 "), std::string("01.2.3.4"),
        std::string("1.2.3.4:80"), std::string("[::1]"), std::string("fe80::1%eth0"),
        std::string("unknown"), std::string("1.2.3.4\0", 8), std::string(100, '1')}) {
    EXPECT_FALSE(IpAddress::parse(text)) << text;
  }
}

TEST(IpAddress, IsParsedLikeTheSystemParsesIt) {
  for (const char* text :
       {"0.0.0.0", "255.255.255.255", "256.0.0.1", "1.2.3.4.", ".1.2.3.4", "1..2.3", "1.2.3.4.5",
        "1.2.3.04", "1.2.3.00", "1.2.3.-4", "1.2.3.+4", "1.2.3", "1.2.3.4000000000", "0x1.2.3.4",
        "::", "::1.2.3.4", "1::2::3", "1.2.3.4 "}) {
    std::array<unsigned char, 16> raw{};
    const bool is_address =
        inet_pton(AF_INET, text, raw.data()) == 1 || inet_pton(AF_INET6, text, raw.data()) == 1;
    EXPECT_EQ(IpAddress::parse(text).has_value(), is_address) << text;
  }
}

TEST(IpAddress, SharesAPrefixBitByBit) {
  const auto a = *IpAddress::parse("8000::");
  const auto b = *IpAddress::parse("8000:1::");
  EXPECT_TRUE(a.shares_prefix(b, 0));
  EXPECT_TRUE(a.shares_prefix(b, 31));
  EXPECT_FALSE(a.shares_prefix(b, 32));
  EXPECT_TRUE(a.shares_prefix(a, 128));
  EXPECT_FALSE(a.shares_prefix(*IpAddress::parse("8000::1"), 128));
  EXPECT_TRUE(a.shares_prefix(*IpAddress::parse("8000::1"), 127));
}

TEST(IpAddress, WithoutPortRemovesOnlyAPort) {
  EXPECT_EQ(without_port("1.2.3.4:567"), "1.2.3.4");
  EXPECT_EQ(without_port("[::1]:80"), "::1");
  EXPECT_EQ(without_port("[::1]"), "::1");
  for (const char* text : {"", "1.2.3.4", "::1", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "[::1",
                           "[::1]x", "[::1]:", "a:b"}) {
    EXPECT_EQ(without_port(text), text);
  }
}

}  // namespace
}  // namespace sluice::server
