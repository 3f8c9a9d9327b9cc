#include "replay/log_attributes.h"

#include <gtest/gtest.h>

namespace sluice::replay {
namespace {

LogLine line_with(std::string_view path, std::string_view query) {
  LogLine line;
  line.client = "2001:db8::1";
  line.method = "GET";
  line.path = path;
  line.query = query;
  line.status = "200";
  line.user_agent = R"(an \"agent\")";
  return line;
}

TEST(LogAttributes, AreThoseOfTheRequest) {
  const LogLine line = line_with(R"(/a\x41)", "x=1");
  LogAttributes attributes;
  attributes.show(line);
  EXPECT_EQ(attributes.find("ip"), "2001:db8::1");
  EXPECT_EQ(attributes.find("method"), "GET");
  EXPECT_EQ(attributes.find("path"), R"(/a\x41)") << "a path of LogParser has no escapes";
  EXPECT_EQ(attributes.find("status"), "200");
  EXPECT_EQ(attributes.find("header.user-agent"), "an \"agent\"");
  EXPECT_EQ(attributes.find("header.referer"), std::nullopt);
  EXPECT_EQ(attributes.find("host"), std::nullopt);
  EXPECT_EQ(attributes.find("header.x"), std::nullopt);
  EXPECT_EQ(attributes.find(""), std::nullopt);
}

TEST(LogAttributes, DecodeTheQuery) {
  const LogLine line = line_with("/", "a=1%2B1+%C3%A9&b&c=&a=2&%64=e&f=%zz%4&=g");
  LogAttributes attributes;
  attributes.show(line);
  EXPECT_EQ(attributes.find("query.a"), "1+1 é");
  EXPECT_EQ(attributes.find("query.b"), "");
  EXPECT_EQ(attributes.find("query.c"), "");
  EXPECT_EQ(attributes.find("query.d"), "e");
  EXPECT_EQ(attributes.find("query.f"), "%zz%4");
  EXPECT_EQ(attributes.find("query."), "g");
  EXPECT_EQ(attributes.find("query.z"), std::nullopt);
}

TEST(LogAttributes, HaveNoQueryWithoutOne) {
  const LogLine line = line_with("/", {});
  LogAttributes attributes;
  attributes.show(line);
  EXPECT_EQ(attributes.find("query.a"), std::nullopt);
  EXPECT_EQ(attributes.find("query."), std::nullopt);
}

TEST(LogAttributes, StayValidWhileOthersAreLookedUp) {
  const LogLine line = line_with("/a", "a=%41&b=%42");
  LogAttributes attributes;
  attributes.show(line);
  const auto agent = attributes.find("header.user-agent");
  const auto a = attributes.find("query.a");
  const auto b = attributes.find("query.b");
  EXPECT_EQ(agent, "an \"agent\"");
  EXPECT_EQ(a, "A");
  EXPECT_EQ(b, "B");
}

}  // namespace
}  // namespace sluice::replay
