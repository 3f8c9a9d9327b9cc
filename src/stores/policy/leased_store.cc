#include "sluice/leased_store.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "stores/policy/lease_request.h"

namespace sluice {

// Sleeps until the next lease ends, then gives back.
class LeasedStore::Thread final : public Leases::Impl::Waker {
 public:
  explicit Thread(LeasedStore& store)
      : store_(store), leases_(store.leases_.impl()), thread_([this] { run(); }) {
    leases_.add_waker(*this);
    wake();  // a lease may have begun before
  }
  ~Thread() {
    leases_.remove_waker(*this);
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wakes_.notify_one();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void wake() noexcept override {
    const std::lock_guard lock(mutex_);
    is_earlier_ = true;
    wakes_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    const auto is_woken = [this] { return is_earlier_ || stops_; };
    while (!stops_) {
      is_earlier_ = false;
      const auto next = leases_.next_end();
      const Instant now = leases_.now();
      if (!next) {
        wakes_.wait(lock, is_woken);
      } else if (*next > now) {
        wakes_.wait_for(lock, *next - now, is_woken);
      } else {
        lock.unlock();
        store_.give_back();
        lock.lock();
      }
    }
  }

  LeasedStore& store_;
  Leases::Impl& leases_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_earlier_ = false;
  bool stops_ = false;
  std::thread thread_;  // last: it uses the others
};

LeasedStore::LeasedStore(Store& store, Leases& leases, LeaseReturns returns)
    : store_(store), leases_(leases) {
  if (returns == LeaseReturns::kByThread) thread_ = std::make_unique<Thread>(*this);
}

LeasedStore::~LeasedStore() {
  if (thread_ == nullptr) return;
  thread_.reset();
  give_back(LeaseEnd::kAll);
}

Decision LeasedStore::apply(Action action, std::span<const Charge> charges,
                            std::optional<Instant> now, std::span<Decision> each) noexcept {
  Leases::Impl& leases = leases_.impl();
  if (policy::LeaseRequest::concerns(action, charges, now, each)) {
    return policy::apply_leased(leases, store_, charges, each);
  }
  const bool ends = policy::ends_leases(action.verb);
  if (ends) policy::drop_leases(leases, charges);
  const Decision decision = store_.apply(action, charges, now, each);
  if (ends) policy::drop_leases(leases, charges);
  return decision;
}

Decision LeasedStore::apply_one(Action action, const Charge& charge,
                                std::optional<Instant> now) noexcept {
  const bool is_exact = charge.limit.lease().count() == 0 && !policy::ends_leases(action.verb);
  if (is_exact) return store_.apply_one(action, charge, now);
  Decision each;
  return apply(action, {&charge, 1}, now, {&each, 1});
}

void LeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), store_, which);
}

}  // namespace sluice
