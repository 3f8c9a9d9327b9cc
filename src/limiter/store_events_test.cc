#include "sluice/store.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice {
namespace {

TEST(StoreEventKind, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kStoreEventKinds; ++i) {
    names.insert(to_string(static_cast<StoreEventKind>(i)));
  }
  EXPECT_EQ(names.size(), kStoreEventKinds);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(to_string(StoreEventKind::kBreakerClosed), "breaker_closed");
  EXPECT_EQ(to_string(static_cast<StoreEventKind>(kStoreEventKinds)), "unknown");
}

}  // namespace
}  // namespace sluice
