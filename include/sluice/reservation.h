#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sluice/limiter.h"

namespace sluice {

// Units that Limiter::reserve() has taken, perhaps ahead of their time.
//
//   sluice::Reservation call = limiter.reserve("model", kTokens, estimate, 30s);
//   if (!call) return busy(call.decision().retry_after);
//   call.wait();
//   call.settle(run_model());  // the tokens that it used
//
// A reservation that is destroyed without cancel() or settle() stays charged. If it was denied, its
// members do nothing.
//
// Thread-safety: one thread at a time. Ownership: movable; borrows the store, copies the keys.
// Cost: cancel() and settle() ask the store once, and cancel() once for each permit. Only the
// constructor throws.
class Reservation {
 public:
  // Reserves the charges of a request at `now`, or at the store's time: see Limiter::reserve().
  Reservation(Store& store, std::span<const Charge> charges, Duration max_wait,
              std::optional<Instant> now);
  ~Reservation();
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;

  // The answer to the request.
  const Decision& decision() const noexcept { return decision_; }
  // The answer to each charge.
  std::span<const Decision> each() const noexcept;
  // Whether the units were taken.
  bool allowed() const noexcept { return decision_.allowed(); }
  explicit operator bool() const noexcept { return allowed(); }

  // How long after reserve() the caller may act. 0 if denied.
  Duration delay() const noexcept { return decision_.delay.value_or(Duration{0}); }
  // Blocks until the caller may act.
  void wait() const;

  // Gives everything back if the caller may not act yet, and releases the permits. The reservations
  // of others keep their instants; what comes back goes to those who ask next. What a failure
  // policy has admitted took nothing, so nothing of it comes back. Returns the store's answer, or
  // Reason::kInvalid if it is too late or there is nothing to give back.
  Decision cancel(std::optional<Instant> now = {}) noexcept;

  // Replaces the reserved cost by the actual one: gives back the difference, or charges it. Gives
  // nothing back to a counter that would have been fully replenished since, or from which nothing
  // was taken (a failure policy admitted the charge), because nothing of the charge is in it. Only
  // the first settle() or cancel() has an effect. Returns the store's answer (kOver if a charge is
  // now beyond a limit), or Reason::kInvalid.
  Decision settle(std::uint64_t actual, std::optional<Instant> now = {}) noexcept;
  // As above, with the actual cost of each charge, as many as there are charges.
  Decision settle(std::span<const std::uint64_t> actual, std::optional<Instant> now = {}) noexcept;

 private:
  struct Request;

  std::unique_ptr<Request> request_;
  Decision decision_;
};

}  // namespace sluice
