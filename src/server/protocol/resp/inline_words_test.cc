#include "server/protocol/resp/request_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace sluice::server::resp {
namespace {

using Words = std::vector<std::string>;

std::optional<Words> split(std::string_view line) {
  Words out;
  for (;;) {
    std::string word;
    const InlineWord next = take_word(line, word);
    if (next == InlineWord::kEnd) return out;
    if (next == InlineWord::kUnbalanced) return std::nullopt;
    out.push_back(word);
  }
}

TEST(InlineWords, AreSplitAtBlanks) {
  EXPECT_EQ(split("  PING\t a  b "), (Words{"PING", "a", "b"}));
  EXPECT_EQ(split(""), Words{});
  EXPECT_EQ(split(" \t\v\f "), Words{});
}

TEST(InlineWords, QuotesHoldBlanksAndEscapes) {
  EXPECT_EQ(split(R"("a b" 'c d')"), (Words{"a b", "c d"}));
  EXPECT_EQ(split(R"("\n\r\t\b\a\x41\"\\\q\xZZ")"), (Words{"\n\r\t\b\aA\"\\qxZZ"}));
  EXPECT_EQ(split(R"('it\'s \n')"), (Words{R"(it's \n)"}));
  EXPECT_EQ(split(R"("" '')"), (Words{"", ""}));
  EXPECT_EQ(split(R"(a"b c")"), (Words{"ab c"}));
}

TEST(InlineWords, AQuoteHasToCloseBeforeABlankOrTheEnd) {
  for (const std::string_view line :
       {"\"", "'", "\"a", "'a", "\"a\"b", "'a'b", "\"a\\", "a \"b\\\""}) {
    EXPECT_EQ(split(line), std::nullopt) << line;
  }
}

}  // namespace
}  // namespace sluice::server::resp
