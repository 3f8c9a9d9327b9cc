#include "server/protocol/http/connection.h"

#include <gtest/gtest.h>

namespace sluice::server::http {
namespace {

std::string written(const Response& response, const Sending& sending) {
  std::string out;
  append_response(out, response, sending);
  return out;
}

TEST(ResponseWriter, WritesStatusFieldsAndBody) {
  Response response;
  response.add("Retry-After", "3");
  response.text = "no";
  response.answer_text(429, "text/plain");
  EXPECT_EQ(written(response, {.date = "D"}),
            "HTTP/1.1 429 Too Many Requests\r\nDate: D\r\nContent-Type: text/plain\r\n"
            "Content-Length: 2\r\nRetry-After: 3\r\n\r\nno");
}

TEST(ResponseWriter, AnswersHeadWithTheLengthOnly) {
  Response response;
  response.body = "body";
  EXPECT_EQ(written(response, {.body = false, .date = "D"}),
            "HTTP/1.1 200 OK\r\nDate: D\r\nContent-Length: 4\r\n\r\n");
}

TEST(ResponseWriter, WritesConnectionIfItDiffersFromTheDefaultOfTheVersion) {
  const Response response;
  EXPECT_NE(written(response, {.keep_alive = false}).find("\r\nConnection: close\r\n"),
            std::string::npos);
  EXPECT_NE(written(response, {.version = 10}).find("\r\nConnection: keep-alive\r\n"),
            std::string::npos);
  EXPECT_EQ(written(response, {}).find("Connection"), std::string::npos);
}

TEST(ResponseWriter, KnowsThePhraseOfAStatus) {
  EXPECT_EQ(reason_phrase(431), "Request Header Fields Too Large");
  EXPECT_EQ(reason_phrase(799), "");
}

}  // namespace
}  // namespace sluice::server::http
