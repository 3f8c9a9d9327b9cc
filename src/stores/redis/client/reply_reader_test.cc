#include "stores/redis/client/pipeline.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "stores/redis/client/test_reply.h"

namespace sluice::redis {
namespace {

using Progress = ReplyReader::Progress;
using namespace std::string_literals;

// All that is read from these bytes, and how it ends: "PONG" "more", or "bad".
std::string read_all(ReplyReader& reader) {
  std::string out;
  while (true) {
    switch (reader.next()) {
      case Progress::kMore: return out + "more";
      case Progress::kBad: return out + "bad: " + std::string(reader.why());
      case Progress::kReply: out += described(reader.reply()) + " "; break;
    }
  }
}
std::string read_all(std::string_view bytes) {
  ReplyReader reader;
  reader.feed(bytes);
  return read_all(reader);
}
std::string read_bounded(std::string_view bytes, const ReplyReader::Bounds& bounds) {
  ReplyReader reader(bounds);
  reader.feed(bytes);
  return read_all(reader);
}

TEST(ReplyReader, ReadsTheTypesOfResp2) {
  EXPECT_EQ(read_all("+OK\r\n-ERR no\r\n:-7\r\n$2\r\nab\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"),
            "+OK !ERR no -7 \"ab\" \"\" nil nil [] more");
  EXPECT_EQ(read_all("*3\r\n*2\r\n:1\r\n$1\r\nx\r\n$-1\r\n+s\r\n"), "[[1 \"x\"] nil +s] more");
}

TEST(ReplyReader, ReadsTheTypesOfResp3AsTypesOfResp2) {
  EXPECT_EQ(read_all("_\r\n#t\r\n#f\r\n,1.5\r\n,-inf\r\n(12345678901234567890\r\n"),
            "nil 1 0 \"1.5\" \"-inf\" \"12345678901234567890\" more");
  EXPECT_EQ(read_all("=7\r\ntxt:abc\r\n!5\r\nERR x\r\n~1\r\n:1\r\n%1\r\n+k\r\n:2\r\n"),
            "\"abc\" !ERR x [1] [+k 2] more");
}

TEST(ReplyReader, SkipsPushesAndAttributes) {
  EXPECT_EQ(read_all(">2\r\n+message\r\n*1\r\n:1\r\n+OK\r\n>0\r\n"), "+OK more");
  EXPECT_EQ(read_all("|1\r\n+ttl\r\n:1\r\n+OK\r\n"), "+OK more");
  EXPECT_EQ(read_all("*2\r\n|1\r\n+ttl\r\n|1\r\n:1\r\n:2\r\n*1\r\n:1\r\n:3\r\n:4\r\n"),
            "[3 4] more");
}

TEST(ReplyReader, ReadsTheSameRepliesFromPiecesOfAnySize) {
  const std::string bytes =
      "*3\r\n$4\r\na\r\nb\r\n%1\r\n+k\r\n$-1\r\n|1\r\n+x\r\n:0\r\n,2.5\r\n-E\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    ReplyReader reader;
    std::string said;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(std::string_view(bytes).substr(at, piece));
      std::string read = read_all(reader);
      said += read.substr(0, read.size() - 4);  // without "more"
    }
    EXPECT_EQ(said, "[\"a\r\nb\" [+k nil] \"2.5\"] !E ") << piece;
  }
}

TEST(ReplyReader, KeepsNulInStrings) {
  const TestReply reply("$3\r\na\0b\r\n"s);
  EXPECT_EQ((*reply).text, "a\0b"s);
}

TEST(ReplyReader, RefusesMalformedReplies) {
  for (const std::string bytes : {"x\r\n",
                                  "\r\n",
                                  "HTTP/1.1 200 OK\r\n",
                                  ":\r\n",
                                  ":1x\r\n",
                                  ":99999999999999999999\r\n",
                                  "$x\r\n",
                                  "$\r\n",
                                  "$-2\r\n",
                                  "$1\r\nabc\r\n",
                                  "*-2\r\n",
                                  "*1x\r\n",
                                  "~-1\r\n",
                                  "%-1\r\n",
                                  "#x\r\n",
                                  "#\r\n",
                                  "_x\r\n",
                                  ",\r\n",
                                  ",xyz\r\n",
                                  "=3\r\nabc\r\n",
                                  "=4\r\nabcd\r\n",
                                  "!-1\r\n",
                                  "*1\r\n>1\r\n:1\r\n",
                                  "$ 1\r\na\r\n",
                                  "$+1\r\na\r\n"}) {
    EXPECT_EQ(read_all(bytes).find("bad: "), 0u) << bytes;
  }
}

TEST(ReplyReader, ReadsNothingMoreAfterAMalformedReply) {
  ReplyReader reader;
  reader.feed("x\r\n");
  EXPECT_EQ(reader.next(), Progress::kBad);
  reader.feed("+OK\r\n");
  EXPECT_EQ(reader.next(), Progress::kBad);
}

TEST(ReplyReader, AsksForMoreOrRefusesIfAnyByteIsLostOrChanged) {
  const std::string bytes =
      "*4\r\n$1\r\na\r\n%1\r\n+k\r\n:12\r\n|1\r\n+x\r\n#t\r\n=5\r\ntxt:b\r\n~0\r\n";
  ASSERT_EQ(read_all(bytes), "[\"a\" [+k 12] \"b\" []] more");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    EXPECT_EQ(read_all(bytes.substr(0, at)), "more");
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(byte);
      const std::string said = read_all(changed);  // perhaps other replies
      EXPECT_TRUE(said.ends_with("more") || said.find("bad: ") != said.npos) << changed;
    }
  }
}

TEST(ReplyReader, RefusesATooLargeReplyWhenItHasReadItsHead) {
  EXPECT_EQ(read_bounded("$101\r\n", {.reply_bytes = 100}), "bad: a reply is too large");
  EXPECT_EQ(
      read_bounded("*2\r\n$60\r\n" + std::string(60, 'x') + "\r\n$60\r\n", {.reply_bytes = 100}),
      "bad: a reply is too large");
  EXPECT_EQ(read_bounded("*5\r\n", {.elements = 5}), "bad: a reply has too many elements");
  EXPECT_EQ(read_bounded("*2\r\n%1\r\n", {.elements = 4}), "bad: a reply has too many elements");
  EXPECT_EQ(read_bounded("*9223372036854775807\r\n", {}), "bad: a reply has too many elements");
  EXPECT_EQ(read_bounded("%9223372036854775807\r\n", {}), "bad: a reply has too many elements");
  EXPECT_EQ(read_bounded("+" + std::string(101, 'x'), {.line_bytes = 100}),
            "bad: a line of a reply is too long");
}

// Its '\r' was once counted in.
TEST(ReplyReader, AcceptsALineOfTheLargestSizeInPieces) {
  ReplyReader reader({.line_bytes = 3});
  reader.feed("+ab\r");
  EXPECT_EQ(reader.next(), Progress::kMore);
  reader.feed("\n+abcd");
  EXPECT_EQ(reader.next(), Progress::kReply);
  EXPECT_EQ(reader.next(), Progress::kBad);
}

TEST(ReplyReader, RefusesArraysThatAreNestedTooDeeply) {
  std::string bytes;
  for (int i = 0; i < 5; ++i) bytes += "*1\r\n";
  EXPECT_EQ(read_bounded(bytes + ":1\r\n", {.depth = 5}), "[[[[[1]]]]] more");
  EXPECT_EQ(read_bounded(bytes + ":1\r\n", {.depth = 4}), "bad: a reply is nested too deeply");
}

TEST(Reply, HasTheTextOfStringsAndStatusesOnly) {
  EXPECT_EQ((*TestReply("$1\r\na\r\n")).string(), "a");
  EXPECT_EQ((*TestReply("+OK\r\n")).string(), "OK");
  EXPECT_EQ((*TestReply("-ERR\r\n")).string(), "");
  EXPECT_EQ((*TestReply(":1\r\n")).string(), "");
}

TEST(Reply, IsAnArrayOfItsElementsOrFewer) {
  const TestReply pair("*2\r\n:1\r\n:2\r\n");
  EXPECT_TRUE((*pair).is_array_of(0));
  EXPECT_TRUE((*pair).is_array_of(2));
  EXPECT_FALSE((*pair).is_array_of(3));
  EXPECT_FALSE((*TestReply("*-1\r\n")).is_array_of(0));
  EXPECT_FALSE((*TestReply("$0\r\n\r\n")).is_array_of(0));
}

TEST(Reply, FindsTheFieldsOfMapsAndOfLists) {
  for (const std::string_view head : {"%2\r\n", "*4\r\n", "*5\r\n"}) {
    const TestReply reply(std::string(head) + "+b\r\n+a\r\n+a\r\n$1\r\n1\r\n+b\r\n");
    EXPECT_EQ((*reply).field("a"), "1") << head;
    EXPECT_EQ((*reply).field("b"), "a") << head;
    EXPECT_EQ((*reply).field("c"), "") << head;
  }
  EXPECT_EQ((*TestReply("+a\r\n")).field("a"), "");
}

TEST(ReplyReader, ReadsManyRepliesInARow) {
  ReplyReader reader;
  for (int i = 0; i < 10'000; ++i) {
    const std::string text(static_cast<std::size_t>(i % 100), 'x');
    reader.feed(bulk(text) + "*2\r\n:1\r\n" + bulk(text).substr(0, 2));
    ASSERT_EQ(reader.next(), Progress::kReply);
    ASSERT_EQ(reader.reply().text, text);
    ASSERT_EQ(reader.next(), Progress::kMore);
    reader.feed(bulk(text).substr(2));
    ASSERT_EQ(reader.next(), Progress::kReply);
    ASSERT_EQ(reader.reply().count, 2u);
    ASSERT_EQ(reader.next(), Progress::kMore);
  }
}

}  // namespace
}  // namespace sluice::redis
