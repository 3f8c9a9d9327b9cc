#include "cli/key_command.h"

#include <gtest/gtest.h>

namespace sluice::cli {
namespace {

TEST(Glob, MatchesAsRedisDoes) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("**", "ab"));
  EXPECT_TRUE(glob_matches("a*b*c", "axxbyybzc"));
  EXPECT_FALSE(glob_matches("a*b*c", "axxbyybz"));
  EXPECT_TRUE(glob_matches("*|user|*", "shop|user|ip=1"));
  EXPECT_TRUE(glob_matches("?b", "ab"));
  EXPECT_FALSE(glob_matches("?b", "b"));
  EXPECT_TRUE(glob_matches(std::string("a\0*", 3), std::string_view("a\0\xFF", 3)));
}

TEST(Glob, SupportsClassesAndEscapes) {
  EXPECT_TRUE(glob_matches("[ac]", "c"));
  EXPECT_FALSE(glob_matches("[ac]", "b"));
  EXPECT_TRUE(glob_matches("[a-c]", "b"));
  EXPECT_TRUE(glob_matches("[c-a]", "b"));
  EXPECT_FALSE(glob_matches("[^a-c]", "b"));
  EXPECT_TRUE(glob_matches("[^a-c]", "d"));
  EXPECT_TRUE(glob_matches("[\\]]", "]"));
  EXPECT_TRUE(glob_matches("\\*", "*"));
  EXPECT_FALSE(glob_matches("\\*", "a"));
  EXPECT_TRUE(glob_matches("a\\", "a\\"));
  EXPECT_FALSE(glob_matches("[]", "a"));
  EXPECT_TRUE(glob_matches("[ab", "b"));
}

TEST(Glob, EndsSoonOnManyStars) {
  const std::string text(2000, 'a');
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*a*a*a*ab", text));
}

TEST(Glob, OfATextMatchesItAlone) {
  for (const std::string text : {"a", "a*b", "[x]", "\\", "?", ""}) {
    EXPECT_TRUE(glob_matches(as_glob(text), text)) << text;
    EXPECT_TRUE(is_literal(as_glob(text))) << text;
    EXPECT_FALSE(glob_matches(as_glob(text), text + "x")) << text;
  }
  EXPECT_FALSE(is_literal("a*"));
  EXPECT_FALSE(is_literal("[a]"));
  EXPECT_FALSE(is_literal("a?"));
}

}  // namespace
}  // namespace sluice::cli
