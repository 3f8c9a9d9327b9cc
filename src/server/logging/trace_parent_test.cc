#include "server/logging/log.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::server {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736", kSpan = "00f067aa0ba902b7";

std::string traceparent(const std::string& version, const std::string& rest = "") {
  return version + "-" + kTrace + "-" + kSpan + "-01" + rest;
}

TEST(TraceParent, HasTheIdsOfVersion00AndOfLaterOnes) {
  for (const std::string& text : {traceparent("00"), traceparent("01"), traceparent("cc", "-x")}) {
    const auto trace = TraceParent::parse(text);
    ASSERT_TRUE(trace) << text;
    EXPECT_EQ(trace->trace_id, kTrace);
    EXPECT_EQ(trace->span_id, kSpan);
  }
}

TEST(TraceParent, IsNothingIfItIsNotValid) {
  const std::string right = traceparent("00");
  for (std::size_t size = 0; size < right.size(); ++size) {
    EXPECT_FALSE(TraceParent::parse(right.substr(0, size))) << size;
  }
  for (std::size_t i = 0; i < right.size(); ++i) {
    for (const char wrong : {'g', 'A', ' ', '\0', '\xFF'}) {
      std::string text = right;
      text[i] = wrong;
      EXPECT_FALSE(TraceParent::parse(text)) << text;
    }
  }
  EXPECT_FALSE(TraceParent::parse(traceparent("ff")));
  EXPECT_FALSE(TraceParent::parse(traceparent("00", "-x")));
  EXPECT_FALSE(TraceParent::parse(traceparent("01", "x")));
  EXPECT_FALSE(TraceParent::parse("00-" + std::string(32, '0') + "-" + kSpan + "-01"));
  EXPECT_FALSE(TraceParent::parse("00-" + kTrace + "-" + std::string(16, '0') + "-01"));
  EXPECT_FALSE(TraceParent::parse(right + ", " + right));
}

}  // namespace
}  // namespace sluice::server
