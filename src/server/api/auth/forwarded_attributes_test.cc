#include "server/api/auth/auth_endpoint.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::server {
namespace {

using Fields = std::vector<http::Field>;

class ForwardedAttributesTest : public ::testing::Test {
 protected:
  // Returns "", or "missing" or "given" as the problem says of the two URIs.
  std::string_view begin(Fields fields, std::string_view peer = "192.0.2.1") {
    fields_ = std::move(fields);
    request_.method = "GET";
    request_.target = "/v1/auth";
    request_.fields = fields_;
    request_.peer = peer;
    const std::string_view wrong = attributes_.begin(request_);
    if (wrong.empty()) return {};
    return wrong.find("are both missing") != wrong.npos ? "missing" : "given";
  }
  std::optional<std::string_view> find(std::string_view name) { return attributes_.find(name); }

 private:
  const std::vector<std::string> networks_{"10.0.0.0/8"};
  const TrustedProxies trusted_ = TrustedProxies::parse(networks_).value();
  ForwardedAttributes attributes_{trusted_};
  Fields fields_;
  http::Request request_;
};

TEST_F(ForwardedAttributesTest, DescribeTheRequestOfXOriginal) {
  ASSERT_EQ(begin({{"Host", "Shop.example:80"},
                   {"X-Original-URI", "/api//order%2F7?user=a%20b"},
                   {"X-Original-Method", "POST"},
                   {"Cookie", "sid=1"},
                   {"X-User-Id", "42"}}),
            "");
  EXPECT_EQ(find("method"), "POST");
  EXPECT_EQ(find("path"), "/api/order/7");
  EXPECT_EQ(find("host"), "shop.example");
  EXPECT_EQ(find("ip"), "192.0.2.1");
  EXPECT_EQ(find("query.user"), "a b");
  EXPECT_EQ(find("cookie.sid"), "1");
  EXPECT_EQ(find("header.x-user-id"), "42");
  EXPECT_EQ(find("header.x-original-uri"), "/api//order%2F7?user=a%20b");
}

TEST_F(ForwardedAttributesTest, DescribeTheRequestOfXForwarded) {
  ASSERT_EQ(begin({{"Host", "sluice"},
                   {"X-Forwarded-Uri", "/a?b=c"},
                   {"X-Forwarded-Method", "PUT"},
                   {"X-Forwarded-Host", "a.example"},
                   {"X-Forwarded-For", "203.0.113.9"}},
                  "10.0.0.1"),
            "");
  EXPECT_EQ(find("method"), "PUT");
  EXPECT_EQ(find("path"), "/a");
  EXPECT_EQ(find("host"), "a.example");
  EXPECT_EQ(find("ip"), "203.0.113.9");
  EXPECT_EQ(find("query.b"), "c");
}

TEST_F(ForwardedAttributesTest, ContainNothingElse) {
  ASSERT_EQ(begin({{"X-Original-URI", "/"}}), "");
  for (const char* name : {"", "p", "paths", "status", "body.email", "header", "header.x", "query.",
                           "query.x", "cookie.x", "host", "Method"}) {
    EXPECT_EQ(find(name), std::nullopt) << name;
  }
}

TEST_F(ForwardedAttributesTest, NeedADescription) {
  EXPECT_EQ(begin({{"Host", "a"}}), "missing");
  EXPECT_EQ(begin({{"X-Original-Method", "GET"}, {"X-Forwarded-Method", "GET"}}), "missing");
  EXPECT_EQ(begin({{"X-Original-URI", ""}}), "missing");
}

TEST_F(ForwardedAttributesTest, RefuseTwoDescriptions) {
  EXPECT_EQ(begin({{"X-Original-URI", "/a"}, {"X-Forwarded-Uri", "/a"}}), "given");
  EXPECT_EQ(begin({{"X-Original-URI", "/a"}, {"x-original-uri", "/b"}}), "given");
  EXPECT_EQ(begin({{"X-Forwarded-Uri", "/a"}, {"X-Forwarded-Uri", "/a"}}), "given");
  EXPECT_EQ(
      begin({{"X-Original-URI", "/a"}, {"X-Original-Method", "GET"}, {"X-Original-Method", "PUT"}}),
      "given");
}

TEST_F(ForwardedAttributesTest, TreatAnEmptyFieldAsAbsent) {
  EXPECT_EQ(begin({{"X-Original-URI", ""}, {"X-Forwarded-Uri", "/a"}, {"X-Original-URI", ""}}), "");
  EXPECT_EQ(find("path"), "/a");
}

TEST_F(ForwardedAttributesTest, DoNotMixTheFieldsOfTwoGateways) {
  ASSERT_EQ(begin({{"X-Original-URI", "/a"}, {"X-Forwarded-Method", "DELETE"}}), "");
  EXPECT_EQ(find("method"), "GET") << "the request's own, as X-Original-Method is absent";
  ASSERT_EQ(begin({{"X-Forwarded-Uri", "/a"},
                   {"X-Original-Method", "DELETE"},
                   {"X-Forwarded-Method", "PUT"}}),
            "");
  EXPECT_EQ(find("method"), "PUT");
}

TEST_F(ForwardedAttributesTest, UseXForwardedHostOnlyFromTrustedProxiesThatDescribeByIt) {
  const Fields forwarded{
      {"Host", "h"}, {"X-Forwarded-Uri", "/"}, {"X-Forwarded-Host", "lie, Truth"}};
  ASSERT_EQ(begin(forwarded), "");
  EXPECT_EQ(find("host"), "h");
  ASSERT_EQ(begin(forwarded, "10.0.0.1"), "");
  EXPECT_EQ(find("host"), "truth");
  ASSERT_EQ(
      begin({{"Host", "h"}, {"X-Original-URI", "/"}, {"X-Forwarded-Host", "lie"}}, "10.0.0.1"), "");
  EXPECT_EQ(find("host"), "h");
  ASSERT_EQ(
      begin({{"Host", "h"}, {"X-Forwarded-Uri", "/"}, {"X-Forwarded-Host", "x,"}}, "10.0.0.1"), "");
  EXPECT_EQ(find("host"), "h");
}

TEST_F(ForwardedAttributesTest, HaveNoIpOnAUnixSocket) {
  ASSERT_EQ(begin({{"X-Original-URI", "/"}, {"X-Forwarded-For", "1.1.1.1"}}, ""), "");
  EXPECT_EQ(find("ip"), std::nullopt);
}

TEST_F(ForwardedAttributesTest, BelongToTheLatestRequest) {
  ASSERT_EQ(begin({{"X-Original-URI", "/%61?q=%61"}, {"Host", "A"}}), "");
  EXPECT_EQ(find("path"), "/a");
  EXPECT_EQ(find("host"), "a");
  EXPECT_EQ(find("ip"), "192.0.2.1");
  ASSERT_EQ(begin({{"X-Original-URI", "/%62?q=%62"}, {"Host", "B"}}, "192.0.2.2"), "");
  EXPECT_EQ(find("path"), "/b");
  EXPECT_EQ(find("host"), "b");
  EXPECT_EQ(find("ip"), "192.0.2.2");
  EXPECT_EQ(find("query.q"), "b");
}

TEST_F(ForwardedAttributesTest, StayValidDuringFurtherLookups) {
  ASSERT_EQ(begin({{"X-Original-URI", "/%61?q=%62&r=%63"}, {"Host", "A"}, {"X", "1"}, {"X", "2"}}),
            "");
  const auto path = find("path"), q = find("query.q"), r = find("query.r"), host = find("host"),
             x = find("header.x");
  EXPECT_EQ(find("path"), path);
  EXPECT_EQ(path, "/a");
  EXPECT_EQ(q, "b");
  EXPECT_EQ(r, "c");
  EXPECT_EQ(host, "a");
  EXPECT_EQ(x, "1, 2");
}

}  // namespace
}  // namespace sluice::server
