#include "rules/diagnostics.h"

#include <gtest/gtest.h>

namespace sluice::rules {
namespace {

TEST(SourceText, CountsLinesAndCharactersFromOne) {
  const SourceText source("ab\nçé: x\n");
  EXPECT_EQ(source.place(0).line, 1);
  EXPECT_EQ(source.place(0).column, 1);
  EXPECT_EQ(source.place(1).column, 2);
  EXPECT_EQ(source.place(3).line, 2);
  EXPECT_EQ(source.place(3).column, 1);
  EXPECT_EQ(source.place(7).column, 3);
  EXPECT_EQ(source.place(1000).line, 3);
  EXPECT_EQ(source.place(1000).column, 1);
}

TEST(SourceText, LeavesTheByteOrderMarkOut) {
  const SourceText source("\xEF\xBB\xBFversion");
  EXPECT_EQ(source.text(), "version");
  EXPECT_EQ(source.place(0).column, 1);
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

TEST(Quoted, EscapesControlCharacters) {
  EXPECT_EQ(in_quotes("a\x1B[2J\n\x7F"), "'a\\x1B[2J\\x0A\\x7F'");
  EXPECT_EQ(in_quotes("é\xFF"), "'é\\xFF'");
}

TEST(Quoted, CutsLongTextBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "中";
  const std::string shown = in_quotes(text);
  EXPECT_EQ(find_invalid_utf8(shown), std::string::npos);
  EXPECT_EQ(shown.substr(shown.size() - 4), "...'");
  EXPECT_LT(shown.size(), 80u);
}

}  // namespace
}  // namespace sluice::rules
