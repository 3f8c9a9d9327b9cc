#include "server/protocol/http/access.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

std::string name_of(std::string_view authority) {
  std::string buffer = "left over";
  return std::string(host_name(authority, buffer));
}

TEST(Host, IsInLowerCaseWithoutPortAndTrailingDot) {
  EXPECT_EQ(name_of("Shop.Example.COM.:8080"), "shop.example.com");
  EXPECT_EQ(name_of("example.com"), "example.com");
  EXPECT_EQ(name_of("example.com."), "example.com");
  EXPECT_EQ(name_of("example.com:"), "example.com");
  EXPECT_EQ(name_of("192.0.2.1:80"), "192.0.2.1");
  EXPECT_EQ(name_of(""), "");
}

TEST(Host, IgnoresAMalformedPort) {
  EXPECT_EQ(name_of("example.com:80:x"), "example.com");
  EXPECT_EQ(name_of("example.com:evil"), "example.com");
}

TEST(Host, OfAnAddressInBracketsIsTheAddress) {
  EXPECT_EQ(name_of("[2001:DB8::1]:80"), "2001:db8::1");
  EXPECT_EQ(name_of("[::1]"), "::1");
  EXPECT_EQ(name_of("[::1"), "[");
}

TEST(Host, WithoutUpperCaseIsAViewOfTheRequest) {
  const std::string_view sent = "example.com:80";
  std::string buffer;
  EXPECT_EQ(host_name(sent, buffer).data(), sent.data());
}

}  // namespace
}  // namespace sluice::server
