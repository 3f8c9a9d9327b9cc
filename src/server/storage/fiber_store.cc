#include "server/storage/fiber_store.h"

#include <algorithm>
#include <utility>

#include "server/net/fiber.h"

namespace sluice::server {
namespace {

// Resumes the fiber when its operation is finished.
class Waker final : public redis::Operation::Owner {
 public:
  void wait() { wait_.wait(); }
  void finished(redis::Operation&) noexcept override { wait_.finish(); }

 private:
  net::FiberWait wait_;
};

}  // namespace

Decision FiberStore::apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                           std::span<Decision> each) noexcept {
  if (client_ == nullptr || net::current_fiber() == nullptr) {
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), refusal);
    return refusal;
  }
  if (free_.empty()) free_.push_back(redis::make_operation(*options_));
  std::unique_ptr<redis::Operation> operation = std::move(free_.back());
  free_.pop_back();
  if (operation->prepare({verb, charges, now, each})) {
    Waker waker;
    operation->start(*client_, waker);
    waker.wait();
  }
  const Decision decision = operation->decision();
  free_.push_back(std::move(operation));
  return decision;
}

}  // namespace sluice::server
