#include "base/quoted.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

TEST(Quoted, IsTheTextInQuotes) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a b"), "'a b'");
  EXPECT_EQ(in_quotes(std::string(40, 'x')), "'" + std::string(40, 'x') + "'");
}

TEST(Quoted, CutsLongTextAndSaysSo) {
  EXPECT_EQ(in_quotes(std::string(41, 'x')), "'" + std::string(40, 'x') + "...'");
  EXPECT_EQ(in_quotes(std::string(1000000, 'x')).size(), 45u);
}

TEST(Quoted, CutsBetweenCharacters) {
  const std::string clef = "\xF0\x9D\x84\x9E";  // U+1D11E, four bytes
  for (std::size_t before = 37; before <= 40; ++before) {
    const std::string text = std::string(before, 'x') + clef + "y";
    EXPECT_EQ(in_quotes(text), "'" + std::string(before, 'x') + "...'") << before;
  }
  EXPECT_EQ(in_quotes(std::string(36, 'x') + clef + "y"),
            "'" + std::string(36, 'x') + clef + "...'");
}

TEST(Quoted, ShowsControlCharactersAsQuestionMarks) {
  EXPECT_EQ(in_quotes(std::string("a\0\n\x1b\x7f", 5)), "'a" + std::string(4, '?') + "'");
  EXPECT_EQ(in_quotes("\u0085\u061c\u200f\u2028\u202e\u2066\u2069."), "'???????.'");
}

TEST(Quoted, KeepsOtherCharacters) {
  for (const std::string_view text : {"é", "\u00a0", "\u061b", "\u200d", "\u2027", "\u202f",
                                      "\u2065", "\u206a", "键", "\xE2", "\xE2\x80", "\xC2"}) {
    EXPECT_EQ(in_quotes(text), "'" + std::string(text) + "'");
  }
}

}  // namespace
}  // namespace sluice::base
