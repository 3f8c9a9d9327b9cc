#include "sluice/decision.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

namespace sluice {
namespace {

static_assert(std::is_trivially_copyable_v<Decision>);

TEST(Decision, IsTrueWhereItAllows) {
  EXPECT_TRUE(Decision{});
  EXPECT_FALSE((Decision{.outcome = Outcome::kDenied}));
}

TEST(Decision, EveryReasonHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Reason::kInvalid); ++i) {
    names.insert(to_string(static_cast<Reason>(i)));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"ok", "limited", "never", "shadow", "deny_cache",
                                               "fallback", "store_timeout", "store_error",
                                               "foreign_value", "missing", "invalid"}));
  EXPECT_EQ(to_string(Outcome::kAllowed), "allowed");
  EXPECT_EQ(to_string(Outcome::kDenied), "denied");
}

}  // namespace
}  // namespace sluice
