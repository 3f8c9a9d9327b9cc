#include "envoy/config.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::envoy {
namespace {

// A simple implementation; it may be slow.
bool matches_simply(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') {
    return !text.empty() && text[0] == pattern[0] &&
           matches_simply(pattern.substr(1), text.substr(1));
  }
  for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
    if (matches_simply(pattern.substr(1), text.substr(skipped))) return true;
  }
  return false;
}

std::string nth(unsigned n, std::string_view letters) {
  std::string out;
  for (; n > 0; n /= static_cast<unsigned>(letters.size()) + 1) {
    const unsigned digit = n % (static_cast<unsigned>(letters.size()) + 1);
    if (digit > 0) out += letters[digit - 1];
  }
  return out;
}

TEST(Wildcard, MatchesZeroOrMoreBytesForEachStar) {
  EXPECT_TRUE(matches_wildcard("*", ""));
  EXPECT_TRUE(matches_wildcard("a*", "a"));
  EXPECT_TRUE(matches_wildcard("a*c*e", "abcde"));
  EXPECT_TRUE(matches_wildcard("**", "x"));
  EXPECT_TRUE(matches_wildcard("*b", "aab"));
  EXPECT_FALSE(matches_wildcard("a*a", "a"));
  EXPECT_FALSE(matches_wildcard("a*c*e", "abcd"));
  EXPECT_FALSE(matches_wildcard("*b*", "aaa"));
  EXPECT_FALSE(matches_wildcard("", "a"));
  EXPECT_TRUE(matches_wildcard("a", "a"));
}

TEST(Wildcard, AgreesWithTryingEveryWayToMatch) {
  for (unsigned p = 0; p < 1024; ++p) {
    const std::string pattern = nth(p, "a*b");
    for (unsigned t = 0; t < 729; ++t) {
      const std::string text = nth(t, "ab");
      ASSERT_EQ(matches_wildcard(pattern, text), matches_simply(pattern, text))
          << pattern << " " << text;
    }
  }
}

}  // namespace
}  // namespace sluice::envoy
