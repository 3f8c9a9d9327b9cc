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

}  // namespace
}  // namespace sluice::rules
