// A store that wraps another one, and the suite that tests stores.
#include <sluice/sluice.h>
#include <sluice/testing/store_conformance.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

// [start store]
// Counts the requests that another store denies.
class CountingStore final : public sluice::Store {
 public:
  explicit CountingStore(std::unique_ptr<sluice::Store> inner) : inner_(std::move(inner)) {}

  sluice::Decision apply(sluice::Action action, std::span<const sluice::Charge> charges,
                         std::optional<sluice::Instant> now,
                         std::span<sluice::Decision> each) noexcept override {
    const sluice::Decision decision = inner_->apply(action, charges, now, each);
    if (!decision) denied_.fetch_add(1, std::memory_order_relaxed);
    return decision;
  }
  std::uint64_t denied() const { return denied_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<sluice::Store> inner_;
  std::atomic<std::uint64_t> denied_ = 0;
};
// [end store]

// [start conformance]
int main() {
  const auto make = [](const sluice::Clock& clock) {
    return std::make_unique<CountingStore>(
        std::make_unique<sluice::MemoryStore>(sluice::MemoryStoreOptions{}, clock));
  };
  const auto failures =
      sluice::testing::check_store({.make = make, .permits = true, .budgets = true});
  for (const std::string& failure : failures) std::puts(failure.c_str());
  std::puts(failures.empty() ? "the store conforms" : "the store does not conform");
  return failures.empty() ? 0 : 1;
}
// [end conformance]
