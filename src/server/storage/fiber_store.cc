#include "server/storage/fiber_store.h"

#include <algorithm>
#include <chrono>

#include "server/net/fiber.h"

namespace sluice::server {
namespace {

// Resumes the fiber when its request is answered.
class Waker final : public AsyncStore::Completion {
 public:
  Decision wait() {
    wait_.wait();
    return decision_;
  }
  void done(const Decision& decision) noexcept override {
    decision_ = decision;
    wait_.finish();
  }

 private:
  net::FiberWait wait_;
  Decision decision_;
};

}  // namespace

Decision FiberStore::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  if (net::current_fiber() == nullptr) {
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), refusal);
    return refusal;
  }
  const auto begin = std::chrono::steady_clock::now();
  Waker waker;
  store_.async_apply(action, charges, now, each, waker);
  const Decision decision = waker.wait();
  durations_.add(std::chrono::steady_clock::now() - begin);
  return decision;
}

}  // namespace sluice::server
