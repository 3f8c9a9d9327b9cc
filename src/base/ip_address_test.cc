#include "base/ip_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::base {
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

std::string network(std::string_view address, PrefixBits bits) {
  const auto text = network_of(address, bits);
  return text ? std::string(text->view()) : "none";
}

TEST(IpPrefix, KeepsTheLeadingBits) {
  EXPECT_EQ(network("203.0.113.77", {24, 64}), "203.0.113.0/24");
  EXPECT_EQ(network("203.0.113.77", {31, 64}), "203.0.113.76/31");
  EXPECT_EQ(network("203.0.113.77", {12, 64}), "203.0.0.0/12");
  EXPECT_EQ(network("203.0.113.77", {0, 64}), "0.0.0.0/0");
  EXPECT_EQ(network("2001:db8:1:2:3:4:5:6", {24, 64}), "2001:db8:1:2::/64");
  EXPECT_EQ(network("2001:db8:1:ffff::", {24, 49}), "2001:db8:1:8000::/49");
  EXPECT_EQ(network("2001:db8:1:2:3:4:5:ffff", {24, 127}), "2001:db8:1:2:3:4:5:fffe/127");
}

TEST(IpPrefix, SpellsAWholeAddressInOneWay) {
  EXPECT_EQ(network("203.0.113.77", {32, 64}), "203.0.113.77");
  EXPECT_EQ(network("2001:0DB8:0:0:0:0:0:1", {32, 128}), "2001:db8::1");
}

TEST(IpPrefix, TakesMappedIpv6ForIpv4) {
  EXPECT_EQ(network("::ffff:203.0.113.77", {24, 64}), "203.0.113.0/24");
  EXPECT_EQ(network("::ffff:cb00:714d", {32, 64}), "203.0.113.77");
}

TEST(IpPrefix, HoldsTheLongestText) {
  EXPECT_EQ(network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", {24, 127}),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/127");
  EXPECT_EQ(network("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", {24, 128}),
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
}

TEST(IpPrefix, FindsNoneInInvalidAddresses) {
  using namespace std::string_view_literals;
  for (const auto text :
       {""sv, "localhost"sv, "1.2.3"sv, "1.2.3.4:80"sv, "fe80::1%eth0"sv, "[::1]"sv, "1.2.3.4\0"sv,
        "1.2.3.4\0junk"sv, "2001:db8::/64"sv, " 1.2.3.4"sv}) {
    EXPECT_EQ(network(text, {24, 64}), "none") << text;
  }
  EXPECT_EQ(network(std::string(100000, '1'), {24, 64}), "none");
}

}  // namespace
}  // namespace sluice::base
