#include "stores/redis/client/target.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace sluice::redis::url_test {
namespace {

Expected<std::shared_ptr<const Target>> parsed(std::string text) {
  return make_target({.url = std::move(text)});
}
std::string servers_of(const std::string& text) {
  const auto target = parsed(text);
  if (!target) return "error: " + target.error();
  std::string out;
  for (const ServerAddress& server : (*target)->servers) {
    out += server.host + " " + std::to_string(server.port) + ",";
  }
  return out;
}
bool is_url(const std::string& text) { return parsed(text).has_value(); }

TEST(Url, HasThePartsOfTheText) {
  const std::string text = "redis+sentinel://user:pass@a:1,[::1]:2,c/my%2Fmaster/4";
  const auto target = parsed(text).value();
  EXPECT_EQ(target->kind, Target::Kind::kSentinel);
  EXPECT_EQ(target->options.username, "user");
  EXPECT_EQ(target->options.password, "pass");
  EXPECT_EQ(servers_of(text), "a 1,::1 2,c 26379,");
  EXPECT_EQ(target->master, "my/master");
  EXPECT_EQ(target->database, 4);
  EXPECT_EQ(target->shown, "redis+sentinel://user@a:1,[::1]:2,c/my%2Fmaster/4");
}

TEST(Url, OfASocketHasADecodedPathAndAQuery) {
  EXPECT_EQ(servers_of("redis+unix:///run/a%20b?db=2"), "/run/a b 0,");
  EXPECT_EQ(parsed("redis+unix:///run/a%20b?db=2").value()->database, 2);
}

TEST(Url, SplitsUserAndPasswordAtTheFirstColonAndTheLastAt) {
  const auto colons = parsed("redis://user:p:q@host").value();
  EXPECT_EQ(colons->options.username, "user");
  EXPECT_EQ(colons->options.password, "p:q");
  const auto ats = parsed("redis://us@er:p@q@host").value();
  EXPECT_EQ(ats->options.username, "us@er");
  EXPECT_EQ(ats->options.password, "p@q");
  EXPECT_EQ(ats->shown, "redis://us@er@host");
  const auto empty = parsed("redis://:@host").value();
  EXPECT_EQ(empty->options.username + empty->options.password, "");
  EXPECT_EQ(empty->shown, "redis://host");
}

TEST(Url, AcceptsHostNamesOfUpTo253Bytes) {
  EXPECT_TRUE(is_url("redis://" + std::string(253, 'a')));
  EXPECT_FALSE(is_url("redis://" + std::string(254, 'a')));
  EXPECT_TRUE(is_url("redis://under_score.and-dash.example"));
  for (const char* host : {"a b", "a\tb", "h\xC3\xB6st", "a%41", "*", "a!b"}) {
    EXPECT_FALSE(is_url(std::string("redis://") + host)) << host;
  }
}

TEST(Url, AcceptsPortsFrom1To65535) {
  EXPECT_EQ(servers_of("redis://a:1"), "a 1,");
  EXPECT_EQ(servers_of("redis://a:65535"), "a 65535,");
  for (const char* port : {"0", "65536", "", "-1", "+1", "1x", "0x1", "99999999999999999999"}) {
    EXPECT_FALSE(is_url(std::string("redis://a:") + port)) << port;
    EXPECT_FALSE(is_url(std::string("redis://[::1]:") + port)) << port;
  }
}

TEST(Url, AcceptsIPv6AddressesInBracketsOnly) {
  EXPECT_EQ(servers_of("redis://[::ffff:1.2.3.4]:7"), "::ffff:1.2.3.4 7,");
  for (const char* host : {"::1", "[::1", "::1]", "[]", "[::1]]", "[1.2.3.4]", "[a]", "[::1]x"}) {
    EXPECT_FALSE(is_url(std::string("redis://") + host)) << host;
  }
}

TEST(Url, NamesAServerBetweenAnyTwoCommas) {
  EXPECT_EQ(servers_of("redis+cluster://b,a:1,b"), "b 6379,a 1,b 6379,");
  for (const char* servers : {",", "a,", ",a", "a,,b"}) {
    EXPECT_FALSE(is_url(std::string("redis+cluster://") + servers)) << servers;
  }
}

TEST(Url, AcceptsTheSchemesInLowerCaseOnly) {
  for (const char* scheme : {"REDIS", "Redis", "redis+tls", "redis+", "rediss+unix", ""}) {
    EXPECT_FALSE(is_url(std::string(scheme) + "://host")) << scheme;
  }
}

TEST(Url, OfASocketHasAPathThatTheSystemCanBind) {
  const std::string scheme = "redis+unix://";
  EXPECT_TRUE(is_url(scheme + "/" + std::string(106, 'x')));
  EXPECT_FALSE(is_url(scheme + "/" + std::string(107, 'x')));
  EXPECT_TRUE(is_url(scheme + "/" + std::string(105, 'x') + "%20")) << "107 bytes when decoded";
  EXPECT_FALSE(is_url(scheme + "/run/a%00b")) << "a NUL ends the path for the system";
  EXPECT_FALSE(is_url(scheme + "/"));
  EXPECT_FALSE(is_url(scheme + "/run/%2"));
}

TEST(Url, ReportsThePositionOfASpaceOrControlCharacter) {
  EXPECT_EQ(parsed("redis://a b").error(),
            "the URL has a space or control character at byte 9; such bytes are written as %XX");
  for (const char c : {'\0', '\n', '\x1f', '\x7f'}) {
    const std::string url = std::string("redis://u:p") + c + "@host";
    EXPECT_NE(parsed(url).error().find("at byte 11;"), std::string::npos) << url;
  }
}

TEST(PercentDecoded, ReplacesTwoHexadecimalDigitsByTheirByte) {
  EXPECT_EQ(percent_decoded("a%41%7e%7E%00%fF", "x").value(), std::string("aA~~\0\xFF", 6));
  EXPECT_EQ(percent_decoded("%2541", "x").value(), "%41") << "decoded once";
  EXPECT_EQ(percent_decoded("a+b", "x").value(), "a+b") << "'+' is not a space";
  EXPECT_EQ(percent_decoded("", "x").value(), "");
}

TEST(PercentDecoded, RefusesAPercentSignWithoutTwoDigits) {
  for (const char* text : {"%", "100%", "%4", "%4g", "%g4", "%%41", "% 4", "a%-1"}) {
    const auto decoded = percent_decoded(text, "path");
    ASSERT_FALSE(decoded) << text;
    EXPECT_EQ(decoded.error(),
              "the URL's path has a '%' without two hexadecimal digits after it; a '%' itself is "
              "written as %25");
  }
}

}  // namespace
}  // namespace sluice::redis::url_test
