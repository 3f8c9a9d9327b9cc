#include "core/quoted.h"

#include <gtest/gtest.h>

namespace sluice::core {
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
}

}  // namespace
}  // namespace sluice::core
