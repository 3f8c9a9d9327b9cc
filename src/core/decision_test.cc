#include "sluice/decision.h"

#include <gtest/gtest.h>

#include <set>
#include <type_traits>

#include "core/decision.h"

namespace sluice {
namespace {

static_assert(std::is_trivially_copyable_v<Decision>);

TEST(Decision, IsTrueWhereItAllows) {
  EXPECT_TRUE(Decision{});
  EXPECT_FALSE((Decision{.outcome = Outcome::kDenied}));
  EXPECT_FALSE((Decision{.outcome = Outcome::kFailed}));
}

TEST(Decision, RefusedHasFailedExactlyIfTheStoreFailed) {
  for (int i = 0; i <= static_cast<int>(Reason::kInvalid); ++i) {
    const auto reason = static_cast<Reason>(i);
    const Decision refused = Decision::refused(reason);
    const bool failed = reason == Reason::kStoreTimeout || reason == Reason::kStoreError ||
                        reason == Reason::kForeignValue || reason == Reason::kStoreFull;
    EXPECT_EQ(refused.outcome, failed ? Outcome::kFailed : Outcome::kDenied) << to_string(reason);
    EXPECT_EQ(refused.reason, reason);
    EXPECT_FALSE(refused.allowed());
  }
}

TEST(Decision, HasNumbersIfTheCounterAnswered) {
  std::set<std::string_view> with, without;
  for (int i = 0; i <= static_cast<int>(Reason::kInvalid); ++i) {
    const Decision denied{.outcome = Outcome::kDenied, .reason = static_cast<Reason>(i)};
    (has_numbers(denied) ? with : without).insert(to_string(denied.reason));
  }
  EXPECT_EQ(with, (std::set<std::string_view>{"ok", "over", "limited", "never", "blocked", "gone",
                                              "conflict", "too_many_holds", "shadow", "deny_cache",
                                              "lease"}));
  EXPECT_FALSE(has_numbers(Decision{.reason = Reason::kDenyCache})) << "the store was not asked";
}

TEST(Decision, EveryReasonHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Reason::kInvalid); ++i) {
    names.insert(to_string(static_cast<Reason>(i)));
  }
  EXPECT_EQ(names,
            (std::set<std::string_view>{
                "ok",          "lease",         "over",           "limited",   "never",
                "blocked",     "shadow",        "deny_cache",     "fallback",  "store_timeout",
                "store_error", "foreign_value", "store_full",     "missing",   "too_many_waiters",
                "gone",        "conflict",      "too_many_holds", "deny_rule", "invalid"}));
  EXPECT_EQ(to_string(Outcome::kAllowed), "allowed");
  EXPECT_EQ(to_string(Outcome::kDenied), "denied");
  EXPECT_EQ(to_string(Outcome::kFailed), "failed");
}

TEST(WireOutcome, OfAFailureIsDenied) {
  EXPECT_EQ(core::wire_outcome(Outcome::kAllowed), "allowed");
  EXPECT_EQ(core::wire_outcome(Outcome::kDenied), "denied");
  EXPECT_EQ(core::wire_outcome(Outcome::kFailed), "denied");
}

}  // namespace
}  // namespace sluice
