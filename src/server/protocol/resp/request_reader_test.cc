#include "server/protocol/resp/request_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::server::resp {
namespace {

using Progress = RequestReader::Progress;
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostArguments = 20;

// Reads `bytes` in pieces of `piece` bytes. Returns the words of each request in brackets, followed
// by the error, if any.
std::string read(std::string_view bytes, std::size_t piece, bool authenticated = true,
                 std::size_t most_bytes = kMostBytes) {
  RequestReader reader(most_bytes, kMostArguments);
  std::vector<std::string_view> words;
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end = 0; end < bytes.size();) {
    end = std::min(bytes.size(), end + piece);
    for (;;) {
      const std::string_view input = bytes.substr(begin, end - begin);
      const Progress progress = reader.read(input, authenticated);
      if (progress == Progress::kMore) break;
      if (progress == Progress::kBad) return out + reader.why();
      reader.arguments(input, words);
      out += '[';
      for (const std::string_view word : words) out.append(word).append(",");
      out += ']';
      begin += reader.size();
      reader.next();
      if (begin == end) break;
    }
  }
  return out;
}

std::string read(std::string_view bytes) {
  const std::string whole = read(bytes, bytes.size() + 1);
  for (const std::size_t piece : {1, 2, 3, 7}) EXPECT_EQ(read(bytes, piece), whole);
  return whole;
}

TEST(RequestReader, ReadsArraysOfBulkStringsHoweverTheyAreSplit) {
  EXPECT_EQ(read("*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\n"),
            "[PING,][ECHO,a\r\n,]");
  EXPECT_EQ(read("*1\r\n$0\r\n\r\n"), "[,]");
}

TEST(RequestReader, ReadsArgumentsOfAnyLength) {
  std::string bytes = "*7\r\n", words = "[";
  for (const std::size_t size : {0, 9, 10, 99, 100, 12, 1000}) {
    const std::string word(size, 'a');
    bytes.append("$").append(std::to_string(size)).append("\r\n").append(word).append("\r\n");
    words.append(word).append(",");
  }
  EXPECT_EQ(read(bytes), words + "]");
  EXPECT_EQ(read("*1\r\n$05\r\naaaaa\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(read("*2\r\n$1\r\na\r\n!1\r\nb\r\n"), "Protocol error: expected '$', got '!'");
}

TEST(RequestReader, ReadsInlineCommandsBetweenArrays) {
  EXPECT_EQ(read("PING\r\n*1\r\n$4\r\nPING\r\nECHO 'a b'\n"), "[PING,][PING,][ECHO,a b,]");
}

TEST(RequestReader, EmptyRequestsHaveNoWords) {
  EXPECT_EQ(read("*0\r\n*-1\r\n\r\n  \r\n"), "[][][][]");
}

TEST(RequestReader, ArgumentsMayHaveAnyBytes) {
  const std::string key("a\0\r\n$*b", 7);
  EXPECT_EQ(read("*2\r\n$1\r\nk\r\n$7\r\n" + key + "\r\n"), "[k," + key + ",]");
}

// Redis does not check the two bytes after an argument, nor the byte after a '\r'.
TEST(RequestReader, IsAsLenientAsRedis) { EXPECT_EQ(read("*1\rX$4\rYPINGZZ*0\r\n"), "[PING,][]"); }

TEST(RequestReader, RefusesWithTheTextsOfRedis) {
  const std::string error = "Protocol error: ";
  EXPECT_EQ(read("*x\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*01\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*+1\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*2147483648\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*99999999999999999999\r\n"), error + "invalid multibulk length");
  EXPECT_EQ(read("*1\r\nPING\r\n"), error + "expected '$', got 'P'");
  EXPECT_EQ(read("*1\r\n\r\n"), error + "expected '$', got ' '");
  EXPECT_EQ(read("*1\r\n$-1\r\n"), error + "invalid bulk length");
  EXPECT_EQ(read("*1\r\n$x\r\n"), error + "invalid bulk length");
  EXPECT_EQ(read("*1\r\n$9223372036854775808\r\n"), error + "invalid bulk length");
  EXPECT_EQ(read("\"a\r\n"), error + "unbalanced quotes in request");
}

TEST(RequestReader, RequestsBeforeAnErrorAreAnswered) {
  EXPECT_EQ(read("PING\r\n*x\r\n"), "[PING,]Protocol error: invalid multibulk length");
}

TEST(RequestReader, BoundsArgumentsAndBytes) {
  EXPECT_EQ(read("*21\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(read("*1\r\n$4097\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(read("*2\r\n$3000\r\n" + std::string(3000, 'a') + "\r\n$3000\r\n"),
            "Protocol error: too big request");
  const std::string_view short_one = "*2\r\n$1\r\na\r\n$12\r\naaaaaaaaaaaa\r\n";
  EXPECT_EQ(read(short_one, 100, true, short_one.size()), "[a,aaaaaaaaaaaa,]");
  EXPECT_EQ(read(short_one, 100, true, short_one.size() - 1), "Protocol error: too big request");
  std::string words;
  for (int i = 0; i < 21; ++i) words += "a ";
  EXPECT_EQ(read(words + "\r\n"), "Protocol error: invalid multibulk length");
}

TEST(RequestReader, BoundsLines) {
  const std::string most(RequestReader::kMostLine, 'a');
  EXPECT_EQ(read(most, 4096), "");
  EXPECT_EQ(read(most + "a", 4096), "Protocol error: too big inline request");
  EXPECT_EQ(read(most + "a\n", most.size() + 2), "Protocol error: too big inline request");
  EXPECT_EQ(read("*" + most, 4096), "Protocol error: too big mbulk count string");
  EXPECT_EQ(read("*1\r\n$" + most, 4096), "Protocol error: too big bulk count string");
}

TEST(RequestReader, AClientThatIsNotLoggedInMaySendLittle) {
  EXPECT_EQ(read("*11\r\n", 100, false), "Protocol error: unauthenticated multibulk length");
  EXPECT_EQ(read("*10\r\n", 100, false), "");
  constexpr std::size_t kMany = 1 << 20;
  EXPECT_EQ(read("*1\r\n$16385\r\n", 100, false, kMany),
            "Protocol error: unauthenticated bulk length");
  EXPECT_EQ(read("*1\r\n$16384\r\n", 100, false, kMany), "");
}

TEST(WholeNumber, IsReadAsRedisReadsIt) {
  EXPECT_EQ(whole_number("0"), 0);
  EXPECT_EQ(whole_number("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(whole_number("9223372036854775807"), INT64_MAX);
  for (const std::string_view text :
       {"", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "a", "9223372036854775808", "--1"}) {
    EXPECT_EQ(whole_number(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace sluice::server::resp
