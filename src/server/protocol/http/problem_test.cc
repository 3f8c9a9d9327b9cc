#include "server/protocol/http/problem.h"

#include <gtest/gtest.h>

namespace sluice::server {
namespace {

std::string text_of(const Problem& problem, std::string_view members = {}) {
  std::string out;
  append_problem(out, problem, members);
  return out;
}

TEST(Problem, DefaultsToAboutBlankAndTheTitleOfItsStatus) {
  EXPECT_EQ(text_of({.status = 404, .detail = "no \"such\" path"}),
            "{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
            "\"detail\":\"no \\\"such\\\" path\"}");
  EXPECT_EQ(text_of({.status = 413}),
            "{\"type\":\"about:blank\",\"title\":\"Content Too Large\",\"status\":413}");
  EXPECT_EQ(text_of({.status = 402}),
            "{\"type\":\"about:blank\",\"title\":\"Payment Required\",\"status\":402}");
  EXPECT_EQ(text_of({.status = 460}),
            "{\"type\":\"about:blank\",\"title\":\"Error\",\"status\":460}");
}

TEST(Problem, HasTypeTitleAndMoreMembers) {
  EXPECT_EQ(text_of({.status = 429, .title = "T", .type = "x:y"}, "\"a\":1"),
            "{\"type\":\"x:y\",\"title\":\"T\",\"status\":429,\"a\":1}");
}

TEST(Problem, IsAppended) {
  std::string out = "before";
  append_problem(out, {.status = 400});
  EXPECT_EQ(out.rfind("before{", 0), 0u);
}

}  // namespace
}  // namespace sluice::server
