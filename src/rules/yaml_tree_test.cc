#include "rules/yaml_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::rules::yaml_tree_test {
namespace {

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// Every error of a text, one a line, or "ok".
std::string errors_of(std::string_view text) {
  Diagnostics diagnostics(text, "f");
  const Document document = read_yaml(diagnostics);
  if (diagnostics.empty()) return "ok";
  std::string out;
  for (const RuleError& error : diagnostics.take()) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

TEST(YamlTree, KeepsValuesAndTheirPlaces) {
  Diagnostics diagnostics("a: 1\nb: \"2\"\nc: [x, {y: z}]\n", "f");
  const Document document = read_yaml(diagnostics);
  ASSERT_TRUE(diagnostics.empty());
  const Node& root = *document.root;
  ASSERT_TRUE(root.is_map());
  ASSERT_EQ(root.pairs.size(), 3u);
  EXPECT_TRUE(root.pairs[0].second->is_plain("1"));
  EXPECT_TRUE(root.pairs[1].second->quoted);
  EXPECT_EQ(root.pairs[1].second->at, 8u);
  ASSERT_EQ(root.pairs[2].second->items.size(), 2u);
  EXPECT_TRUE(root.pairs[2].second->flow);
  EXPECT_EQ(diagnostics.error(root.pairs[2].second->items[1]->at).column, 8);
}

TEST(YamlTree, RefusesAKeyTwiceInAMap) {
  EXPECT_EQ(errors_of("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n"),
            "f:4:3: error: duplicate key 'c'; expected each key once in a map\n"
            "f:5:1: error: duplicate key 'a'; expected each key once in a map");
}

TEST(YamlTree, RefusesKeysThatAreNotText) {
  EXPECT_EQ(errors_of("{[a]: 1}"), "f:1:2: error: a key that is not text; expected 'key: value'");
}

TEST(YamlTree, RefusesTags) {
  EXPECT_EQ(errors_of("a: !!str 5\n"),
            "f:1:4: error: the tag 'tag:yaml.org,2002:str'; expected a value without a tag");
}

TEST(YamlTree, RefusesASecondDocument) {
  EXPECT_EQ(errors_of("a: 1\n---\nb: 2\n"),
            "f:2:1: error: a second document; expected one document in a file, without '---'");
  EXPECT_EQ(errors_of("---\na: 1\n"), "ok");
}

TEST(YamlTree, SaysThatNothingIsThere) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(errors_of(text),
              "f:1:1: error: the file is empty; expected a map that begins with 'version: 1'");
  }
}

TEST(YamlTree, NamesTheIndentationOfALine) {
  constexpr std::string_view kIndent =
      "expected valid YAML; begin the line in the column of the others in its map or list, or put "
      "quotes around";
  for (const char* text : {"a:\n  - b: 1\n   c: { d: 1 }\n", "a:\n  - b: 1\n     c: { d: 1 }\n",
                           "a:\n  b: 1\n c: 1\n", "a:\n  - 1\n - 2\n"}) {
    EXPECT_NE(errors_of(text).find(kIndent), std::string::npos) << errors_of(text);
  }
  for (const char* text : {"a: b: c\n", "a: 1\nb: c: d\n", "a: {b: 1} c\n"}) {
    const std::string error = errors_of(text);
    EXPECT_NE(error.find("expected valid YAML; put quotes around"), std::string::npos) << error;
  }
}

TEST(YamlTree, NamesATabThatIndents) {
  for (const char* text :
       {"a:\n\tb: 1\n", "a:\n  b: 1\n  \tc: 1\n", "a:\n  -\tb: 1\n", "a:\n  - b: 1\n\t  c: 1\n"}) {
    const std::string error = errors_of(text);
    EXPECT_TRUE(error.ends_with("; YAML has no tabs there; indent with spaces")) << error;
  }
  const std::string inside = errors_of("a:\tb: c: d\n");
  EXPECT_TRUE(inside.ends_with("or contains ': ' or ' #'")) << inside;
}

TEST(YamlTree, ReportsThePositionOfASyntaxError) {
  EXPECT_EQ(errors_of("a: [1\n").substr(0, 50),
            "f:2:1: error: not YAML: end of sequence flow not f");
  EXPECT_EQ(errors_of("a: é: c\n").substr(0, 40), "f:1:5: error: not YAML: illegal map valu");
  const std::string alias = errors_of("host: *.example.com\n");
  EXPECT_TRUE(alias.starts_with("f:1:7: error: not YAML: the referenced anchor is not defined"))
      << alias;
  EXPECT_TRUE(alias.ends_with("; expected quotes around text that begins with '*'")) << alias;
  const std::string wide = "; did you mean ':' instead of the full-width '：'?";
  EXPECT_TRUE(errors_of("version：1\nrules:\n").ends_with(wide)) << "in the line before";
  EXPECT_TRUE(errors_of("rules:\n- name：a\n  b: 1").ends_with(wide));
  EXPECT_FALSE(errors_of("version：1\n\na: b: c\n").ends_with(wide)) << "elsewhere";
}

TEST(YamlTree, RefusesInvalidUtf8AndReportsItsPosition) {
  EXPECT_EQ(errors_of("a: 1\nb: é\xFF\n"),
            "f:2:5: error: not UTF-8: the byte '\\xFF'; expected UTF-8 text");
  EXPECT_EQ(errors_of("\xFF\xFE"
                      "a"),
            "f:1:1: error: not UTF-8: the byte '\\xFF'; expected UTF-8 text");
}

TEST(YamlTree, RefusesControlCharactersInsteadOfEndingThere) {
  const std::string expected = "; expected text; in double quotes it can be written as \\xNN";
  EXPECT_EQ(errors_of("a: 1\n\x04"
                      "b: 2\n"),
            "f:2:1: error: a control character, '\\x04'" + expected);
  EXPECT_EQ(errors_of(std::string("a: \0b\n", 6)),
            "f:1:4: error: a control character, '\\x00'" + expected);
  EXPECT_EQ(errors_of("a: 1\rb: 2\n"), "f:1:5: error: a control character, '\\x0D'" + expected);
  EXPECT_EQ(errors_of("a: 1\r\nb: 2\r\n"), "ok");
}

TEST(YamlTree, RefusesMoreThan4MiB) {
  EXPECT_EQ(errors_of("a: 1\n" + repeated("#", kMaxFileBytes)),
            "f:1:1: error: the file has over 4 MiB; expected at most 4194304 bytes");
  EXPECT_EQ(errors_of("a: 1\n" + repeated("#", kMaxFileBytes - 5)), "ok");
}

TEST(YamlTree, Takes32LevelsAndRefusesTheNext) {
  EXPECT_EQ(errors_of(repeated("[", 32) + repeated("]", 32)), "ok");
  EXPECT_EQ(errors_of(repeated("[", 33) + repeated("]", 33)),
            "f:1:33: error: nested too deeply; expected at most 32 levels");
}

TEST(YamlTree, SurvivesAHundredThousandLevels) {
  std::string indented;
  for (int i = 0; i < 2500; ++i) indented += repeated(" ", static_cast<std::size_t>(i)) + "a:\n";
  for (const std::string& text :
       {repeated("[", 100000), repeated("{a: ", 100000), repeated("- ", 100000),
        repeated("? ", 100000), repeated("[a, ", 100000), repeated("{? ", 100000),
        repeated("[", 100000) + repeated("]", 100000), indented}) {
    EXPECT_NE(errors_of(text).find("nested too deeply"), std::string::npos) << text.substr(0, 20);
  }
}

TEST(YamlTree, CountsAliasesAsTheirExpansion) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" +
            repeated(last + " , ", 10) + "]\n";
  }
  const std::string expected =
      "error: too many values (aliases count as their values); expected at most 1000000";
  EXPECT_NE(errors_of(bomb).find(expected), std::string::npos) << errors_of(bomb);
  EXPECT_NE(errors_of("[" + repeated("1,", 1100000) + "]").find(expected), std::string::npos);
  EXPECT_EQ(errors_of("a: &x [1, 2]\nb: *x\nc: [*x, *x]\n"), "ok");
}

TEST(YamlTree, RefusesAnAliasInsideItsOwnExpansion) {
  EXPECT_EQ(
      errors_of("a: &x [*x]\n"),
      "f:1:8: error: an alias to a value that is not complete; expected an alias to a value that "
      "ends before it");
}

TEST(YamlTree, NamesThePlaceOfNothingByItsKeyOrDash) {
  Diagnostics diagnostics("a:\nb:\n  -\n  - x\n", "f");
  const Document document = read_yaml(diagnostics);
  ASSERT_TRUE(diagnostics.empty());
  EXPECT_EQ(document.root->pairs[0].second->at, 0u);
  const Node& empty_item = *document.root->pairs[1].second->items[0];
  EXPECT_EQ(diagnostics.error(empty_item.at).line, 3);
  EXPECT_EQ(diagnostics.error(empty_item.at).column, 3);
}

TEST(Diagnostics, StopListingAtAThousandAndSaySo) {
  std::string text;
  for (int i = 0; i < 1500; ++i) text += "a: 1\n";
  const std::string errors = errors_of(text);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n') + 1, 1000);
  EXPECT_NE(errors.find("(and 499 more errors)"), std::string::npos);
}

}  // namespace
}  // namespace sluice::rules::yaml_tree_test
