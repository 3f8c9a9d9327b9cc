#include "replay/log_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/civil_time.h"
#include "replay/log_attributes.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kAccessLine =
    R"(10.0.0.1 - - [23/Nov/2026:10:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 1 "-" "curl")";
constexpr std::string_view kEnvoyLine =
    R"([2026-11-23T10:00:00.310Z] "POST /api/v1?x=1 HTTP/2" 204 - 154 0 226 100 )"
    R"("192.0.2.9, 10.0.35.28" "agent "7"" "cc21d9b0" "example.org" "tcp://10.0.2.1:80")";
constexpr std::string_view kIstioLine =
    R"([2026-11-23T10:00:00.310Z] "GET /a HTTP/1.1" 503 UF via_upstream - "reset reason" 0 91 3 - )"
    R"("10.0.35.28" "curl/8" "id" "host.example" "10.0.2.1:80" outbound|80 10.0.0.2:1 - default)";
constexpr std::string_view kNginxLine =
    R"({"time_local":"23/Nov/2026:10:00:00 +0000","msec":"1795428000.250","remote_addr":"2001:db8::1",)"
    R"("request":"GET /a?b=c HTTP/1.1","status":"404","http_referer":"","http_user_agent":"Mozilla/5.0 \"x\"",)"
    R"("http_x_user":"u1","http_host":"example.org","user":{"id":17,"admin":true,"none":null}})";
constexpr std::string_view kCaddyLine =
    R"({"level":"info","ts":1795428000.5241024,"logger":"http.log.access","msg":"handled request",)"
    R"("request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"192.0.2.7","proto":"HTTP/2.0",)"
    R"("method":"GET","host":"localhost","uri":"/a/b?q=%41","headers":{"User-Agent":["curl/7.82.0"],)"
    R"("Accept":["text/html","*/*"],"X-Tenant":["t1"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"",)"
    R"("duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}})";
constexpr std::string_view kRecordedLine =
    R"({"time":"2026-11-23T10:00:00.123456Z","attributes":{"method":"GET","path":"/x?y","ip":"10.0.0.1",)"
    R"("header.x-user":"u\u00e9","query.a":"","body.Id":"-"},"costs":{"tokens":12},"outcome":"denied"})";

class LogFormats : public ::testing::Test {
 protected:
  LineFault read(std::string_view line) {
    extras_.clear();
    const LineFault fault = parser_.read(line, line_, extras_);
    if (fault != LineFault::kNone) return fault;
    attributes_.show(line_, std::span(extras_.fields).subspan(line_.fields_at, line_.fields_size));
    return fault;
  }
  // The value of an attribute, or "(none)".
  std::string get(std::string_view name) const {
    return std::string(attributes_.find(name).value_or("(none)"));
  }
  // Reads the text as a log with its own format.
  LineFault read_as(LogFormat format, std::string_view line) {
    parser_.begin(format);
    return read(line);
  }
  std::string time() const { return base::to_rfc3339(line_.at); }

  FieldMap map_{std::vector<FieldMapping>{{"user", "user.id"},
                                          {"header.x-user", "Remote_User"},
                                          {"host", "remote_user"},
                                          {"costs.tokens", "ContextTokens"},
                                          {"body.max_tokens", "ContextTokens"},
                                          {"header.referer", "from"}}};
  LogParser parser_{map_};
  LogLine line_;
  LogExtras extras_;
  LogAttributes attributes_;
};

TEST_F(LogFormats, AreDetectedByTheFirstLines) {
  const auto detect = [&](const std::string& text) { return detect_format(text, map_); };
  EXPECT_EQ(detect(std::string(kAccessLine)), LogFormat::kCommon);
  EXPECT_EQ(detect(std::string(kEnvoyLine)), LogFormat::kEnvoy);
  EXPECT_EQ(detect(std::string(kIstioLine)), LogFormat::kEnvoy);
  EXPECT_EQ(detect(std::string(kCaddyLine) + "\n"), LogFormat::kJson);
  EXPECT_EQ(detect("TIMESTAMP,A\n2026-11-23 10:00:00,1\n"), LogFormat::kCsv);
  EXPECT_EQ(detect("\xEF\xBB\xBF\"time\";a\r\n"), LogFormat::kCsv);
  EXPECT_EQ(detect("zeit,team\n1,a\n"), LogFormat::kCsv);
  EXPECT_EQ(detect("Hello, world\nThis, is, prose\n"), LogFormat::kCommon);
  EXPECT_EQ(detect("Nov 28 10:00:00 host a[1]: b, c\n"), LogFormat::kCommon);
  EXPECT_EQ(detect("no log\n"), LogFormat::kCommon);
  EXPECT_EQ(detect(""), LogFormat::kCommon);
  const std::string json = std::string(kNginxLine) + "\n";
  const std::string access = std::string(kAccessLine) + "\n";
  EXPECT_EQ(detect("a first line\n" + json + access + json), LogFormat::kJson) << "by most lines";
}

TEST_F(LogFormats, ReadEnvoysText) {
  ASSERT_EQ(read_as(LogFormat::kEnvoy, kEnvoyLine), LineFault::kNone);
  EXPECT_EQ(line_.at.time_since_epoch().count(), 1'795'428'000'310'000);
  EXPECT_EQ(get("method") + get("path") + get("query.x") + get("status"), "POST/api/v11204");
  EXPECT_EQ(get("ip"), "10.0.35.28") << "what Envoy has added";
  EXPECT_EQ(get("header.x-forwarded-for"), "192.0.2.9, 10.0.35.28");
  EXPECT_EQ(get("header.user-agent"), "agent \"7\"");
  EXPECT_EQ(get("host") + get("header.x-request-id"), "example.orgcc21d9b0");
  ASSERT_EQ(read(kIstioLine), LineFault::kNone);
  EXPECT_EQ(get("ip") + get("header.user-agent") + get("host"), "10.0.35.28curl/8host.example");
  EXPECT_EQ(read(R"([2026-11-23T10:00:00Z] "GET / HTTP/1.1" 200 -)"), LineFault::kNoEnvoyNumbers);
  EXPECT_EQ(read(R"([2026-11-23T10:00:00Z] "GET /)"), LineFault::kOpenRequest);
  EXPECT_EQ(read("[now] \"GET /"), LineFault::kMalformedTime);
  EXPECT_EQ(read("x"), LineFault::kNoEnvoyTime);
  EXPECT_EQ(read(""), LineFault::kEmpty);
}

TEST_F(LogFormats, ReadTheVariablesOfNginx) {
  ASSERT_EQ(read_as(LogFormat::kJson, kNginxLine), LineFault::kNone);
  EXPECT_EQ(line_.at.time_since_epoch().count(), 1'795'428'000'250'000) << "msec is more exact";
  EXPECT_EQ(get("ip"), "2001:db8::1");
  EXPECT_EQ(get("method") + get("path") + get("query.b") + get("status"), "GET/ac404");
  EXPECT_EQ(get("header.user-agent"), "Mozilla/5.0 \"x\"");
  EXPECT_EQ(get("header.referer"), "(none)") << "empty is absent";
  EXPECT_EQ(get("header.x-user") + get("host"), "u1example.org");
  EXPECT_EQ(get("user"), "17") << "--field user=user.id";
}

TEST_F(LogFormats, ReadTheRequestsOfCaddy) {
  ASSERT_EQ(read_as(LogFormat::kJson, kCaddyLine), LineFault::kNone);
  EXPECT_EQ(line_.at.time_since_epoch().count(), 1'795'428'000'524'102);
  EXPECT_EQ(get("ip") + get("host") + get("method"), "192.0.2.7localhostGET");
  EXPECT_EQ(get("path") + get("query.q") + get("status"), "/a/bA200");
  EXPECT_EQ(get("header.user-agent") + get("header.x-tenant"), "curl/7.82.0t1");
  EXPECT_EQ(get("header.accept"), "text/html") << "the first value";
  EXPECT_EQ(get("header.server"), "(none)");
  EXPECT_EQ(read(R"({"level":"info","ts":1795428000.5,"msg":"serving"})"),
            LineFault::kNoRequestFields);
}

TEST_F(LogFormats, NameTheUserOfAnAccessLog) {
  constexpr std::string_view kRest = R"( [23/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 1)";
  const std::string named = R"(10.0.0.1 - a\x22\\nn)" + std::string(kRest);
  ASSERT_EQ(read_as(LogFormat::kCommon, named), LineFault::kNone);
  EXPECT_EQ(get("header.x-user") + " " + get("host"), R"(a"\nn a"\nn)");
  EXPECT_EQ(get("ip") + get("path"), "10.0.0.1/a");
  ASSERT_EQ(read(kAccessLine), LineFault::kNone);
  EXPECT_EQ(get("header.x-user"), "(none)");
  ASSERT_EQ(read_as(LogFormat::kJson, R"({"ts":1,"path":"/","remote_user":"bob"})"),
            LineFault::kNone);
  EXPECT_EQ(get("header.x-user"), "bob") << "as nginx names it in JSON";
}

TEST_F(LogFormats, ReadRecordedAttributesAsTheyAre) {
  ASSERT_EQ(read_as(LogFormat::kJson, kRecordedLine), LineFault::kNone);
  EXPECT_EQ(line_.at.time_since_epoch().count(), 1'795'428'000'123'456);
  EXPECT_EQ(get("method") + get("path") + get("ip"), "GET/x?y10.0.0.1");
  EXPECT_EQ(get("header.x-user") + get("query.a") + get("body.Id"), "ué-");
  EXPECT_EQ(get("outcome"), "(none)");
  ASSERT_EQ(line_.costs_size, 1u);
  EXPECT_EQ(extras_.costs[0].limit, "tokens");
  EXPECT_EQ(extras_.costs[0].units, 12u);
}

TEST_F(LogFormats, NormalizeThePathAsTheServerDoes) {
  std::string line;  // the attributes borrow it
  const auto common = [&](const std::string& target) {
    line = R"(a - - [20/Feb/2016:00:00:45 -0500] "GET )" + target + R"( HTTP/1.1" 200 1)";
    EXPECT_EQ(read_as(LogFormat::kCommon, line), LineFault::kNone) << target;
    return get("path");
  };
  EXPECT_EQ(common("//xmlrpc.php?a=//b"), "/xmlrpc.php");
  EXPECT_EQ(get("query.a"), "//b");
  EXPECT_EQ(common("/a/../%77p-login.php"), "/wp-login.php");
  EXPECT_EQ(common(R"(/a/\x22%5Cx22\x2F/b)"), R"(/a/"\x22/b)") << "escapes of the log come first";
  EXPECT_EQ(common("http://host/./a#b"), "/a");
  EXPECT_EQ(common("*"), "/*");
  EXPECT_EQ(common(R"(\x16\x03)"), "/\x16\x03") << "a target of any bytes";
  ASSERT_EQ(read_as(LogFormat::kEnvoy,
                    R"([2026-11-23T10:00:00Z] "GET //a HTTP/2" 200 - 0 0 1 1 "-" "-" "-" "-" "-")"),
            LineFault::kNone);
  EXPECT_EQ(get("path"), "/a");
  ASSERT_EQ(read_as(LogFormat::kJson, R"({"ts":1,"request":"GET /%2e/a\\x41 HTTP/1.1"})"),
            LineFault::kNone);
  EXPECT_EQ(get("path"), R"(/a\x41)") << "JSON has no escapes of the log";
  ASSERT_EQ(read(R"({"ts":1,"request_uri":"/b//c","attributes":{"method":"GET"}})"),
            LineFault::kNone);
  EXPECT_EQ(get("path"), "/b/c");
  ASSERT_EQ(read(R"({"ts":1,"attributes":{"path":"/%2e//a"}})"), LineFault::kNone);
  EXPECT_EQ(get("path"), "/%2e//a") << "a server has recorded it";
}

TEST_F(LogFormats, TakeARecordedAddressAsItIs) {
  parser_.begin(LogFormat::kJson);
  for (const std::string ip : {"10.0.0.1:80", "[::1]", "host:1"}) {
    const std::string recorded = R"({"ts":1,"attributes":{"ip":")" + ip + R"("}})";
    ASSERT_EQ(read(recorded), LineFault::kNone);
    EXPECT_EQ(get("ip"), ip);
    const std::string logged = R"({"ts":1,"ip":")" + ip + R"("})";
    ASSERT_EQ(read(logged), LineFault::kNone);
    EXPECT_NE(get("ip"), ip) << "logs of other servers have ports";
  }
}

TEST_F(LogFormats, TrimCsvValuesWithoutQuotesIfTheNamesHaveBlanks) {
  for (const auto* const header : {"time, ip, body.note", "time,ip ,body.note"}) {
    LogParser parser(map_);
    parser.begin(LogFormat::kCsv);
    const auto ip_of = [&](std::string_view line) {
      EXPECT_EQ(parser.read(line, line_, extras_), LineFault::kNone) << line;
      return std::string(line_.client);
    };
    ASSERT_EQ(parser.read(header, line_, extras_), LineFault::kHeader);
    EXPECT_EQ(ip_of("1795428000, 10.0.0.1 , x"), "10.0.0.1");
    EXPECT_EQ(ip_of("1795428000,\" a\",x"), " a");
  }
  ASSERT_EQ(read_as(LogFormat::kCsv, "time,ip"), LineFault::kHeader);
  ASSERT_EQ(read("1795428000, a"), LineFault::kNone);
  EXPECT_EQ(get("ip"), " a");
}

TEST_F(LogFormats, RefuseMalformedJson) {
  parser_.begin(LogFormat::kJson);
  for (const char* line :
       {"{", "[]", "{}}", "{\"a\":}", "{\"ts\":1}x", "nonsense", "{\"\\ud800\":1}"}) {
    EXPECT_EQ(read(line), LineFault::kMalformedJson) << line;
  }
  EXPECT_EQ(read(std::string(100, '[')), LineFault::kMalformedJson);
  EXPECT_EQ(read("{\"ts\":" + std::string(100, '[')), LineFault::kMalformedJson);
  EXPECT_EQ(read("{}"), LineFault::kNoTime);
  EXPECT_EQ(read(R"({"ts":"yesterday","path":"/"})"), LineFault::kMalformedTime);
  EXPECT_EQ(read(R"({"ts":-1,"path":"/"})"), LineFault::kMalformedTime);
  EXPECT_EQ(read(R"({"ts":99999999999,"path":"/"})"), LineFault::kOutOfRange);
  EXPECT_EQ(read(R"({"ts":1,"costs":{"a":-5}})"), LineFault::kNoCost);
  EXPECT_EQ(read(" \r"), LineFault::kEmpty);
  EXPECT_EQ(read("{\"ts\":1,\"path\":\"/\xff\"} \r"), LineFault::kNone) << "bytes of clients";
  EXPECT_EQ(get("path"), "/\xff");
}

TEST_F(LogFormats, ReadColumns) {
  parser_.begin(LogFormat::kCsv);
  EXPECT_EQ(read("TIMESTAMP,User.ID, url ,ContextTokens\r"), LineFault::kHeader);
  ASSERT_EQ(read("2023-11-16 18:15:46.6805900,\"a \"\"b\"\", c\",/x?y=1,374\r"), LineFault::kNone);
  EXPECT_EQ(time(), "2023-11-16T18:15:46Z");
  EXPECT_EQ(get("user"), "a \"b\", c");
  EXPECT_EQ(get("path") + get("query.y") + get("body.max_tokens"), "/x1374");
  ASSERT_EQ(line_.costs_size, 1u);
  EXPECT_EQ(extras_.costs[0].units, 374u);
  EXPECT_EQ(read("2023-11-16 18:15:46,,,"), LineFault::kNone);
  EXPECT_EQ(get("user") + get("path"), "(none)(none)");
  EXPECT_EQ(read("2023-11-16 18:15:46,1,/,1,2"), LineFault::kColumns);
  EXPECT_EQ(read("2023-11-16 18:15:46,1"), LineFault::kColumns);
  EXPECT_EQ(read("2023-11-16 18:15:46,1,\"/,1"), LineFault::kOpenField);
  EXPECT_EQ(read("2023-11-16 18:15:46,1,\"/\"x,1"), LineFault::kOpenField);
  EXPECT_EQ(read("then,1,/,1"), LineFault::kMalformedTime);
  EXPECT_EQ(read("2023-11-16 18:15:46,1,/,1.5"), LineFault::kNoCost);
}

TEST_F(LogFormats, ReadColumnsThatAreNamedAsAttributes) {
  parser_.begin(LogFormat::kCsv);
  EXPECT_EQ(read("time,header.X-User,cookie.sid,body.model,query.q"), LineFault::kHeader);
  ASSERT_EQ(read("2023-11-16 18:15:46,anna,s1,small,"), LineFault::kNone);
  EXPECT_EQ(get("header.x-user") + get("cookie.sid") + get("body.model"), "annas1small");
  EXPECT_EQ(get("query.q"), "(none)");
}

TEST_F(LogFormats, NameTheLinesOfAnotherFormat) {
  EXPECT_EQ(read_as(LogFormat::kCommon, kCaddyLine), LineFault::kIsJsonLine);
  EXPECT_EQ(read(kEnvoyLine), LineFault::kIsEnvoyLine);
  EXPECT_EQ(read_as(LogFormat::kJson, kAccessLine), LineFault::kIsAccessLine);
  EXPECT_EQ(read_as(LogFormat::kEnvoy, kCaddyLine), LineFault::kIsJsonLine);
  EXPECT_EQ(read(kAccessLine), LineFault::kIsAccessLine);
}

TEST_F(LogFormats, HaveNames) {
  for (const char* name : {"common", "envoy", "json", "csv"}) {
    ASSERT_TRUE(log_format_of(name)) << name;
    EXPECT_EQ(to_string(*log_format_of(name)), name);
  }
  EXPECT_FALSE(log_format_of("auto"));
}

}  // namespace
}  // namespace sluice::replay
