#include <gtest/gtest.h>

#include "sluice/attributes.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "tests/support/allocations.h"

namespace sluice {
namespace {

class Admitting final : public Store {
 public:
  Decision apply(Action, std::span<const Charge>, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    for (Decision& decision : each) decision = Decision{.capacity = 1, .remaining = 1};
    return each.front();
  }
};

TEST(RuleDecider, AllocatesNothingOnceItsBuffersHaveGrown) {
  const auto rules = RuleSet::parse(R"(
version: 1
rules:
  - name: trial
    match: { path: /api/*/orders, header.x-user: "*" }
    mode: shadow
    continue: true
    limits: [ { key: "{header.x-user} {ip/24/64}", algorithm: gcra, limit: 1, per: 1s } ]
  - name: all
    match: { path: [ /no, "/api/**" ], host: "*.example.*" }
    limits:
      - { key: "{header.x-user|ip}", algorithm: gcra, limit: 1, per: 1s }
      - { key: "{ip/64}", algorithm: gcra, limit: 1, per: 1s, cost: "{query.units|5}" }
      - { name: own, algorithm: gcra, limit: 1, per: 1s }
)",
                                    "f");
  ASSERT_TRUE(rules.has_value()) << rules.error().front().to_string();
  const Attributes request{{"path", "/api/a-path-that-is-long-enough-for-the-heap/orders"},
                           {"host", "a-host-that-is-long-enough-for-the-heap.example.com"},
                           {"header.x-user", "a user | that is long enough for the heap"},
                           {"ip", "2001:db8:1:2:3:4:5:6"}};
  Admitting store;
  Limiter limiter(store);
  RuleDecider decider(limiter);
  ASSERT_EQ(decider.decide(*rules, request).limits.size(), 4u);
  const std::size_t allocations = testing::count_allocations([&] {
    const LimitCost own{"own", 3};
    for (int i = 0; i < 100; ++i) (void)decider.decide(*rules, request, {1, {&own, 1}});
  });
  EXPECT_EQ(allocations, 0u);
}

}  // namespace
}  // namespace sluice
