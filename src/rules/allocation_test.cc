#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "sluice/attributes.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

// Counts what this program allocates while a test looks.
namespace {
// operator new has no object to keep them in. NOLINTBEGIN(*-avoid-non-const-global-variables)
std::atomic<bool> g_counting{false};
std::atomic<std::size_t> g_allocations{0};
// NOLINTEND(*-avoid-non-const-global-variables)

void* counted(std::size_t size) {
  if (g_counting) ++g_allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return ::operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace sluice {
namespace {

class Admitting final : public Store {
 public:
  Decision apply(Verb, std::span<const Charge>, std::optional<Instant>,
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
      - { key: "{ip/64}", algorithm: gcra, limit: 1, per: 1s }
      - { algorithm: gcra, limit: 1, per: 1s }
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
  g_allocations = 0;
  g_counting = true;
  for (int i = 0; i < 100; ++i) (void)decider.decide(*rules, request);
  g_counting = false;
  EXPECT_EQ(g_allocations, 0u);
  g_counting = true;
  const std::string allocates(1000, 'x');
  g_counting = false;
  EXPECT_EQ(g_allocations, 1u) << "the count itself does not work";
}

}  // namespace
}  // namespace sluice
