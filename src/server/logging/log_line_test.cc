#include "server/logging/log_line.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace sluice::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::sys_days;

// 2026-11-21T01:02:03.456Z
const auto kAt =
    sys_days{std::chrono::year{2026} / 11 / 21} + std::chrono::seconds{3723} + milliseconds{456};

std::string text(std::string_view message, const std::vector<LogField>& fields = {}) {
  return log_line(false, kAt, LogLevel::kInfo, message, fields);
}

std::string json(std::string_view message, const std::vector<LogField>& fields = {}) {
  return log_line(true, kAt, LogLevel::kInfo, message, fields);
}

// Returns the value as the text format writes it.
std::string value(std::string_view of) {
  const std::string line = text("m", {{"k", of}});
  const auto from = line.find("k=") + 2;
  return line.substr(from, line.size() - from - 1);
}

TEST(LogLine, IsTextWithTimeInUtcAndFields) {
  EXPECT_EQ(text("rules changed", {{"rules", 3}, {"took", 2.5}, {"ok", true}, {"file", "a.yaml"}}),
            "2026-11-21T01:02:03.456Z info rules changed rules=3 took=2.5 ok=true file=a.yaml\n");
}

TEST(LogLine, IsOneObjectInJson) {
  EXPECT_EQ(
      json("rules changed", {{"rules", -3}, {"took", 2.5}, {"ok", false}, {"file", "a b"}}),
      "{\"time\":\"2026-11-21T01:02:03.456Z\",\"level\":\"info\",\"message\":\"rules changed\","
      "\"rules\":-3,\"took\":2.5,\"ok\":false,\"file\":\"a b\"}\n");
}

TEST(LogLine, TellsEachLevel) {
  const auto line = [](LogLevel level) { return log_line(false, kAt, level, "m", {}); };
  EXPECT_EQ(line(LogLevel::kDebug), "2026-11-21T01:02:03.456Z debug m\n");
  EXPECT_EQ(line(LogLevel::kWarning), "2026-11-21T01:02:03.456Z warning m\n");
  EXPECT_EQ(line(LogLevel::kError), "2026-11-21T01:02:03.456Z error m\n");
}

TEST(LogLine, RoundsTimesDownAlsoBefore1970) {
  const auto line = log_line(false, std::chrono::sys_time<milliseconds>{milliseconds{-1}},
                             LogLevel::kInfo, "m", {});
  EXPECT_EQ(line, "1969-12-31T23:59:59.999Z info m\n");
}

TEST(LogLine, QuotesValuesThatAreNotPlain) {
  EXPECT_EQ(value("plain/path?a&b"), "plain/path?a&b");
  EXPECT_EQ(value("请求"), "请求");
  EXPECT_EQ(value(""), "\"\"");
  EXPECT_EQ(value("with spaces"), "\"with spaces\"");
  EXPECT_EQ(value("a=b"), "\"a=b\"");
  EXPECT_EQ(value("say \"hi\""), "\"say \\\"hi\\\"\"");
  EXPECT_EQ(value("\""), "\"\\\"\"");
  EXPECT_EQ(value("back\\slash"), "\"back\\\\slash\"");
}

TEST(LogLine, CannotBeForgedByLineEndsAndControls) {
  EXPECT_EQ(value("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(value("a\r\tb"), "\"a\\r\\tb\"");
  EXPECT_EQ(value(std::string_view("\0", 1)), "\"\\u0000\"");
  EXPECT_EQ(value("\x1b[2J"), "\"\\u001b[2J\"");
  EXPECT_EQ(value("\x7f"), "\"\\u007f\"");
  EXPECT_EQ(value("\u0085"), "\"\\u0085\"") << "next line";
  EXPECT_EQ(value("\u009b2J"), "\"\\u009b2J\"") << "control sequence introducer";
  EXPECT_EQ(value("\u2028"), "\"\\u2028\"") << "line separator";
  EXPECT_EQ(value("\u202e"), "\"\\u202e\"") << "right-to-left override";
  EXPECT_EQ(text("a\nb"), "2026-11-21T01:02:03.456Z info a\\nb\n") << "also in a message";
}

TEST(LogLine, ReplacesBrokenUtf8ByteForByte) {
  EXPECT_EQ(value("a\xff-"), "a\uFFFD-");
  EXPECT_EQ(value("\xc0\xaf"), "\uFFFD\uFFFD") << "too long a form";
  EXPECT_EQ(value("\xe0\x80\x80"), "\uFFFD\uFFFD\uFFFD") << "too long a form";
  EXPECT_EQ(value("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(value("\xf4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD") << "beyond the last";
  EXPECT_EQ(value("\xe8\xaf"), "\uFFFD\uFFFD") << "cut short";
  EXPECT_EQ(value("\xe8\xaf\n"), "\"\uFFFD\uFFFD\\n\"");
  EXPECT_EQ(value("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf") << "the last";
}

TEST(LogLine, WritesNumbersThatJsonKnows) {
  EXPECT_NE(json("m", {{"x", std::nan("")}}).find("\"x\":null}"), std::string::npos);
  EXPECT_NE(json("m", {{"x", std::numeric_limits<double>::infinity()}}).find("\"x\":null}"),
            std::string::npos);
  EXPECT_NE(json("m", {{"x", 1e300}}).find("\"x\":1e+300}"), std::string::npos);
  const auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_NE(json("m", {{"x", most}}).find("\"x\":9223372036854775807}"), std::string::npos);
}

// For any bytes: one line without control bytes, and without an unescaped quote inside.
TEST(LogLine, OfRandomBytesIsOneLineOfOneString) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 12, '\0');
    constexpr std::string_view kOdd = "\"\\\n\t\x7f\xc2\xe2\x80\xa8\xed\xa0\xf4= a";
    for (char& byte : bytes)
      byte = random() % 2 == 0 ? kOdd[random() % kOdd.size()] : char(random());
    const std::string line = json("m", {{"k", bytes}});
    const std::string start =
        "{\"time\":\"2026-11-21T01:02:03.456Z\",\"level\":\"info\",\"message\":\"m\",\"k\":\"";
    ASSERT_TRUE(line.starts_with(start) && line.ends_with("\"}\n"));
    for (std::size_t i = start.size(); i < line.size() - 3; ++i) {
      ASSERT_GE(static_cast<unsigned char>(line[i]), 0x20U);
      ASSERT_NE(line[i], '"');
      if (line[i] == '\\') ++i;
    }
    // Text that is valid already stays unchanged when it is written again.
    const std::string made = line.substr(start.size(), line.size() - 3 - start.size());
    if (made.find('\\') == made.npos) {
      ASSERT_EQ(json("m", {{"k", made}}), line);
    }
  }
}

TEST(Cut, LeavesWhatIsShortAndMarksWhatIsLong) {
  EXPECT_EQ(cut("abc", 3), "abc");
  EXPECT_EQ(cut("abcd", 3), "abc…");
  EXPECT_EQ(cut("", 0), "");
}

TEST(Cut, SplitsNoCharacter) {
  EXPECT_EQ(cut("ab请", 5), "ab请");
  EXPECT_EQ(cut("ab请c", 5), "ab请…");
  EXPECT_EQ(cut("ab请c", 4), "ab…");
  EXPECT_EQ(cut("ab请c", 3), "ab…");
  EXPECT_EQ(cut(std::string(10, '\x80'), 8), std::string(5, '\x80') + "…") << "broken: a few bytes";
}

}  // namespace
}  // namespace sluice::server
