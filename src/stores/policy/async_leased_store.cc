#include <algorithm>
#include <new>

#include "sluice/async_policies.h"
#include "stores/policy/lease_request.h"

namespace sluice {

// A request that leases concern, or that ends leases.
class AsyncLeasedStore::Request final : public Completion {
 public:
  Request(AsyncLeasedStore& of, std::span<const Charge> charges, std::span<Decision> each,
          Completion& completion, bool ends) noexcept
      : store_(of.store_),
        leases_(of.leases_.impl()),
        charges_(charges),
        completion_(completion),
        ends_(ends),
        request_(leases_, ends ? std::span<const Charge>() : charges, each) {}

  void start() noexcept { go_on(request_.begin()); }
  void start(Action action, std::optional<Instant> now, std::span<Decision> each) noexcept {
    policy::drop_leases(leases_, charges_);
    store_.async_apply(action, charges_, now, each, *this);
  }
  void done(const Decision& said) noexcept override {
    if (!ends_) return go_on(request_.answer(said));
    policy::drop_leases(leases_, charges_);
    end(said);
  }

 private:
  void go_on(const std::optional<policy::LeaseRequest::Ask>& ask) noexcept {
    if (!ask) return end(request_.decision());
    store_.async_apply(ask->verb, ask->charges, {}, ask->each, *this);
  }
  void end(const Decision& decision) noexcept {
    Completion& completion = completion_;
    const Decision copy = decision;
    delete this;
    completion.done(copy);
  }

  AsyncStore& store_;
  Leases::Impl& leases_;
  const std::span<const Charge> charges_;
  Completion& completion_;
  const bool ends_;
  policy::LeaseRequest request_;
};

void AsyncLeasedStore::async_apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each,
                                   Completion& completion) noexcept {
  give_back();
  const bool ends = policy::ends_leases(action.verb);
  if (!ends && !policy::LeaseRequest::concerns(action, charges, now, each)) {
    return store_.async_apply(action, charges, now, each, completion);
  }
  if (!ends && charges.size() == 1) {
    Leases::Impl& leases = leases_.impl();
    auto part = leases.part_of(charges.front());
    if (leases.take(charges.front(), leases.now(), part, each.front())) {
      leases.note_local();
      return completion.done(each.front());
    }
  }
  auto* const request = new (std::nothrow) Request(*this, charges, each, completion, ends);
  if (request == nullptr) {
    const Decision failed = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return completion.done(failed);
  }
  if (ends) return request->start(action, now, each);
  request->start();
}

void AsyncLeasedStore::give_back(LeaseEnd which) noexcept {
  policy::give_back(leases_.impl(), store_, which);
}

}  // namespace sluice
