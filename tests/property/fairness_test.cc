#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <vector>

#include "quota/allocator.h"
#include "tests/oracle/fair.h"

namespace sluice::quota::fairness_test {
namespace {

std::uint64_t up_to(std::uint64_t most) {
  return *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(0, most + 1));
}

// Small numbers have many ties, large ones the widest products.
std::vector<Claim> claims(std::uint64_t most_asked, std::uint64_t most_weight) {
  std::vector<Claim> out(1 + up_to(12));
  for (Claim& one : out) {
    one = {up_to(most_asked), up_to(most_weight), up_to(3) == 0 ? up_to(most_asked / 4) : 0};
  }
  return out;
}

RC_GTEST_PROP(Fairness, PartsAreThoseOfTheDefinitionRoundedDown, ()) {
  const bool is_small = up_to(1) == 0;
  const std::uint64_t most = is_small ? 40 : std::uint64_t{1} << 50;
  const std::vector<Claim> all = claims(most, is_small ? 4 : std::uint64_t{1} << 32);
  const std::uint64_t total = up_to(is_small ? 100 : kWhole);
  std::vector<std::uint64_t> parts(all.size());
  divide(all, total, parts);
  std::vector<sluice_oracle::Demand> demands;
  for (const Claim& one : all) demands.push_back({one.asked, one.weight, one.at_least});
  const auto fair = sluice_oracle::fair_parts(demands, total);
  for (std::size_t i = 0; i < all.size(); ++i) {
    RC_ASSERT(sluice_oracle::Integer(parts[i]) == sluice_oracle::round_down(fair[i]));
  }
}

TEST(FairnessOracle, GivesTheExampleOfTheTextbook) {
  // Demands 2, 2.6, 4 and 5 of a capacity of 10: 2, 2.6, 2.7 and 2.7.
  using sluice_oracle::Rational;
  const auto parts =
      sluice_oracle::fair_parts({{2, 1, 0}, {Rational(26, 10), 1, 0}, {4, 1, 0}, {5, 1, 0}}, 10);
  EXPECT_EQ(parts,
            (std::vector<Rational>{2, Rational(26, 10), Rational(27, 10), Rational(27, 10)}));
}

// Two limits of 1 and 2: one flow through both, and one through each.
TEST(FairnessOracle, AFlowThroughSeveralLimitsHasTheSmallestPart) {
  using sluice_oracle::Rational;
  const auto rates = sluice_oracle::fair_rates({{9, 1, {0, 1}}, {9, 1, {0}}, {9, 1, {1}}}, {1, 2});
  EXPECT_EQ(rates, (std::vector<Rational>{Rational(1, 2), Rational(1, 2), Rational(3, 2)}));
  const auto weighted =
      sluice_oracle::fair_rates({{Rational(1, 4), 1, {0, 1}}, {9, 3, {0}}, {9, 1, {0}}}, {1, 2});
  EXPECT_EQ(weighted, (std::vector<Rational>{Rational(1, 5), Rational(3, 5), Rational(1, 5)}));
}

}  // namespace
}  // namespace sluice::quota::fairness_test
