#include "sluice/permit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

class Permits : public ::testing::Test {
 protected:
  std::uint64_t left(std::string_view key, const Limit& limit) {
    return limiter_.peek(key, limit, 0).remaining;
  }

  static constexpr Limit kTwo = concurrency(2).lease(10s);
  static constexpr Limit kBucket = token_bucket(1).per(60s);
  testing::ManualClock clock_;
  MemoryStore store_{{}, clock_};
  Limiter limiter_{store_};
};

TEST_F(Permits, AreReleasedOnceByTheirDestructor) {
  {
    Permit permit = limiter_.hold("exports", kTwo);
    EXPECT_TRUE(permit);
    EXPECT_EQ(permit.decision().remaining, 1u);
    EXPECT_EQ(permit.each().size(), 1u);
    const Permit moved = std::move(permit);
    EXPECT_EQ(left("exports", kTwo), 1u);
    EXPECT_EQ(permit.release().reason, Reason::kGone);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(left("exports", kTwo), 1u);
  }
  EXPECT_EQ(left("exports", kTwo), 2u);
}

TEST_F(Permits, HaveOneAnswerForEachCharge) {
  Permit permit = limiter_.hold("exports", kTwo);
  const Permit moved = std::move(permit);
  ASSERT_EQ(moved.each().size(), 1u);
  EXPECT_EQ(moved.each().front(), moved.decision());
  const Permit bucket = limiter_.hold("exports", kBucket);
  ASSERT_EQ(bucket.each().size(), 1u);
  EXPECT_EQ(bucket.each().front().reason, Reason::kInvalid);
  EXPECT_TRUE(limiter_.hold(std::span<const Charge>()).each().empty());
}

TEST_F(Permits, AssignedAreReleased) {
  Permit permit = limiter_.hold("a", kTwo, 2);
  permit = limiter_.hold("b", kTwo, 2);
  EXPECT_EQ(left("a", kTwo), 2u);
  EXPECT_EQ(left("b", kTwo), 0u);
}

TEST_F(Permits, AreReleasedEarlyOrNotAtAll) {
  Permit permit = limiter_.hold("a", kTwo, 2);
  EXPECT_TRUE(permit.release());
  EXPECT_EQ(left("a", kTwo), 2u);
  EXPECT_EQ(permit.release().reason, Reason::kGone);
  EXPECT_EQ(permit.text(), "");
  const Permit full = limiter_.hold("a", kTwo, 2);
  Permit denied = limiter_.hold("a", kTwo);
  EXPECT_EQ(denied.decision().retry_after, Duration{10s});
  EXPECT_EQ(denied.release().reason, Reason::kGone);
  EXPECT_EQ(denied.extend().reason, Reason::kGone);
  EXPECT_EQ(denied.text(), "");
  EXPECT_EQ(left("a", kTwo), 0u);
}

TEST_F(Permits, EndWithTheirLeaseUnlessTheyAreExtended) {
  Permit permit = limiter_.hold("a", kTwo, 2);
  clock_.advance(6s);
  EXPECT_TRUE(permit.extend());
  clock_.advance(10s - 1us);
  EXPECT_EQ(left("a", kTwo), 0u);
  clock_.advance(1us);
  const Permit next = limiter_.hold("a", kTwo, 2);
  EXPECT_TRUE(next);
  EXPECT_EQ(permit.extend().reason, Reason::kGone);
  EXPECT_EQ(permit.release().reason, Reason::kGone);
  EXPECT_EQ(left("a", kTwo), 0u);
}

TEST_F(Permits, OfSeveralLimitsAreOne) {
  const Charge charges[] = {{"a", kTwo, 2}, {"rate", kBucket}, {"b", kTwo, 1}, {"c", kTwo, 0}};
  {
    const Permit permit = limiter_.hold(charges);
    EXPECT_TRUE(permit);
    EXPECT_EQ(permit.each().size(), 4u);
    EXPECT_EQ(permit.each()[2].remaining, 1u);
    EXPECT_EQ(left("a", kTwo), 0u);
    EXPECT_FALSE(limiter_.hold(charges));
  }
  EXPECT_EQ(left("a", kTwo), 2u);
  EXPECT_EQ(left("b", kTwo), 2u);
  EXPECT_EQ(left("rate", kBucket), 0u);
}

TEST_F(Permits, AreNoIdsOfBudgets) {
  constexpr Limit kAmount = budget(10).per(1h);
  const PermitId id = PermitId::random();
  const Charge both[] = {{"exports", kTwo}, {"money", kAmount, 2}};
  EXPECT_TRUE(Permit(store_, both, {}, Deadline(1s)));
  EXPECT_TRUE(limiter_.hold(both));
  EXPECT_EQ(left("exports", kTwo), 2u);
  EXPECT_EQ(left("money", kAmount), 6u);
  const Charge own[] = {{"exports", kTwo}, {.key = "money", .limit = kAmount, .permit = &id}};
  EXPECT_FALSE(limiter_.hold(own).each()[1].repeated);
  EXPECT_TRUE(limiter_.hold(own).each()[1].repeated);
  EXPECT_EQ(left("money", kAmount), 5u);
}

TEST_F(Permits, NeedAConcurrencyLimit) {
  EXPECT_EQ(limiter_.hold("a", kBucket).decision().reason, Reason::kInvalid);
  EXPECT_EQ(limiter_.hold({}).decision().reason, Reason::kInvalid);
  EXPECT_EQ(left("a", kBucket), 1u);
}

TEST_F(Permits, AreReleasedByTheirTextInAnyProcess) {
  const std::string key("a\0/ü", 5);
  const Charge charges[] = {{.key = key, .limit = kTwo, .cost = 2, .tag = "t"},
                            {.key = "", .limit = kTwo, .rule = {Keyspace::kRules}},
                            {.key = "rate", .limit = kBucket}};
  const std::string text = limiter_.hold(charges).detach();
  EXPECT_EQ(
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      text.npos);
  const Charge peeks[] = {{.key = key, .limit = kTwo, .cost = 0, .tag = "t"},
                          {.key = "", .limit = kTwo, .cost = 0, .rule = {Keyspace::kRules}}};
  std::vector<Decision> each(2);
  limiter_.apply(Verb::kPeek, peeks, each);
  EXPECT_EQ(each[0].remaining, 0u);
  EXPECT_EQ(each[1].remaining, 1u);
  EXPECT_TRUE(limiter_.extend(text));
  EXPECT_TRUE(limiter_.release(text));
  limiter_.apply(Verb::kPeek, peeks, each);
  EXPECT_EQ(each[0].remaining, 2u);
  EXPECT_EQ(each[1].remaining, 2u);
  EXPECT_EQ(limiter_.release(text).reason, Reason::kGone);
  EXPECT_EQ(limiter_.extend(text).reason, Reason::kGone);
}

TEST_F(Permits, AreNotReleasedByOtherTexts) {
  Permit permit = limiter_.hold("exports", kTwo, 2);
  const std::string text = permit.text();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    const Decision said = limiter_.release(changed);
    // Only the numbers of the limit do not name the counter.
    if (said.allowed()) {
      EXPECT_TRUE(i >= 18 && i <= 31) << i;
      permit = limiter_.hold("exports", kTwo, 2);
      break;
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_EQ(limiter_.release(text.substr(0, size)).reason, Reason::kInvalid) << size;
  }
  for (const char* wrong : {"", "=", "a b", "!", "AAAA", "AQ"}) {
    const auto parsed = PermitText::parse(wrong);
    ASSERT_FALSE(parsed) << wrong;
    EXPECT_FALSE(parsed.error().empty());
  }
  EXPECT_FALSE(PermitText::parse(text + "A"));
  EXPECT_FALSE(PermitText::parse(text + "AAAA"));
  EXPECT_FALSE(PermitText::parse(text + "="));
  EXPECT_EQ(left("exports", kTwo), 0u);
}

}  // namespace
}  // namespace sluice
