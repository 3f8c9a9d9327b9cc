#include "replay/log_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::replay {
namespace {

const std::string kAt = "[20/Feb/2016:00:00:45 -0500]";
const std::string kFront = "10.0.0.1 - - " + kAt;
const std::string kCommon = kFront + " \"GET / HTTP/1.1\" 200 187";

// Keeps the bytes of the line for as long as its parts are used.
struct Parsed {
  explicit Parsed(std::string logged) : text(std::move(logged)) {
    fault = read_access_line(text, times, line);
  }
  Parsed(const Parsed&) = delete;
  Parsed& operator=(const Parsed&) = delete;

  std::string text;
  LogTimeReader times;
  LogLine line;
  LineFault fault;
};

std::string request_line(const std::string& request) {
  return kFront + " \"" + request + "\" 200 187 \"-\" \"agent\"";
}

bool absent(std::string_view field) { return field.data() == nullptr; }

TEST(AccessLine, ReadsTheCombinedFormat) {
  const Parsed parsed(kFront +
                      " \"GET /a/b?c=d HTTP/1.1\" 404 - \"http://x/\" \"Mozilla/5.0 (X)\"");
  ASSERT_EQ(parsed.fault, LineFault::kNone);
  EXPECT_EQ(parsed.line.at.time_since_epoch(), std::chrono::seconds{1455944445});
  EXPECT_EQ(parsed.line.client, "10.0.0.1");
  EXPECT_EQ(parsed.line.method, "GET");
  EXPECT_EQ(parsed.line.path, "/a/b");
  EXPECT_EQ(parsed.line.query, "c=d");
  EXPECT_EQ(parsed.line.status, "404");
  EXPECT_EQ(parsed.line.referer, "http://x/");
  EXPECT_EQ(parsed.line.user_agent, "Mozilla/5.0 (X)");
}

TEST(AccessLine, ReadsTheCommonFormat) {
  const Parsed parsed(kCommon);
  ASSERT_EQ(parsed.fault, LineFault::kNone);
  EXPECT_EQ(parsed.line.path, "/");
  EXPECT_TRUE(absent(parsed.line.query));
  EXPECT_TRUE(absent(parsed.line.referer));
  EXPECT_TRUE(absent(parsed.line.user_agent));
}

TEST(AccessLine, ReadsTheUser) {
  const auto user_of = [](const std::string& words) {
    const Parsed parsed("10.0.0.1 " + words + " " + kAt + " \"GET / HTTP/1.1\" 200 187");
    EXPECT_EQ(parsed.fault, LineFault::kNone) << words;
    return absent(parsed.line.user) ? "(none)" : std::string(parsed.line.user);
  };
  EXPECT_EQ(user_of("- ann"), "ann");
  EXPECT_EQ(user_of("ident ann [a] b"), "ann [a] b");
  EXPECT_EQ(user_of("- -"), "(none)");
  EXPECT_EQ(user_of("ident -"), "(none)");
  EXPECT_EQ(user_of("- \"\""), "(none)") << "an empty name, as Apache writes it";
}

TEST(AccessLine, TakesADashForAbsentAndNothingForEmpty) {
  const Parsed parsed("- - - " + kAt + " \"-\" - - \"-\" \"\"");
  ASSERT_EQ(parsed.fault, LineFault::kNone);
  EXPECT_TRUE(absent(parsed.line.client));
  EXPECT_TRUE(absent(parsed.line.method));
  EXPECT_TRUE(absent(parsed.line.path));
  EXPECT_TRUE(absent(parsed.line.status));
  EXPECT_TRUE(absent(parsed.line.referer));
  EXPECT_FALSE(absent(parsed.line.user_agent));
  EXPECT_EQ(parsed.line.user_agent, "");
}

TEST(AccessLine, ReadsAnyClientAndUser) {
  for (const std::string client : {"2001:db8::1", "::1", "crawl-66.example.com", "_x.example"}) {
    const Parsed plain(client + " - john doe [x] " + kAt + " \"GET / HTTP/1.1\" 200 1");
    EXPECT_EQ(plain.fault, LineFault::kNone) << client;
    EXPECT_EQ(plain.line.client, client);
  }
}

TEST(AccessLine, KeepsEscapedAndBareQuotesInsideAField) {
  const Parsed escaped(kCommon + R"( "-" "a \"quoted\" agent\\")");
  ASSERT_EQ(escaped.fault, LineFault::kNone);
  EXPECT_EQ(escaped.line.user_agent, R"(a \"quoted\" agent\\)");
  const Parsed bare(kCommon + R"( "-" "an "agent"of mine")");
  ASSERT_EQ(bare.fault, LineFault::kNone);
  EXPECT_EQ(bare.line.user_agent, R"(an "agent"of mine)");
}

TEST(AccessLine, IgnoresFurtherFields) {
  const Parsed combined(kCommon + R"( "-" "agent" 0.003 "more" x)");
  ASSERT_EQ(combined.fault, LineFault::kNone);
  EXPECT_EQ(combined.line.user_agent, "agent");
  const Parsed common(kCommon + " 0.003 x");
  ASSERT_EQ(common.fault, LineFault::kNone);
  EXPECT_TRUE(absent(common.line.user_agent));
  EXPECT_EQ(Parsed(kCommon + " \"only a referer\"").fault, LineFault::kNone);
}

TEST(AccessLine, DropsACarriageReturnAtTheEnd) {
  const Parsed parsed(kCommon + " \"-\" \"agent\"\r");
  ASSERT_EQ(parsed.fault, LineFault::kNone);
  EXPECT_EQ(parsed.line.user_agent, "agent");
}

TEST(AccessLine, ReadsRequestsAsClientsSendThem) {
  struct Case {
    std::string request, method, path, query;
  };
  const std::vector<Case> cases = {
      {"GET /a HTTP/1.0", "GET", "/a", ""},
      {"GET /a", "GET", "/a", ""},
      {"GET /a b c HTTP/1.1", "GET", "/a b c", ""},
      {"GET /a?x=/b?c HTTP/1.1", "GET", "/a", "x=/b?c"},
      {"GET http://h.example:80/a?b HTTP/1.1", "GET", "/a", "b"},
      {"GET http://h.example HTTP/1.1", "GET", "/", ""},
      {"GET http://h.example?b HTTP/1.1", "GET", "/", "b"},
      {"GET /r?to=http://x/y HTTP/1.1", "GET", "/r", "to=http://x/y"},
      {"OPTIONS * HTTP/1.1", "OPTIONS", "*", ""},
      {"CONNECT h.example:443 HTTP/1.1", "CONNECT", "h.example:443", ""},
      {"X-METHOD /a HTTP/2.0", "X-METHOD", "/a", ""},
      {"GET // HTTP/1.1", "GET", "//", ""},
  };
  for (const Case& expected : cases) {
    const Parsed parsed(request_line(expected.request));
    ASSERT_EQ(parsed.fault, LineFault::kNone) << expected.request;
    EXPECT_EQ(parsed.line.method, expected.method) << expected.request;
    EXPECT_EQ(parsed.line.path, expected.path) << expected.request;
    EXPECT_EQ(parsed.line.query, expected.query) << expected.request;
    EXPECT_EQ(parsed.line.user_agent, "agent") << expected.request;
  }
}

TEST(AccessLine, OmitsMethodAndPathOfARequestThatIsNotHttp) {
  using namespace std::string_literals;
  for (const std::string& request : {""s, "-"s, R"(\x16\x03\x01)"s, "\x16\x03\x01\x02 \xff\0z"s,
                                     "GARBAGE"s, " "s, "GET "s, R"(\x80 /a HTTP/1.1)"s}) {
    const Parsed parsed(request_line(request));
    ASSERT_EQ(parsed.fault, LineFault::kNone) << request;
    EXPECT_TRUE(absent(parsed.line.method)) << request;
    EXPECT_TRUE(absent(parsed.line.path)) << request;
    EXPECT_EQ(parsed.line.client, "10.0.0.1");
    EXPECT_EQ(parsed.line.status, "200");
  }
}

TEST(AccessLine, ReportsTheErrorOfALine) {
  using namespace std::string_literals;
  struct Case {
    std::string line;
    LineFault fault;
  };
  const std::vector<Case> cases = {
      {"", LineFault::kEmpty},
      {"\r", LineFault::kEmpty},
      {" leading", LineFault::kNoClient},
      {"\x1f\x8b\0\0"s, LineFault::kNoClient},
      {"10.0.0.1", LineFault::kNoTimestamp},
      {"10.0.0.1 - -", LineFault::kNoTimestamp},
      {"10.0.0.1 " + kAt + " \"GET / HTTP/1.1\" 200 1", LineFault::kNoTimestamp},
      {"h.example:80 10.0.0.1 - - " + kAt + " \"GET / HTTP/1.1\" 200 1", LineFault::kVirtualHost},
      {"2026-11-23 10:00:00 10.0.0.1 GET /a - 443 - 10.0.0.2 curl 200", LineFault::kNoTimestamp},
      {"2026/11/23 10:00:00 [error] 7#7: *1 open() failed", LineFault::kNoTimestamp},
      {"10.0.0.1 - - [20/Feb/2016]", LineFault::kMalformedTimestamp},
      {"10.0.0.1 - - [20/Feb/2016:00:00:45 -050] \"GET / HTTP/1.1\" 200 1",
       LineFault::kMalformedTimestamp},
      {"10.0.0.1 - - [31/Feb/2016:00:00:45 -0500] \"GET / HTTP/1.1\" 200 1",
       LineFault::kNoSuchDate},
      {"10.0.0.1 - - [20/Feb/1916:00:00:45 -0500] \"GET / HTTP/1.1\" 200 1",
       LineFault::kOutOfRange},
      {kFront, LineFault::kNoRequest},
      {kFront + " GET / 200 1", LineFault::kNoRequest},
      {kFront + " \"GET / HTTP/1.1", LineFault::kOpenRequest},
      {kFront + R"( "GET / HTTP/1.1\")", LineFault::kOpenRequest},
      {kFront + " \"GET / HTTP/1.1\"", LineFault::kNoStatus},
      {kFront + " \"GET / HTTP/1.1\" x 1", LineFault::kNoStatus},
      {kFront + " \"GET / HTTP/1.1\" 2000 1", LineFault::kNoStatus},
      {kFront + " \"GET / HTTP/1.1\" 200", LineFault::kNoSize},
      {kFront + " \"GET / HTTP/1.1\" 200 x", LineFault::kNoSize},
      {kCommon + " \"http://x", LineFault::kOpenReferer},
      {kCommon + " \"-\" \"Mozilla", LineFault::kOpenUserAgent},
  };
  for (const Case& wrong : cases) {
    EXPECT_EQ(Parsed(wrong.line).fault, wrong.fault) << wrong.line;
    EXPECT_GT(explain(wrong.fault).size(), 10u);
  }
}

TEST(AccessLine, ReadsEveryPrefixOfALineWithoutLookingBehindIt) {
  const std::string line = kCommon + R"( "http://x/\"" "agent \\" 7)";
  for (std::size_t length = 0; length <= line.size(); ++length) {
    const std::vector<char> exact(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(length));
    LogTimeReader times;
    LogLine parsed;
    const LineFault fault = read_access_line({exact.data(), exact.size()}, times, parsed);
    EXPECT_EQ(fault == LineFault::kNone, Parsed(line.substr(0, length)).fault == LineFault::kNone);
  }
}

TEST(UndoLogEscapes, GivesBackTheBytes) {
  std::string out;
  undo_log_escapes(R"(a\"b\\c\n\r\t\x41\xfFz)", out);
  EXPECT_EQ(out, "a\"b\\c\n\r\tA\xffz");
}

TEST(UndoLogEscapes, LeavesOtherBackslashes) {
  std::string out;
  undo_log_escapes(R"(\q \x4 \xg0 \)", out);
  EXPECT_EQ(out, R"(\q \x4 \xg0 \)");
}

}  // namespace
}  // namespace sluice::replay
