#include "rules/schema.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sluice/limit.h"
#include "sluice/rule_set.h"

namespace sluice::rules::schema::schema_test {
namespace {

const std::filesystem::path kSource = SLUICE_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string first_error(std::string_view yaml) {
  const auto rules = RuleSet::parse(yaml, "f");
  return rules ? "ok" : rules.error().front().to_string();
}

// "same", or the first line in which two texts differ.
std::string difference(const std::string& on_disk, const std::string& written) {
  std::istringstream left(on_disk);
  std::istringstream right(written);
  std::string ours;
  std::string theirs;
  for (int line = 1; on_disk != written; ++line) {
    const bool more = static_cast<bool>(std::getline(left, ours));
    const bool same = static_cast<bool>(std::getline(right, theirs)) == more && ours == theirs;
    if (same && more) continue;
    return std::to_string(line)
        .insert(0, "line ")
        .append(": ")
        .append(ours)
        .append(" | ")
        .append(theirs);
  }
  return "same";
}

TEST(Schema, AgreesWithTheManual) {
  const std::string manual = text_of(kSource / "docs/reference/rules.md");
  const std::size_t at = manual.find("### file\n");
  ASSERT_NE(at, manual.npos);
  EXPECT_EQ(difference(manual.substr(at), reference(file())), "same")
      << "docs/reference/rules.md does not end with what `sluice docs rules` prints";
}

TEST(Schema, AgreesWithTheFileForEditors) {
  EXPECT_EQ(difference(text_of(kSource / "docs/rules.schema.json"), json_schema()), "same")
      << "docs/rules.schema.json differs from what `sluice docs rules --schema` prints";
}

TEST(Schema, OfARuleNeedsLimitsOrAnAction) {
  const std::string one_of = R"(
        "required": [
          "name"
        ],
        "oneOf": [
          {
            "required": [
              "limits"
            ]
          },
          {
            "required": [
              "action"
            ]
          }
        ],
)";
  const std::string schema = json_schema();
  const std::size_t rules = schema.find("\n    \"rules\": {");
  ASSERT_NE(rules, schema.npos);
  EXPECT_NE(schema.find(one_of, rules), schema.npos);
}

TEST(Schema, ExamplesOfTheManualAreRight) {
  const std::string manual = text_of(kSource / "docs/rules.md");
  const std::string fence = "```yaml\n";
  int examples = 0;
  for (std::size_t at = manual.find(fence); at != manual.npos; at = manual.find(fence, at)) {
    at += fence.size();
    EXPECT_EQ(first_error(manual.substr(at, manual.find("```", at) - at)), "ok");
    ++examples;
  }
  EXPECT_EQ(examples, 7);
}

TEST(Schema, ExampleFilesAreRight) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kSource / "examples/rules")) {
    const auto rules = RuleSet::load(entry.path());
    EXPECT_TRUE(rules.has_value()) << rules.error().front().to_string();
    ++files;
  }
  EXPECT_GE(files, 3);
}

const Key& key_of(const Map& map, std::string_view name) {
  for (const Key& key : map.keys) {
    if (key.name == name) return key;
  }
  throw std::out_of_range(std::string(name));
}

TEST(Schema, ListsAlgorithmsAsTheLibraryNamesThem) {
  const Map& rule = *key_of(file(), "rules").map;
  const Map& limit = *key_of(rule, "limits").map;
  const auto names = key_of(limit, "algorithm").values;
  ASSERT_EQ(names.size(), kAlgorithms.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], to_string(static_cast<Algorithm>(i)));
  }
}

void expect_explained(const Map& map) {
  std::set<std::string_view> names;
  for (const Key& key : map.keys) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.required, key.otherwise.empty()) << key.name;
    EXPECT_EQ(key.help.find('|'), key.help.npos) << key.name << ": would end its cell";
    if (key.map != nullptr && key.map != &map) expect_explained(*key.map);
  }
}

TEST(Schema, ExplainsEveryKeyAndSaysItsDefault) { expect_explained(file()); }

}  // namespace
}  // namespace sluice::rules::schema::schema_test
