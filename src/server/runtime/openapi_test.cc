#include "server/runtime/openapi.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace sluice::server {
namespace {

TEST(OpenApi, MatchesTheFileOfTheManual) {
  std::ifstream file(std::filesystem::path(SLUICE_SOURCE_DIR) / "docs/openapi.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(text == openapi())
      << "docs/openapi.json differs from what `sluice docs openapi` prints";
}

}  // namespace
}  // namespace sluice::server
