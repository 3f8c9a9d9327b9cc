#include "base/request_target.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::base {
namespace {

std::string path_of(std::string_view sent) {
  std::string buffer = "left over";
  return std::string(normalized_path(sent, buffer));
}

TEST(RequestTarget, IsSplitAtTheFirstQuestionMark) {
  EXPECT_EQ(split_target("/a/b?c=d?e").path, "/a/b");
  EXPECT_EQ(split_target("/a/b?c=d?e").query, "c=d?e");
  EXPECT_EQ(split_target("/a/b").query, "");
  EXPECT_EQ(split_target("?a").path, "");
  EXPECT_EQ(split_target("?a").query, "a");
}

TEST(RequestTarget, LosesItsFragment) {
  EXPECT_EQ(split_target("/a#b?c").path, "/a");
  EXPECT_EQ(split_target("/a#b?c").query, "");
  EXPECT_EQ(split_target("/a?b#c").query, "b");
}

TEST(RequestTarget, InAbsoluteFormHasAPathAfterItsHost) {
  EXPECT_EQ(split_target("http://host:80/a/b?c").path, "/a/b");
  EXPECT_EQ(split_target("HTTPS://host/a//b").path, "/a//b");
  EXPECT_EQ(split_target("a+b-c.1://host/a").path, "/a");
  EXPECT_EQ(split_target("http://host?a=/b").path, "");
  EXPECT_EQ(split_target("http://host?a=/b").query, "a=/b");
  EXPECT_EQ(split_target("http://host").path, "");
  EXPECT_EQ(split_target("http://").path, "");
}

TEST(RequestTarget, ThatOnlyLooksAbsoluteIsAPath) {
  EXPECT_EQ(split_target("/http://host/a").path, "/http://host/a");
  EXPECT_EQ(split_target("1http://host/a").path, "1http://host/a");
  EXPECT_EQ(split_target("http:/host/a").path, "http:/host/a");
  EXPECT_EQ(split_target("//host/a").path, "//host/a");
}

TEST(Path, ThatIsNormalIsAViewOfTheRequest) {
  const std::string sent = "/api/order.json/..a/b.../";
  std::string buffer;
  EXPECT_EQ(normalized_path("/", buffer), "/");
  const std::string plain = "/api/order.json/a..b/c./";
  EXPECT_EQ(normalized_path(plain, buffer).data(), plain.data());
  EXPECT_EQ(path_of(sent), sent);
}

TEST(Path, AlwaysBeginsWithASlash) {
  EXPECT_EQ(path_of(""), "/");
  EXPECT_EQ(path_of("*"), "/*");
  EXPECT_EQ(path_of("a/b"), "/a/b");
  EXPECT_EQ(path_of("."), "/");
  EXPECT_EQ(path_of("%2e%2e"), "/");
}

TEST(Path, IsDecodedOnce) {
  EXPECT_EQ(path_of("/%61pi/%6Frder"), "/api/order");
  EXPECT_EQ(path_of("/%2561"), "/%61");
  EXPECT_EQ(path_of("/%252e%252e/a"), "/%2e%2e/a");
  EXPECT_EQ(path_of("/a%3Fb%23c"), "/a?b#c");
  EXPECT_EQ(path_of("/a+b"), "/a+b");
  EXPECT_EQ(path_of("/%E4%B8%AD"), "/中");
}

TEST(Path, KeepsAPercentSignThatBeginsNoEscape) {
  EXPECT_EQ(path_of("/%"), "/%");
  EXPECT_EQ(path_of("/%4"), "/%4");
  EXPECT_EQ(path_of("/%zz/%4g"), "/%zz/%4g");
  EXPECT_EQ(path_of("/%%41"), "/%A");
  EXPECT_EQ(path_of("/%C0%AF"), "/\xC0\xAF");  // an overlong encoding of a slash
}

TEST(Path, KeepsBytesOfAnyKind) {
  EXPECT_EQ(path_of("/a%00b%0A"), std::string("/a\0b\n", 5));
  EXPECT_EQ(path_of("/a\\..\\b%5c"), "/a\\..\\b\\");
}

TEST(Path, HasNoTwoSlashesInARow) {
  EXPECT_EQ(path_of("//api///order"), "/api/order");
  EXPECT_EQ(path_of("/api/order//"), "/api/order/");
  EXPECT_EQ(path_of("/api%2Forder"), "/api/order");
  EXPECT_EQ(path_of("/api/%2F/order"), "/api/order");
}

TEST(Path, HasNoDotSegments) {
  EXPECT_EQ(path_of("/a/./b/../c"), "/a/c");
  EXPECT_EQ(path_of("/a/%2e%2E/b"), "/b");
  EXPECT_EQ(path_of("/a/.%2e%2fb"), "/b");
  EXPECT_EQ(path_of("/a/b/.."), "/a/");
  EXPECT_EQ(path_of("/a/b/."), "/a/b/");
  EXPECT_EQ(path_of("/a/b/../"), "/a/");
  EXPECT_EQ(path_of("/a//../b"), "/b");  // slashes are merged first
  EXPECT_EQ(path_of("/.well-known/.../x"), "/.well-known/.../x");
}

TEST(Path, DoesNotClimbAboveTheRoot) {
  EXPECT_EQ(path_of("/.."), "/");
  EXPECT_EQ(path_of("/../../etc/passwd"), "/etc/passwd");
  EXPECT_EQ(path_of("/a/../../../b"), "/b");
}

class Query : public ::testing::Test {
 protected:
  std::optional<std::string_view> find(std::string_view query, std::string_view name) {
    return find_query(query, name, buffers_);
  }
  Buffers buffers_;
};

TEST_F(Query, ReturnsTheFirstValueOfAName) {
  EXPECT_EQ(find("a=1&b=2&a=3", "a"), "1");
  EXPECT_EQ(find("a=1&b=2&a=3", "b"), "2");
  EXPECT_EQ(find("a=1", "A"), std::nullopt);
  EXPECT_EQ(find("", "a"), std::nullopt);
  EXPECT_EQ(find("aa=1&b", "a"), std::nullopt);
}

TEST_F(Query, NameWithoutAValueHasAnEmptyOne) {
  EXPECT_EQ(find("a&b=", "a"), "");
  EXPECT_EQ(find("a&b=", "b"), "");
  EXPECT_EQ(find("&&a=1&", "a"), "1");
  EXPECT_EQ(find("&&=1", ""), "1");
}

TEST_F(Query, IsDecodedInNamesAndValues) {
  EXPECT_EQ(find("%61+%62=x%3D1+2%2B3", "a b"), "x=1 2+3");
  EXPECT_EQ(find("a=%zz%", "a"), "%zz%");
  EXPECT_EQ(find("a=%2541", "a"), "%41");
  EXPECT_EQ(find("a==b=", "a"), "=b=");
}

TEST_F(Query, DoesNotEndAPairAtASemicolon) { EXPECT_EQ(find("a=1;b=2", "a"), "1;b=2"); }

TEST_F(Query, ValuesStayValidDuringFurtherLookups) {
  const auto a = find("a=%41&b=%42", "a");
  const auto b = find("a=%41&b=%42", "b");
  EXPECT_EQ(a, "A");
  EXPECT_EQ(b, "B");
}

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
}  // namespace sluice::base
