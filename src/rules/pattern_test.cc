#include "rules/rule_set.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice::rules {
namespace {

struct Case {
  const char* pattern;
  std::vector<std::string> matches;
  std::vector<std::string> differs;
};

void expect(const Case& c) {
  const auto pattern = Pattern::compile(c.pattern);
  ASSERT_TRUE(pattern.has_value()) << c.pattern << ": " << pattern.error();
  for (const auto& value : c.matches)
    EXPECT_TRUE(pattern->matches(value)) << c.pattern << " " << value;
  for (const auto& value : c.differs)
    EXPECT_FALSE(pattern->matches(value)) << c.pattern << " " << value;
}

TEST(Pattern, WithoutStarsIsExact) {
  expect({"/send/code",
          {"/send/code"},
          {"/send/code/", "/send/cod", "/Send/code", "", "/send/codex"}});
  expect({"POST", {"POST"}, {"post", "POSTS"}});
  expect({"", {""}, {"a"}});
}

TEST(Pattern, StarIsOneSegment) {
  expect(
      {"/img/*", {"/img/a.png", "/img/**"}, {"/img/", "/img", "/img/a/b", "/img/a/", "/imgs/a"}});
  expect({"/*/edit", {"/a/edit"}, {"//edit", "/a/b/edit", "/edit", "/a/edit/"}});
  expect({"/*", {"/a"}, {"/", "", "a", "/a/b"}});
}

TEST(Pattern, StarNextToTextMayMatchNothing) {
  expect({"/img/a*", {"/img/a", "/img/abc"}, {"/img/b", "/img/a/b", "/img/a/"}});
  expect({"/img/*.png", {"/img/a.png", "/img/.png"}, {"/img/a.jpg", "/img/a/b.png"}});
  expect({"/v*/x*y/z", {"/v1/xy/z", "/v/x12y/z"}, {"/v1/x/z", "/v1/xy/z/", "/v1/x/y/z"}});
  expect({"/a*b*c", {"/abc", "/abbcc", "/axbxc"}, {"/acb", "/ab", "/a/b/c", "/abcd"}});
}

TEST(Pattern, PrefixAndSuffixDoNotShareCharacters) {
  expect({"/aa*aa", {"/aaaa", "/aaxaa"}, {"/aa", "/aaa"}});
  expect({"ab*ba", {"abba", "abxba"}, {"aba"}});
  expect({"a*a*a", {"aaa", "axaxa"}, {"aa", "a"}});
}

TEST(Pattern, TwoStarsAtTheEndAreThePathAndAllBelow) {
  expect({"/api/order/**",
          {"/api/order", "/api/order/", "/api/order/1", "/api/order/1/2"},
          {"/api/orders", "/api/orde", "/api"}});
  expect({"/**", {"/", "/a", "/a/b", ""}, {"a"}});
  expect({"/a/*/c/**", {"/a/b/c", "/a/b/c/", "/a/b/c/d/e"}, {"/a/c", "/a/b/cd", "/a//c"}});
}

TEST(Pattern, TwoStarsBetweenSlashesAreAnyNumberOfSegments) {
  expect({"/a/**/z", {"/a/z", "/a/b/z", "/a/b/c/z", "/a//z"}, {"/az", "/a/bz", "/a/b/z/", "/b/z"}});
  expect({"/a/**/m/**", {"/a/m", "/a/x/m/y/z"}, {"/a/mm"}});
}

TEST(Pattern, TwoStarsNextToTextMatchSlashes) {
  expect({"/img/**.png", {"/img/a.png", "/img/a/b.png", "/img/.png"}, {"/img/a.jpg", "/img.png"}});
  expect({"/img**", {"/img", "/imgs", "/img/a/b"}, {"/im"}});
  expect({"/a*/b**c", {"/ax/bc", "/a/b/x/c"}, {"/a/x/bc", "/a/b"}});
}

TEST(Pattern, WithoutLeadingSlashKnowsNoSegments) {
  expect({"*.example.com", {"a.example.com", "a.b.example.com", ".example.com"}, {"example.com"}});
  expect({"*bot*", {"bot", "Mozilla/5.0 bot/1"}, {"bo t"}});
  expect({"*", {"", "a", "a/b"}, {}});
  expect({"**", {"", "a/b"}, {}});
  expect({"abc*", {"abc", "abcd/e"}, {"ab"}});
  expect({"**/edit", {"/edit", "/a/b/edit"}, {"edit"}});
}

TEST(Pattern, TakesCharactersOfExpressionsAsText) {
  expect({"/a.b/**/c+(d)", {"/a.b/c+(d)", "/a.b/x/c+(d)"}, {"/axb/c+(d)", "/a.b/cc(d)"}});
  expect({"/中/**/é*x", {"/中/y/éx"}, {"/中/y/ex"}});
}

TEST(Pattern, RegexMatchesTheWholeValue) {
  expect({"~/v[0-9]+/.*", {"/v1/a", "/v22/"}, {"/v1", "x/v1/a", "/v/a"}});
  expect({"~a|b", {"a", "b"}, {"ab", "ca"}});
  expect({"~(?i)get", {"GET", "get"}, {"gett"}});
  expect({"~a\\*b", {"a*b"}, {"ab", "axb"}});
  expect({"~", {""}, {"a"}});
}

TEST(Pattern, RegexMatchesLineEndsAndInvalidUtf8) {
  expect({"~/api/.*", {"/api/\n", "/api/\xFF", "/api/\xC3/x"}, {"/ap\xFF/"}});
  expect({"/a/**/z", {"/a/\xFF/z", "/a/\n/z"}, {}});
}

TEST(Pattern, OfAnyKindTakesBytesOfAnyKind) {
  const std::string nul("/a/\0b", 5);
  EXPECT_TRUE(Pattern::compile("/a/*")->matches(nul));
  EXPECT_TRUE(Pattern::compile("~/a/.b")->matches(nul));
  EXPECT_FALSE(Pattern::compile("/a/")->matches(nul));
}

TEST(Pattern, ReportsTheErrorOfAnInvalidPattern) {
  EXPECT_EQ(Pattern::compile("~a(").error(),
            "the regex '~a(' is not valid: missing ): a(; expected an RE2 expression after '~'");
  EXPECT_EQ(Pattern::compile("/a/***").error(),
            "'***' in the pattern '/a/***'; expected '*' or '**'");
}

// What the table says, tried literally: by recursion over the pattern, without any shortcut.
bool oracle(std::string_view p, std::string_view v, bool path, bool at_segment) {
  if (p.empty()) return v.empty();
  if (path && p.starts_with("/**") && (p.size() == 3 || p[3] == '/')) {
    if (oracle(p.substr(3), v, path, false)) return true;
    if (!v.starts_with('/')) return false;
    for (std::size_t n = 1; n <= v.size(); ++n) {
      if (oracle(p.substr(3), v.substr(n), path, false)) return true;
    }
    return false;
  }
  if (p[0] != '*') {
    return !v.empty() && v[0] == p[0] && oracle(p.substr(1), v.substr(1), path, p[0] == '/');
  }
  const bool two = p.starts_with("**");
  const auto rest = p.substr(two ? 2 : 1);
  const bool whole = path && !two && at_segment && (rest.empty() || rest[0] == '/');
  for (std::size_t n = whole ? 1 : 0; n <= v.size(); ++n) {
    if (path && !two && v.substr(0, n).find('/') != v.npos) return false;
    if (oracle(rest, v.substr(n), path, false)) return true;
  }
  return false;
}

// Every text of these characters, up to that length.
std::vector<std::string> texts(std::string_view characters, std::size_t length) {
  std::vector<std::string> all{""};
  std::size_t from = 0;
  for (std::size_t size = 1; size <= length; ++size) {
    const std::size_t to = all.size();
    for (std::size_t i = from; i < to; ++i) {
      for (const char c : characters) all.push_back(all[i] + c);
    }
    from = to;
  }
  return all;
}

TEST(Pattern, AgreesWithItsDefinitionOnAllShortPatterns) {
  const auto values = texts("/ab", 5);
  std::size_t compiled = 0;
  for (const std::string& text : texts("/a*", 6)) {
    const auto pattern = Pattern::compile(text);
    ASSERT_EQ(pattern.has_value(), text.find("***") == text.npos) << text;
    if (!pattern) continue;
    ++compiled;
    const bool path = text.starts_with('/');
    for (const std::string& value : values) {
      ASSERT_EQ(pattern->matches(value), oracle(text, value, path, false)) << text << " " << value;
    }
  }
  EXPECT_GT(compiled, 500u);
}

}  // namespace
}  // namespace sluice::rules
