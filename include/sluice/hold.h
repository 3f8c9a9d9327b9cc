#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/limiter.h"

namespace sluice {

// Units of budgets that Limiter::hold() keeps under an id, until they are settled with what was
// really used.
//
//   constexpr sluice::Limit kTokens = sluice::budget(1'000'000).per(24h);
//   sluice::Hold call = limiter.hold(request_id, "team:search", kTokens, estimate, 5min);
//   if (!call) return busy(call.decision());
//   call.settle(run_model());  // the tokens that it used
//
// A call that is repeated with its id changes nothing: hold() answers `repeated`, and so do
// settle() and cancel() with the same amount, in any process with the same store. A hold that is
// destroyed without settle() or cancel() stays until its time ends; then its limit says whether it
// is spent (OnExpiry).
//
// Thread-safety: one thread at a time. Ownership: movable; borrows the store, copies the keys.
// Cost: each call asks the store once. Only the constructor throws.
class Hold {
 public:
  // Holds the charges of a request for `ttl`, kMinHold to kMaxHold, all or none, at `now`, or at
  // the store's time. Limits of other algorithms are taken as by Limiter::check(), without an id.
  // kInvalid without a budget. `id`: 1 to kMaxIdBytes bytes, whatever they are; empty: a new one.
  Hold(Store& store, std::string_view id, std::span<const Charge> charges, Duration ttl,
       std::optional<Instant> now);
  ~Hold();
  Hold(Hold&&) noexcept;
  Hold& operator=(Hold&&) noexcept;

  // The answer to the request.
  const Decision& decision() const noexcept { return decision_; }
  // The answer to each charge.
  std::span<const Decision> each() const noexcept;
  // Whether the units are held, or were before.
  bool allowed() const noexcept { return decision_.allowed(); }
  explicit operator bool() const noexcept { return allowed(); }
  // The id.
  std::string_view id() const noexcept;

  // Ends the hold and spends what was used, which may be more or less than was held: kOver if a
  // budget is beyond its limit then, Decision::late if the hold had ended before. kConflict if it
  // was settled with another amount; kInvalid if the request was denied.
  Decision settle(std::uint64_t actual, std::optional<Instant> now = {}) noexcept;
  // As above, with the amount of each charge, as many as there are charges.
  Decision settle(std::span<const std::uint64_t> actual, std::optional<Instant> now = {}) noexcept;
  // Ends the hold and spends nothing.
  Decision cancel(std::optional<Instant> now = {}) noexcept;
  // Keeps the units for `ttl` from now on. kGone if the hold has ended.
  Decision extend(Duration ttl, std::optional<Instant> now = {}) noexcept;

 private:
  struct Request;
  Decision change(Action action, std::optional<Instant> now) noexcept;

  std::unique_ptr<Request> request_;
  Decision decision_;
};

}  // namespace sluice
