#pragma once

#include <array>
#include <string>

#include "sluice/permit_id.h"
#include "sluice/testing/store_conformance_suite.h"

// The checks of permits. For store_conformance_impl.h.
namespace sluice::testing::detail {

// Two permits, and what is asked of them. Instants are given as the time since kStart.
class PermitCheck {
 public:
  explicit PermitCheck(Check& check) : check_(check) {}

  Decision ask(Action action, std::string_view key, const PermitId* permit, std::uint64_t cost = 1,
               Duration at = Duration{0}) {
    const Charge charge{.key = key, .limit = limit, .cost = cost, .permit = permit};
    return check_.limiter().store().apply_one(action, charge, kStart + at);
  }
  Decision ask_both(Action action, Duration at = Duration{0}) {
    const Charge charges[] = {
        {.key = "a", .limit = limit, .cost = 2, .tag = "tag", .permit = &first},
        {.key = "b", .limit = brief, .cost = 1, .tag = "tag", .permit = &first}};
    return check_.limiter().apply(action, charges, each, kStart + at);
  }

  static constexpr Duration kLease = kPeriod;
  static constexpr Duration kBriefLease = kPeriod / 10;
  const Limit limit = concurrency(3).lease(kLease);
  const Limit brief = concurrency(1).lease(kBriefLease);
  const PermitId first = PermitId(PermitId::Bytes{1});
  const PermitId second = PermitId(PermitId::Bytes{2});
  std::array<Decision, 2> each = {};

 private:
  Check& check_;
};

inline Decision gone(std::uint32_t limit, std::uint32_t remaining, std::int64_t reset_after) {
  return {.outcome = Outcome::kDenied,
          .reason = Reason::kGone,
          .capacity = limit,
          .remaining = remaining,
          .reset_after = Duration{reset_after}};
}

inline void check_one_permit(Check& c) {
  PermitCheck p(c);
  const std::int64_t lease = PermitCheck::kLease.count();
  const Duration half = PermitCheck::kLease / 2;
  c.expect_equal(p.ask(Verb::kTake, "k", &p.first, 2), ok(3, 1, lease), "a permit of 2 units");
  c.expect_equal(p.ask(Verb::kTake, "k", &p.second, 2, half),
                 limited(3, 1, half.count(), half.count()), "units that are in flight");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first, 1, half), ok(3, 1, lease), "a longer lease");
  const Duration end = half + PermitCheck::kLease;
  c.expect_equal(p.ask(Verb::kPeek, "k", nullptr, 0, end - Duration{1}), ok(3, 1, 1),
                 "a tick before the lease ends");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first, 1, end), gone(3, 3, 0), "an ended lease");
  c.expect_equal(p.ask(Verb::kTake, "k", &p.second, 3, end), ok(3, 0, lease), "its units");
  c.expect_equal(p.ask(Verb::kPeek, "k", nullptr, 0), ok(3, 0, lease), "a clock that goes back");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.first, 1, end), gone(3, 0, lease), "a late release");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second, 1, end), ok(3, 3, 0), "a release");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second, 1, end), gone(3, 3, 0), "another release");
}

inline void check_other_verbs_of_permits(Check& c) {
  PermitCheck p(c);
  const std::int64_t lease = PermitCheck::kLease.count();
  p.ask(Verb::kTake, "k", &p.first, 1);
  const Decision rest = p.ask(Verb::kTakeAtMost, "k", &p.second, 9);
  c.expect(rest.allowed() && rest.taken == 2, "take_at_most must take the units that are left");
  c.expect_equal(p.ask(Verb::kRefund, "k", nullptr, 2), ok(3, 2, lease), "a refund of the newest");
  c.expect_equal(p.ask(Verb::kRelease, "k", &p.second), gone(3, 2, lease), "a refunded permit");
  c.expect_equal(p.ask(Verb::kReset, "k", nullptr, 0), ok(3, 3, 0), "a reset");
  c.expect_equal(p.ask(Verb::kExtend, "k", &p.first), gone(3, 3, 0), "a permit before a reset");
  const auto expect_invalid = [&](const Decision& said, const std::string& what) {
    c.expect(said.reason == Reason::kInvalid, what + " must be invalid");
  };
  expect_invalid(p.ask(Verb::kTake, "k", nullptr), "a take without a permit");
  expect_invalid(p.ask(Verb::kRelease, "k", nullptr), "a release without a permit");
  expect_invalid(p.ask(Verb::kCharge, "k", &p.first), "a charge");
  const Charge other{.key = "k", .limit = limit_of(Algorithm::kFixedWindow, 1), .permit = &p.first};
  expect_invalid(c.limiter().store().apply_one(Verb::kRelease, other, kStart),
                 "a release of another algorithm");
}

inline void check_permit_of_two_limits(Check& c) {
  PermitCheck p(c);
  c.expect_allowed(p.ask_both(Verb::kTake), "a permit of two limits");
  c.expect_limited(p.ask_both(Verb::kTake), "a second one");
  c.expect(p.each[0].remaining == 1, "a denied request must take no permit");
  const Duration later = PermitCheck::kBriefLease;
  c.expect(p.ask_both(Verb::kExtend, later).reason == Reason::kGone &&
               p.each[0].reset_after == PermitCheck::kLease - later,
           "if one lease has ended, extend must change nothing");
  c.expect_allowed(p.ask_both(Verb::kRelease, later), "a release where one lease has ended");
  c.expect(p.each[0].remaining == 3 && p.each[1].reason == Reason::kGone,
           "a release must end the permit where it is live");
  c.expect(p.ask_both(Verb::kRelease, later).reason == Reason::kGone, "it must be gone then");
}

}  // namespace sluice::testing::detail
