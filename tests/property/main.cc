#include <gtest/gtest.h>

#include <cstdlib>

// Runs the same cases every time, a few seconds in all. SLUICE_LONG_TESTS=1 runs many more cases,
// different ones each time (RapidCheck prints the seed). RC_PARAMS overrides both.
int main(int argc, char** argv) {
  const bool is_long = std::getenv("SLUICE_LONG_TESTS") != nullptr;
  const char* params = is_long ? "max_success=10000" : "seed=20240229 max_success=100";
  setenv("RC_PARAMS", params, /*overwrite=*/0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
