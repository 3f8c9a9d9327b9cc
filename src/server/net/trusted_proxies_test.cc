#include "server/net/trusted_proxies.h"

#include <gtest/gtest.h>

namespace sluice::server::trusted_proxies_test {
namespace {

TrustedProxies proxies(std::initializer_list<std::string> networks) {
  return TrustedProxies::parse(std::vector<std::string>(networks)).value();
}

std::string error_of(const std::string& network) {
  return TrustedProxies::parse(std::span(&network, 1)).error();
}

TEST(TrustedProxies, AreNoneByDefault) {
  const TrustedProxies none{};
  EXPECT_FALSE(none.contains("127.0.0.1"));
  EXPECT_FALSE(none.contains("::1"));
  EXPECT_FALSE(none.contains(""));
}

TEST(TrustedProxies, AreAddressesAndNetworks) {
  const auto trusted = proxies({"192.0.2.1", "10.0.0.0/8", "fc00::/7", "2001:db8::1"});
  for (const char* in : {"192.0.2.1", "10.0.0.0", "10.255.255.255", "fdff::1", "2001:db8::1"}) {
    EXPECT_TRUE(trusted.contains(in)) << in;
  }
  for (const char* out :
       {"192.0.2.2", "11.0.0.0", "fe00::", "2001:db8::2", "", "x", "10.0.0.1:80"}) {
    EXPECT_FALSE(trusted.contains(out)) << out;
  }
}

TEST(TrustedProxies, TreatMappedAddressesAsIpv4) {
  EXPECT_TRUE(proxies({"10.0.0.0/8"}).contains("::ffff:10.1.2.3"));
  EXPECT_TRUE(proxies({"::ffff:10.0.0.0/104"}).contains("10.1.2.3"));
  EXPECT_FALSE(proxies({"::ffff:10.0.0.0/104"}).contains("11.1.2.3"));
}

TEST(TrustedProxies, AllOfOneFamilyExcludeTheOtherFamily) {
  EXPECT_TRUE(proxies({"0.0.0.0/0"}).contains("1.2.3.4"));
  EXPECT_FALSE(proxies({"0.0.0.0/0"}).contains("::1"));
  EXPECT_TRUE(proxies({"::/0"}).contains("::1"));
  EXPECT_FALSE(proxies({"::/0"}).contains("1.2.3.4"));
}

TEST(TrustedProxies, OnAUnixSocketAreTrustedByName) {
  EXPECT_TRUE(proxies({"unix"}).contains(""));
  EXPECT_FALSE(proxies({"unix"}).contains("127.0.0.1"));
}

TEST(TrustedProxies, RememberTheLatestStrangerForAnHour) {
  const TrustedProxies all = proxies({"10.0.0.1"});
  const TrustedProxies copy = all;
  const Instant start{std::chrono::hours{1}};
  EXPECT_FALSE(all.stranger(start));
  EXPECT_FALSE(all.knows_stranger(start));

  EXPECT_TRUE(copy.add_stranger("10.0.0.7", start));
  EXPECT_TRUE(all.knows_stranger(start + std::chrono::milliseconds{999}));
  EXPECT_FALSE(all.knows_stranger(start + std::chrono::seconds{1}));
  const Instant later = start + std::chrono::minutes{40};
  EXPECT_FALSE(all.add_stranger("10.0.0.7", later));
  const Instant end = later + TrustedProxies::kShown;
  ASSERT_TRUE(all.stranger(end - Duration{1}));
  EXPECT_EQ(all.stranger(end - Duration{1})->peer, "10.0.0.7");
  EXPECT_EQ(all.stranger(end - Duration{1})->since, start);
  EXPECT_FALSE(all.stranger(end));

  EXPECT_FALSE(all.add_stranger("10.0.0.7", end));  // after an hour, it begins again
  EXPECT_EQ(all.stranger(end)->since, end);
  EXPECT_FALSE(all.add_stranger("", end + Duration{1}));
  EXPECT_EQ(all.stranger(end + Duration{1})->peer, "unix");
  EXPECT_EQ(all.stranger(end + Duration{1})->since, end + Duration{1});
}

TEST(TrustedProxies, ErrorsSayWhatIsExpected) {
  EXPECT_EQ(error_of("localhost"),
            "'localhost' is not an address; expected one such as 10.0.0.1, a network such as "
            "10.0.0.0/8, or unix");
  EXPECT_EQ(error_of("10.0.0.0/33"),
            "'10.0.0.0/33' has an invalid prefix length; expected 0 to 32 after the '/'");
  EXPECT_EQ(error_of("::ffff:10.0.0.0/8"),
            "'::ffff:10.0.0.0/8' has an invalid prefix length; expected 96 to 128 after the '/'");
  EXPECT_EQ(error_of("10.0.0.1/8"),
            "'10.0.0.1/8' has bits beyond its prefix; expected '10.0.0.0/8' or a single address");
  EXPECT_EQ(error_of("fd00::1/8"),
            "'fd00::1/8' has bits beyond its prefix; expected 'fd00::/8' or a single address");
  for (const char* wrong : {"", "/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0.0/8/8",
                            " 10.0.0.1", "UNIX", "[::1]", "10.0.0.0/-1"}) {
    EXPECT_NE(error_of(wrong), "") << wrong;
  }
}

TEST(TrustedProxies, WithoutPortRemovesOnlyAPort) {
  EXPECT_EQ(without_port("1.2.3.4:567"), "1.2.3.4");
  EXPECT_EQ(without_port("[::1]:80"), "::1");
  EXPECT_EQ(without_port("[::1]"), "::1");
  for (const char* text : {"", "1.2.3.4", "::1", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:123456", "[::1",
                           "[::1]x", "[::1]:", "a:b"}) {
    EXPECT_EQ(without_port(text), text);
  }
}

}  // namespace
}  // namespace sluice::server::trusted_proxies_test
