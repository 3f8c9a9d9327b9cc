#include "server/protocol/http/fields.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

using Fields = std::vector<http::Field>;

// Trusts the proxies 10.0.0.0/8 and every peer on a Unix socket.
std::string client(std::string_view peer, const Fields& fields) {
  const std::vector<std::string> networks{"10.0.0.0/8", "unix"};
  const auto trusted = TrustedProxies::parse(networks).value();
  http::Request request;
  request.peer = peer;
  request.fields = fields;
  base::AddressText buffer;
  return std::string(client_address(request, trusted, buffer));
}

std::string forwarded(std::string_view value) {
  return client("10.0.0.1", {{"X-Forwarded-For", value}});
}

TEST(ClientAddress, IsThePeersIfThePeerIsNotTrusted) {
  EXPECT_EQ(client("192.0.2.9", {{"X-Forwarded-For", "1.1.1.1"}, {"X-Real-IP", "2.2.2.2"}}),
            "192.0.2.9");
}

TEST(ClientAddress, IsTheRightmostThatIsNotTrusted) {
  EXPECT_EQ(forwarded("6.6.6.6, 203.0.113.9"), "203.0.113.9");
  EXPECT_EQ(forwarded("6.6.6.6, 203.0.113.9, 10.2.3.4 ,10.0.0.2"), "203.0.113.9");
  EXPECT_EQ(client("", {{"X-Forwarded-For", "203.0.113.9"}}), "203.0.113.9");
}

TEST(ClientAddress, IsSearchedInAllFieldsInTheirOrder) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Forwarded-For", "1.1.1.1, 2.2.2.2"},
                                {"X-Other", "9.9.9.9"},
                                {"x-forwarded-for", "10.9.9.9"}}),
            "2.2.2.2");
}

TEST(ClientAddress, IsTheLeftmostIfAllAreTrusted) {
  EXPECT_EQ(forwarded("10.0.0.3, 10.0.0.2"), "10.0.0.3");
}

TEST(ClientAddress, IsTheProxyToTheRightOfAMalformedElement) {
  EXPECT_EQ(forwarded("1.1.1.1, unknown, 10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(forwarded("1.1.1.1, unknown"), "10.0.0.1");
  EXPECT_EQ(forwarded("1.1.1.1, 1.2.3.4.5"), "10.0.0.1");
  EXPECT_EQ(client("", {{"X-Forwarded-For", "unknown"}}), "");
}

TEST(ClientAddress, SkipsEmptyElements) {
  EXPECT_EQ(forwarded("1.1.1.1,,10.0.0.2, ,"), "1.1.1.1");
  EXPECT_EQ(forwarded(" ,"), "10.0.0.1");
}

TEST(ClientAddress, MayHaveAPort) {
  EXPECT_EQ(forwarded("1.2.3.4:567"), "1.2.3.4");
  EXPECT_EQ(forwarded("[2001:db8::1]:80"), "2001:db8::1");
  EXPECT_EQ(forwarded("1.1.1.1, 10.0.0.2:99"), "1.1.1.1");
}

TEST(ClientAddress, IsInCanonicalSpelling) {
  EXPECT_EQ(forwarded("2001:DB8:0:0::1"), "2001:db8::1");
  EXPECT_EQ(forwarded("::ffff:192.0.2.1"), "192.0.2.1");
}

TEST(ClientAddress, IsThatOfXRealIpOnlyWithoutXForwardedFor) {
  EXPECT_EQ(client("10.0.0.1", {{"X-Real-IP", " 192.0.2.7 "}}), "192.0.2.7");
  EXPECT_EQ(client("10.0.0.1", {{"X-Real-IP", "192.0.2.7"}, {"X-Forwarded-For", "1.1.1.1"}}),
            "1.1.1.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Real-IP", "192.0.2.7"}, {"X-Forwarded-For", "garbage"}}),
            "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Real-IP", "192.0.2.7"}, {"X-Real-IP", "192.0.2.8"}}),
            "10.0.0.1");
  EXPECT_EQ(client("10.0.0.1", {{"X-Real-IP", "none"}}), "10.0.0.1");
}

}  // namespace
}  // namespace sluice::server
