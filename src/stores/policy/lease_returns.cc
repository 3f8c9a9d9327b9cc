#include <algorithm>
#include <array>
#include <atomic>
#include <new>
#include <vector>

#include "stores/policy/lease_request.h"

namespace sluice::policy {
namespace {

using Rests = std::vector<Leases::Impl::Rest>;

// Returns the charges that give back what leases did not use. They borrow the names of `rests`.
std::vector<Charge> charges_of(const Rests& rests) {
  std::vector<Charge> charges;
  charges.reserve(rests.size());
  for (const auto& rest : rests) {
    charges.push_back(rest.name->charge);
    charges.back().cost = rest.units;
  }
  return charges;
}

// Requests under way that give back units. Deletes itself after the last.
class Returns {
 public:
  Returns(Leases::Impl& leases, Rests rests)
      : leases_(leases),
        rests_(std::move(rests)),
        charges_(charges_of(rests_)),
        each_(charges_.size()),
        parts_((charges_.size() + kMaxCharges - 1) / kMaxCharges) {}

  void start(AsyncStore& store) noexcept {
    pending_ = parts_.size() + 1;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::size_t first = i * kMaxCharges;
      const std::size_t count = std::min(kMaxCharges, charges_.size() - first);
      const auto charges = std::span(charges_).subspan(first, count);
      Part& part = parts_[i];
      part.all = this;
      for (const Charge& charge : charges) part.units += charge.cost;
      store.async_apply(Verb::kRefund, charges, {}, std::span(each_).subspan(first, count), part);
    }
    end_one();
  }

 private:
  struct Part final : AsyncStore::Completion {
    Returns* all = nullptr;
    std::uint64_t units = 0;
    void done(const Decision& decision) noexcept override {
      if (decision.allowed()) all->leases_.note_given_back(units);
      all->end_one();
    }
  };
  void end_one() noexcept {
    if (--pending_ == 0) delete this;
  }

  Leases::Impl& leases_;
  const Rests rests_;
  const std::vector<Charge> charges_;
  std::vector<Decision> each_;
  std::vector<Part> parts_;
  std::atomic<std::size_t> pending_{0};
};

// Returns what is due; nothing if there is no memory for it.
Rests due(Leases::Impl& leases, LeaseEnd which) noexcept {
  Rests rests;
  const auto next = leases.next_end();
  if (!next || (which == LeaseEnd::kDue && *next > leases.now())) return rests;
  try {
    leases.collect(rests, which == LeaseEnd::kAll);
  } catch (const std::bad_alloc&) {
    rests.clear();  // they stay taken
  }
  return rests;
}

}  // namespace

void give_back(Leases::Impl& leases, Store& store, LeaseEnd which) noexcept try {
  const Rests rests = due(leases, which);
  const std::vector<Charge> charges = charges_of(rests);
  std::array<Decision, kMaxCharges> each;
  for (std::size_t first = 0; first < charges.size(); first += kMaxCharges) {
    const std::size_t count = std::min(kMaxCharges, charges.size() - first);
    const auto part = std::span(charges).subspan(first, count);
    const Decision said = store.apply(Verb::kRefund, part, {}, std::span(each).first(count));
    std::uint64_t units = 0;
    for (const Charge& charge : part) units += charge.cost;
    if (said.allowed()) leases.note_given_back(units);
  }
} catch (const std::bad_alloc&) {  // they stay taken
}

void give_back(Leases::Impl& leases, AsyncStore& store, LeaseEnd which) noexcept try {
  Rests rests = due(leases, which);
  if (rests.empty()) return;
  auto* const returns = new Returns(leases, std::move(rests));
  returns->start(store);
} catch (const std::bad_alloc&) {  // they stay taken
}

}  // namespace sluice::policy
