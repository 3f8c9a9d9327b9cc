#include "base/quoted.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::base {
namespace {

TEST(Quoted, IsTheTextInQuotes) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a b"), "'a b'");
  EXPECT_EQ(in_quotes(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
}

TEST(Quoted, CutsLongTextAndSaysSo) {
  EXPECT_EQ(in_quotes(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(1000000, 'x')).size(), 65u);
}

TEST(Quoted, CutsBetweenCharacters) {
  const std::string clef = "\xF0\x9D\x84\x9E";  // U+1D11E, four bytes
  for (std::size_t before = 56; before < 60; ++before) {
    const std::string text = std::string(before, 'x') + clef;
    EXPECT_EQ(in_quotes(text), "'" + text + "'") << before;
    EXPECT_EQ(in_quotes(text + "y"), "'" + text + "...'") << before;
  }
}

TEST(Quoted, EscapesControlCharacters) {
  EXPECT_EQ(in_quotes(std::string("a\0\n\x1b[2J\x7f", 8)), "'a\\x00\\x0A\\x1B[2J\\x7F'");
  EXPECT_EQ(in_quotes("\u0085\u061c\u202e."), "'\\xC2\\x85\\xD8\\x9C\\xE2\\x80\\xAE.'");
}

TEST(Quoted, EscapesWhatIsNotUtf8) { EXPECT_EQ(in_quotes("é\xFF\xE2\x80"), "'é\\xFF\\xE2\\x80'"); }

TEST(Quoted, KeepsOtherCharacters) {
  for (const std::string_view text :
       {"é", "\u00a0", "\u061b", "\u200d", "\u2027", "\u202f", "\u2065", "\u206a", "键"}) {
    EXPECT_EQ(in_quotes(text), "'" + std::string(text) + "'");
  }
}

TEST(Letters, ChangeOnlyInAscii) {
  EXPECT_EQ(lower_case("AZaz@[`{ \xC3\x84"), "azaz@[`{ \xC3\x84");
  EXPECT_EQ(upper_case("AZaz@[`{ \xC3\xA4"), "AZAZ@[`{ \xC3\xA4");
  EXPECT_TRUE(same_word("Get", "gET"));
  EXPECT_FALSE(same_word("@", "`"));
  EXPECT_FALSE(same_word("ab", "abc"));
}

TEST(Joined, NamesTheLastApart) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(joined(Texts{}, " or "), "");
  EXPECT_EQ(joined(Texts{"a"}, " or "), "a");
  EXPECT_EQ(joined(Texts{"", "b"}, " or "), " or b");
  EXPECT_EQ(joined(Texts{"a", "b", "c"}, " or "), "a, b or c");
  EXPECT_EQ(joined(Texts{"a", "b", "c"}), "a, b, c");
}

TEST(Trimmed, IsWithoutSpacesAndTabsAtBothEnds) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed("\na"), "\na");
}

TEST(Utf8, IsValidInEveryLength) {
  EXPECT_EQ(find_invalid_utf8("a é 中 😀 \xF4\x8F\xBF\xBF \xED\x9F\xBF"), std::string_view::npos);
}

TEST(Utf8, IsCheckedAfterAnyNumberOfAsciiBytes) {
  for (std::size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'a') + "\xC3\xA4";
    EXPECT_EQ(find_invalid_utf8(text + std::string(9, 'b')), std::string::npos) << before;
    EXPECT_EQ(find_invalid_utf8(text + "bcd\xFF" + std::string(9, 'b')), before + 5) << before;
    EXPECT_EQ(find_invalid_utf8(std::string(before, 'a') + "\xA4"), before) << before;
  }
}

TEST(Utf8, IsRefusedAtItsFirstByte) {
  const char* const broken[] = {"ab\xFF",
                                "ab\x80",
                                "ab\xC3",
                                "ab\xC0\xAF",
                                "ab\xE0\x80\x80",
                                "ab\xE4\xB8",
                                "ab\xED\xA0\x80",
                                "ab\xF0\x80\x80\x80",
                                "ab\xF4\x90\x80\x80",
                                "ab\xF5\x80\x80\x80",
                                "ab\xC3("};
  for (const char* text : broken) EXPECT_EQ(find_invalid_utf8(text), 2u) << text;
}

TEST(Utf8, ReplacesEachByteThatIsNotIt) {
  EXPECT_EQ(as_utf8("é"), "é");
  EXPECT_EQ(as_utf8("a\xE4\xB8z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(as_utf8("\xFF", "?"), "?");
}

TEST(AppendNumber, WritesNumbersOfEveryLength) {
  std::uint64_t number = UINT64_MAX;
  for (; number > 0; number /= 10) {
    std::string text = "n=";
    append_number(text, number);
    EXPECT_EQ(text, "n=" + std::to_string(number));
  }
  std::string text;
  append_number(text, number);
  EXPECT_EQ(text, "0");
}

TEST(Digits, AreTheWholeTextAndAtLeastOne) {
  EXPECT_TRUE(is_digits("0123456789"));
  for (const char* text : {"", "-1", "1 ", "1a", "a1", "\xEF\xBC\x91"}) {
    EXPECT_FALSE(is_digits(text)) << text;
  }
}

TEST(HexByte, IsOfTwoDigits) {
  EXPECT_EQ(hex_byte('0', 'a'), 10);
  EXPECT_EQ(hex_byte('F', 'f'), 255);
  EXPECT_LT(hex_byte('g', '0'), 0);
  EXPECT_LT(hex_byte('0', 'g'), 0);
}

TEST(StrictlyDecoded, NamesAPercentSignThatBeginsNoEscape) {
  EXPECT_EQ(*strictly_decoded("a%25%7db%C3%A4"), "a%}b\xC3\xA4");
  EXPECT_EQ(*strictly_decoded(""), "");
  EXPECT_EQ(strictly_decoded("%41%4gz").error(), "%4g");
  EXPECT_EQ(strictly_decoded("a%2").error(), "%2");
  EXPECT_EQ(strictly_decoded("%%25").error(), "%%2");
}

TEST(ReadNumber, ReadsOnlyATextThatIsANumberAsAWhole) {
  EXPECT_EQ(read_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(read_number<std::int64_t>("-7"), -7);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1x", "x", "0x1", "65536"}) {
    EXPECT_EQ(read_number<std::uint16_t>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace sluice::base
