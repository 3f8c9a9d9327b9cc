#include "server/protocol/http/connection.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/protocol/http/fields.h"

namespace sluice::server::http {
namespace {

using Progress = RequestReader::Progress;

constexpr Bounds kBounds{.header_bytes = 1024, .body_bytes = 100};

// Returns the status of the refusal, or 0 if the message is accepted or incomplete.
int refusal(std::string_view message) {
  RequestReader reader(kBounds);
  return reader.read(message) == Progress::kBad ? reader.bad().status : 0;
}

TEST(RequestReader, ReturnsARequestAsViewsOfItsBytes) {
  RequestReader reader(kBounds);
  const std::string message =
      "POST /v1/check?a=b HTTP/1.1\r\nHost: x\r\nX-User: 42 \r\nContent-Length: 3\r\n\r\nabcNEXT";
  ASSERT_EQ(reader.read(message), Progress::kReady);
  const Request request = reader.request();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/check?a=b");
  EXPECT_EQ(request.version, 11);
  EXPECT_TRUE(request.keep_alive);
  EXPECT_EQ(request.body, "abc");
  Buffers buffers;
  EXPECT_EQ(find_header(request.fields, "x-user", buffers), "42");
  EXPECT_EQ(find_header(request.fields, "x-use", buffers), std::nullopt);
  EXPECT_EQ(message.substr(reader.size()), "NEXT");
}

TEST(RequestReader, ReadsTheSameRequestHoweverTheMessageIsSplit) {
  const std::string message =
      "\r\nPOST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: z\r\n\r\n";
  for (std::size_t cut = 0; cut < message.size(); ++cut) {
    RequestReader reader(kBounds);
    ASSERT_EQ(reader.read(std::string(message, 0, cut)), Progress::kMore) << cut;
    ASSERT_EQ(reader.read(message), Progress::kReady) << cut;
    const Request request = reader.request();
    EXPECT_EQ(request.target, "/a") << cut;
    EXPECT_EQ(request.body, "abcde") << cut;
    EXPECT_EQ(request.fields.size(), 2u) << cut;
    EXPECT_EQ(reader.size(), message.size()) << cut;
  }
}

TEST(RequestReader, ReadsAMessageByteByByte) {
  const std::string message = "GET /abc HTTP/1.0\r\nA: b\r\nContent-Length: 5\r\n\r\n12345";
  RequestReader reader(kBounds);
  for (std::size_t size = 1; size < message.size(); ++size) {
    // At a new address each time, like a buffer that grows.
    ASSERT_EQ(reader.read(std::string(message, 0, size)), Progress::kMore) << size;
  }
  ASSERT_EQ(reader.read(message), Progress::kReady);
  EXPECT_EQ(reader.request().target, "/abc");
  EXPECT_EQ(reader.request().body, "12345");
  EXPECT_EQ(reader.request().version, 10);
  EXPECT_FALSE(reader.request().keep_alive);
}

TEST(RequestReader, ReadsTheLastChunkByteByByte) {
  const std::string message =
      "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n";
  RequestReader reader(kBounds);
  for (std::size_t size = 1; size < message.size(); ++size) {
    ASSERT_EQ(reader.read(std::string(message, 0, size)), Progress::kMore) << size;
  }
  ASSERT_EQ(reader.read(message), Progress::kReady);
  EXPECT_EQ(reader.request().body, "");
  EXPECT_EQ(reader.size(), message.size());
}

TEST(RequestReader, ReadsTheNextRequest) {
  RequestReader reader(kBounds);
  ASSERT_EQ(reader.read("GET /1 HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n"), Progress::kReady);
  reader.next();
  ASSERT_EQ(reader.read("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"), Progress::kReady);
  EXPECT_EQ(reader.request().target, "/2");
  EXPECT_EQ(reader.request().fields.size(), 1u);
}

TEST(RequestReader, ReportsHowMuchHasArrived) {
  RequestReader reader(kBounds);
  EXPECT_EQ(reader.read("PUT / HTTP/1.1\r\nHost: a\r\n"), Progress::kMore);
  EXPECT_FALSE(reader.has_header());
  EXPECT_EQ(reader.read("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n"
                        "Content-Length: 1\r\n\r\n"),
            Progress::kMore);
  EXPECT_TRUE(reader.has_header());
  EXPECT_TRUE(reader.expects_continue());
}

TEST(RequestReader, RefusesWhatTwoReadersCouldUnderstandDifferently) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(refusal(start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Content-Length: 3\r\nContent-Length: 4\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Content-Length: +3\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Content-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked, identity\r\n\r\n"), 501);
  EXPECT_EQ(refusal(start + "Transfer-Encoding : chunked\r\n\r\n"), 400);
  for (const std::string name : {"A", "Content-Length", "Transfer-Encoding", "X-Original-URI"}) {
    for (const std::string value :
         {"1\r\n 2", "\r\n 3", "\r\n\tchunked", " \r\n \r\n /x", "1\r\n "}) {
      EXPECT_EQ(refusal(start + name + ":" + value + "\r\n\r\n"), 400) << name << ":" << value;
    }
  }
  EXPECT_EQ(refusal(start + "Transfer-Encoding:\r\n chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "Host: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal(start + "A: b\n\r\n\r\n"), 400);
  EXPECT_EQ(refusal("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\n\r\n"), 400);
}

TEST(RequestReader, RefusesWhatIsNotHttp) {
  EXPECT_EQ(refusal("GET /\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(refusal("GET / HTTP/1.1\nHost: a\n\n"), 400) << "only the end of the line is wrong";
  EXPECT_EQ(refusal("GET / HTTP/2.0\nHost: a\n\n"), 505);
  EXPECT_EQ(refusal("G(T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(refusal("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(refusal("\x16\x03\x01\x02"), 400);
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n"), 417);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            400);
}

TEST(RequestReader, RefusesAHeaderAboveItsBound) {
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nA: ";
  EXPECT_EQ(refusal(start + std::string(2000, 'a') + "\r\n\r\n"), 431);
  EXPECT_EQ(refusal(start + std::string(2000, 'a')), 431);
  EXPECT_EQ(refusal("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n"), 431);
  // A long first line and long fields.
  EXPECT_EQ(refusal("GET /" + std::string(700, 'a') +
                    " HTTP/1.1\r\nHost: a\r\nA: " + std::string(700, 'a') + "\r\n\r\n"),
            431);
  // Complete fields, one at a time.
  RequestReader reader(kBounds);
  std::string message = "GET / HTTP/1.1\r\nHost: a\r\n";
  Progress progress = Progress::kMore;
  while (message.size() < 2000 && progress == Progress::kMore) {
    message += "A: b\r\n";
    progress = reader.read(message);
  }
  EXPECT_EQ(progress, Progress::kBad);
  EXPECT_LE(message.size(), kBounds.header_bytes + 6);
}

TEST(RequestReader, RefusesABodyAboveItsBound) {
  const std::string start = "POST / HTTP/1.1\r\nHost: a\r\n";
  EXPECT_EQ(refusal(start + "Content-Length: 100\r\n\r\n"), 0);
  EXPECT_EQ(refusal(start + "Content-Length: 101\r\n\r\n"), 413);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\n\r\n65\r\n"), 413);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"), 413);
  const std::string chunk = "32\r\n" + std::string(50, 'x') + "\r\n";
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk), 0);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "1\r\n"), 413);
  EXPECT_EQ(refusal(start + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x')), 413);
}

}  // namespace
}  // namespace sluice::server::http
