#include "server/protocol/http/connection.h"

#include <gtest/gtest.h>

namespace sluice::server::http {
namespace {

std::string head(const Response& response, bool keep_alive = true, int version = 11) {
  std::string out;
  append_head(out, response, "D", keep_alive, version);
  return out;
}

TEST(ResponseWriter, WritesStatusAndFields) {
  Response response;
  response.add("Retry-After", "3");
  response.text = "no";
  response.answer_text(429, "text/plain");
  EXPECT_EQ(head(response),
            "HTTP/1.1 429 Too Many Requests\r\nDate: D\r\nContent-Type: text/plain\r\n"
            "Content-Length: 2\r\nRetry-After: 3\r\n\r\n");
}

TEST(ResponseWriter, WritesConnectionIfItDiffersFromTheDefaultOfTheVersion) {
  const Response response;
  EXPECT_NE(head(response, false).find("\r\nConnection: close\r\n"), std::string::npos);
  EXPECT_NE(head(response, true, 10).find("\r\nConnection: keep-alive\r\n"), std::string::npos);
  EXPECT_EQ(head(response).find("Connection"), std::string::npos);
}

TEST(ResponseWriter, KnowsThePhraseOfAStatus) {
  EXPECT_EQ(reason_phrase(431), "Request Header Fields Too Large");
  EXPECT_EQ(reason_phrase(413), "Content Too Large");
  EXPECT_EQ(reason_phrase(799), "");
}

}  // namespace
}  // namespace sluice::server::http
