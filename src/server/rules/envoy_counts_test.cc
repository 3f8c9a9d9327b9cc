#include "server/rules/envoy_manager.h"

#include <gtest/gtest.h>

#include "server/api/envoy/test_service.h"

namespace sluice::server {
namespace {

constexpr std::string_view kCounted = R"(
domain: d
descriptors:
  - { key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: s, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - { key: all, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 1 } }
  - key: host
    value: "*.org"
    value_to_metric: true
    descriptors: [ { key: user, rate_limit: { unit: minute, requests_per_unit: 1 } } ]
  - key: net
    value: "10.*"
    share_threshold: true
    value_to_metric: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
    descriptors:
      - { key: all, detailed_metric: true, rate_limit: { unit: minute, requests_per_unit: 9 } }
  - { key: free, rate_limit: { unlimited: true } }
)";

class EnvoyCountsTest : public ServiceTest {
 protected:
  EnvoyFiles::Cells cells_of(std::string_view name) {
    const EnvoyFiles::Sums all = envoy_->counted();
    const auto found = all.find(std::string(name));
    return found != all.end() ? found->second : EnvoyFiles::Cells{};
  }
};

TEST_F(EnvoyCountsTest, CountsWhatEachLimitAnswered) {
  open(kCounted);
  for (int i = 0; i < 3; ++i) ask("d", {"a=1"});
  for (int i = 0; i < 3; ++i) ask("d", {"s=1"});
  EXPECT_EQ(cells_of("d/a"), (EnvoyFiles::Cells{1, 2, 0}));
  EXPECT_EQ(cells_of("d/s"), (EnvoyFiles::Cells{1, 0, 2}));
}

TEST_F(EnvoyCountsTest, CountsByValuesWhereItIsAskedTo) {
  open(kCounted);
  ask("d", {"all=x"});
  ask("d", {"host=a.org,user=1", "host=b.org,user=1"});
  EXPECT_EQ(cells_of("d/all_x")[EnvoyFiles::kWithinLimit], 1U);
  EXPECT_EQ(cells_of("d/host_a.org.user")[EnvoyFiles::kWithinLimit], 1U);
  EXPECT_EQ(cells_of("d/host_b.org.user")[EnvoyFiles::kWithinLimit], 1U);
}

TEST_F(EnvoyCountsTest, CountsValuesThatShareACounterByTheirPattern) {
  open(kCounted);
  ask("d", {"net=10.1"});
  ask("d", {"net=10.2"});
  EXPECT_EQ(cells_of("d/net_10.*"), (EnvoyFiles::Cells{1, 1, 0}));
  ask("d", {"net=10.1,all=x"});
  EXPECT_EQ(cells_of("d/net_10.*.all_x"), (EnvoyFiles::Cells{1, 0, 0}));
}

TEST_F(EnvoyCountsTest, CountsUnlimitedLimits) {
  open(kCounted);
  for (int i = 0; i < 3; ++i) ask("d", {"free=1"});
  EXPECT_EQ(cells_of("d/free"), (EnvoyFiles::Cells{3, 0, 0}));
}

TEST_F(EnvoyCountsTest, CountsAValueTooManyAsOther) {
  open(kCounted);
  for (std::size_t i = 0; i < EnvoyFiles::kMostValues + 7; ++i) {
    const std::string descriptor = "all=" + std::to_string(i);
    ask("d", {descriptor});
  }
  EXPECT_EQ(cells_of("d/all (other)")[EnvoyFiles::kWithinLimit], 7U);
  ask("d", {"all=3"});
  EXPECT_EQ(cells_of("d/all_3")[EnvoyFiles::kOverLimit], 1U);
  EXPECT_LE(envoy_->counted().size(), EnvoyFiles::kMostValues + 8);
}

TEST_F(EnvoyCountsTest, GoesOnCountingWhenTheFilesChange) {
  open(kCounted);
  ask("d", {"a=1"});
  folder_.write("envoy.yaml", std::string(kCounted) + "  - { key: new }\n");
  ASSERT_TRUE(*envoy_->reload());
  EXPECT_EQ(cells_of("d/a")[EnvoyFiles::kWithinLimit], 1U);
  ask("d", {"a=2"});
  EXPECT_EQ(cells_of("d/a")[EnvoyFiles::kWithinLimit], 2U);
  EXPECT_EQ(cells_of("d/a")[EnvoyFiles::kWithinLimit], 2U);
}

}  // namespace
}  // namespace sluice::server
