// What a new algorithm needs besides its row in sluice/algorithm.h. Each test names the missing
// file or section.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "sluice/algorithm.h"
#include "sluice/testing/store_conformance.h"
#include "tests/property/generate.h"

namespace {

namespace fs = std::filesystem;

using sluice::AlgorithmInfo;

const fs::path kSource(SLUICE_SOURCE_DIR);

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool contains(const fs::path& path, const std::string& text) {
  return text_of(kSource / path).find(text) != std::string::npos;
}

// Whether any file in a folder satisfies a predicate.
template <typename Predicate>
bool any_file(const fs::path& folder, Predicate predicate) {
  return std::any_of(fs::directory_iterator(kSource / folder), fs::directory_iterator(),
                     [&](const fs::directory_entry& entry) { return predicate(entry.path()); });
}

// Permits and holds need an argument that commands do not have.
constexpr auto kRates = [] {
  std::array<AlgorithmInfo, sluice::kAlgorithms.size() - 2> rates;
  std::copy_n(sluice::kAlgorithms.begin(), rates.size(), rates.begin());
  return rates;
}();

class AlgorithmChecklist : public ::testing::TestWithParam<AlgorithmInfo> {
 protected:
  const AlgorithmInfo& row = GetParam();
  const std::string name{row.name};
};

TEST_P(AlgorithmChecklist, HasAStepInAFileOfCoreWithATest) {
  EXPECT_TRUE(contains("src/core/" + name + ".h", "namespace sluice::core"));
  EXPECT_TRUE(contains("src/core/" + name + ".h", "static_assert(StepFunction<decltype(step)"));
  EXPECT_TRUE(contains("src/core/" + name + "_test.cc", "TEST("));
}

TEST_P(AlgorithmChecklist, HasALuaFile) {
  EXPECT_TRUE(any_file("src/stores/redis/script", [&](const fs::path& path) {
    return path.extension() == ".lua" && text_of(path).find(name) != std::string::npos;
  })) << "no file in src/stores/redis/script names it";
}

TEST_P(AlgorithmChecklist, HasAnOracle) {
  sluice_property::Dice dice(1);
  std::set<sluice_oracle::Algorithm> drawn;
  for (int i = 0; i < 1000; ++i) drawn.insert(sluice_property::random_algorithm(dice));
  EXPECT_TRUE(drawn.contains(static_cast<sluice_oracle::Algorithm>(row.algorithm)))
      << "the property tests never draw it";
}

TEST_P(AlgorithmChecklist, HasVectorsAndExactNumbers) {
  EXPECT_TRUE(any_file("tests/vectors", [&](const fs::path& path) {
    const std::string file = path.filename().string();
    return file.starts_with(name) && file.ends_with(".expected.jsonl");
  })) << "tests/vectors has no file for it";
  const auto scripts = sluice::testing::detail::exact_scripts();
  EXPECT_TRUE(std::any_of(scripts.begin(), scripts.end(), [&](const auto& script) {
    return script.limit.algorithm() == row.algorithm;
  })) << "the conformance suite has no exact numbers for it";
}

TEST_P(AlgorithmChecklist, IsInTheDocumentation) {
  EXPECT_TRUE(contains("docs/algorithms.md", "`" + name + "`"));
  EXPECT_TRUE(contains("docs/reference/state-format.md",
                       "| `" + std::string(1, row.letter) + "` | " + name));
  EXPECT_TRUE(contains("docs/rules.schema.json", "\"" + name + "\""));
  EXPECT_TRUE(
      contains("docs/reference/commands.md", "- `" + name + "`: " + std::string(row.summary)));
}

INSTANTIATE_TEST_SUITE_P(, AlgorithmChecklist, ::testing::ValuesIn(kRates),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
