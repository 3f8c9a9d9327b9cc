#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <span>

#include "sluice/async_store.h"
#include "stores/policy/lease_table.h"

namespace sluice::policy {

// A take that leases may answer, from start to end, without I/O: it says what to ask the store, and
// receives the answer.
//
// Charges whose lease has enough units are admitted from it. If that leaves some, each busy one of
// them takes a batch, and the others are one request to the store. If that denies, the leases get
// their units back.
//
// Thread-safety: none. Ownership: borrows its arguments.
class LeaseRequest {
 public:
  // The most charges of a request that uses leases.
  static constexpr std::size_t kMost = 8;

  // Returns whether leases have to do with such a request.
  static bool concerns(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                       std::span<Decision> each) noexcept;

  LeaseRequest(Leases::Impl& leases, std::span<const Charge> charges,
               std::span<Decision> each) noexcept;
  LeaseRequest(const LeaseRequest&) = delete;
  LeaseRequest& operator=(const LeaseRequest&) = delete;

  // A question for the store.
  struct Ask {
    Verb verb = Verb::kTake;
    std::span<const Charge> charges;
    std::span<Decision> each;
  };
  // Both return the next question; if there is none, decision() and the answers are final.
  std::optional<Ask> begin() noexcept { return go_on(); }
  std::optional<Ask> answer(const Decision& said) noexcept;

  const Decision& decision() const noexcept { return decision_; }

 private:
  struct Of {
    Leases::Impl::Part part;
    bool is_done = false;    // admitted by its lease
    bool was_asked = false;  // for a batch
  };

  std::optional<Ask> go_on() noexcept;
  std::optional<Ask> ask_batch() noexcept;
  Ask ask_rest() noexcept;
  std::optional<Ask> answer_batch(const Decision& said) noexcept;
  void finish(const Decision& said) noexcept;
  std::span<const Charge> asked_charges() const noexcept {
    return {std::launder(reinterpret_cast<const Charge*>(asked_bytes_)), asked_};
  }
  void add(const Charge& charge) noexcept {
    ::new (asked_bytes_ + asked_++ * sizeof(Charge)) Charge(charge);
  }

  Leases::Impl& leases_;
  const std::span<const Charge> charges_;
  const std::span<Decision> each_;
  Decision decision_;
  Instant asked_at_{};
  std::size_t rest_ = 0;                 // charges that are not done
  std::optional<std::size_t> batch_of_;  // the charge that takes a batch
  std::array<Of, kMost> of_;
  // The charges of a question that are not those of the request, and the answers to them.
  alignas(Charge) std::byte asked_bytes_[kMost * sizeof(Charge)];
  std::size_t asked_ = 0;
  std::array<Decision, kMost> asked_each_;
};

// Asks a store for a request that leases concern.
Decision apply_leased(Leases::Impl& leases, Store& store, std::span<const Charge> charges,
                      std::span<Decision> each) noexcept;
// Whether the verb ends the leases of its counters.
constexpr bool ends_leases(Verb verb) noexcept {
  return verb == Verb::kReset || verb == Verb::kBlock;
}
void drop_leases(Leases::Impl& leases, std::span<const Charge> charges) noexcept;

// Gives back what is due, or all units, in requests of kMaxCharges counters.
void give_back(Leases::Impl& leases, Store& store, LeaseEnd which) noexcept;
// The same without waiting: all requests start in this turn.
void give_back(Leases::Impl& leases, AsyncStore& store, LeaseEnd which) noexcept;

}  // namespace sluice::policy
