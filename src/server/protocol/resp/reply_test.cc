#include "server/protocol/resp/reply.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

namespace sluice::server::resp {
namespace {

std::string written(int protocol, const std::function<void(Reply&)>& write) {
  TextBuffer out;
  Reply reply(out, protocol);
  write(reply);
  return std::string(out.view());
}

TEST(Reply, SpeaksResp2) {
  const auto all = [](Reply& reply) {
    reply.map(1);
    reply.bulk("a");
    reply.null();
    reply.set(0);
    reply.verbatim("b");
  };
  EXPECT_EQ(written(2, all), "*2\r\n$1\r\na\r\n$-1\r\n*0\r\n$1\r\nb\r\n");
  EXPECT_EQ(written(3, all), "%1\r\n$1\r\na\r\n_\r\n~0\r\n=5\r\ntxt:b\r\n");
}

TEST(Reply, WritesEveryInteger) {
  const auto number = [](std::int64_t n) {
    return written(2, [n](Reply& reply) { reply.integer(n); });
  };
  EXPECT_EQ(number(0), ":0\r\n");
  EXPECT_EQ(number(-1), ":-1\r\n");
  EXPECT_EQ(number(9), ":9\r\n");
  EXPECT_EQ(number(10), ":10\r\n");
  EXPECT_EQ(number(99), ":99\r\n");
  EXPECT_EQ(number(100), ":100\r\n");
  EXPECT_EQ(number(-100), ":-100\r\n");
  EXPECT_EQ(number(INT64_MAX), ":9223372036854775807\r\n");
  EXPECT_EQ(number(INT64_MIN), ":-9223372036854775808\r\n");
}

TEST(Reply, AnErrorIsOneLineEvenIfItsTextHasLineBreaks) {
  EXPECT_EQ(written(2, [](Reply& reply) { reply.error("ERR a\r\nb\n"); }), "-ERR a  b\r\n");
}

}  // namespace
}  // namespace sluice::server::resp
