#include "base/quoted.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sluice::base
