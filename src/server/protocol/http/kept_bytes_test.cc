#include "server/protocol/http/connection.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

namespace sluice::server::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Client final : public KeptBytes::Holder {
 public:
  void drop_kept() noexcept override { has_dropped = true; }
  bool has_dropped = false;
};

class KeptBytesTest : public ::testing::Test {
 protected:
  void keep(Client& client, std::size_t bytes) { kept_.set(client, bytes, nullptr, now_); }

  KeptBytes kept_{100};
  net::SteadyTime now_{std::chrono::hours(1)};
  Client a_, b_, c_;
};

TEST_F(KeptBytesTest, WithinTheBoundNobodyDrops) {
  keep(a_, 60);
  keep(b_, 40);
  EXPECT_EQ(kept_.total(), 100U);
  keep(a_, 50);
  keep(c_, 10);
  EXPECT_EQ(kept_.total(), 100U);
  keep(b_, 0);
  EXPECT_EQ(kept_.total(), 60U);
  EXPECT_FALSE(a_.has_dropped || b_.has_dropped || c_.has_dropped);
}

TEST_F(KeptBytesTest, BeyondTheBoundTheSlowestOfTheSameSizeDrops) {
  keep(a_, 40);
  now_ += seconds(1);
  keep(b_, 40);
  keep(c_, 40);
  EXPECT_TRUE(a_.has_dropped);
  EXPECT_FALSE(b_.has_dropped || c_.has_dropped);
  EXPECT_EQ(kept_.total(), 80U);
}

TEST_F(KeptBytesTest, BeyondTheBoundTheLargestOfTheSameAgeDrops) {
  keep(a_, 10);
  keep(b_, 80);
  keep(c_, 20);
  EXPECT_TRUE(b_.has_dropped);
  EXPECT_FALSE(a_.has_dropped || c_.has_dropped);
}

TEST_F(KeptBytesTest, SmallBytesMayBeKeptForLonger) {
  keep(a_, 10);
  now_ += milliseconds(2);
  keep(b_, 70);
  now_ += milliseconds(1);
  keep(c_, 30);
  EXPECT_TRUE(b_.has_dropped);
  EXPECT_FALSE(a_.has_dropped || c_.has_dropped);
}

TEST_F(KeptBytesTest, ASingleHolderMayExceedTheBound) {
  keep(a_, 1000);
  EXPECT_FALSE(a_.has_dropped);
  now_ += milliseconds(1);
  keep(b_, 1);
  EXPECT_TRUE(a_.has_dropped);
  EXPECT_EQ(kept_.total(), 1U);
}

TEST_F(KeptBytesTest, ATextCountsOnceForAllThatShareIt) {
  const auto text = std::make_shared<const std::string>(90, 'x');
  kept_.set(a_, 1, text, now_);
  kept_.set(b_, 2, text, now_);
  EXPECT_EQ(kept_.total(), 93U);
  kept_.set(a_, 0, nullptr, now_);
  EXPECT_EQ(kept_.total(), 92U);
  kept_.set(b_, 0, nullptr, now_);
  EXPECT_EQ(kept_.total(), 0U);
  EXPECT_EQ(text.use_count(), 1);
  EXPECT_FALSE(a_.has_dropped || b_.has_dropped);
}

}  // namespace
}  // namespace sluice::server::http
