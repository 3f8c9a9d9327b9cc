#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/decision.h"
#include "sluice/expected.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"

namespace sluice {

namespace detail {
struct HeldPermit;
}  // namespace detail

// A permit that Limiter::hold() has taken. It is released when it is destroyed.
//
//   if (sluice::Permit place = limiter.hold("exports", concurrency(10).lease(30s))) {
//     run_export();
//   }
//
// A permit of a request that was denied does nothing. If the process dies, the units come back at
// the end of the lease.
//
// Thread-safety: one thread at a time. Ownership: movable; borrows the store, copies the keys.
// Cost: one question to the store each; only the constructor, text() and detach() allocate.
class Permit {
 public:
  // Takes the charges of a request, all or none, at `now`, or at the store's time. One permit holds
  // the units of all its `concurrency` limits; without one the request is kInvalid. Errors: throws
  // std::bad_alloc or std::system_error (no random bytes) before anything is taken. With a
  // deadline, blocks the thread until the permit is taken at the store's time, or until the
  // deadline.
  Permit(Store& store, std::span<const Charge> charges, std::optional<Instant> now,
         std::optional<Deadline> deadline = {});
  ~Permit();
  Permit(Permit&&) noexcept;
  Permit& operator=(Permit&&) noexcept;

  // The answer to the request.
  const Decision& decision() const noexcept { return decision_; }
  // The answer to each charge.
  std::span<const Decision> each() const noexcept;
  // Whether the units were taken.
  bool allowed() const noexcept { return decision_.allowed(); }
  explicit operator bool() const noexcept { return allowed(); }

  // Gives the units back. kGone if the permit has ended, or there is none.
  Decision release(std::optional<Instant> now = {}) noexcept;
  // Starts the lease again. kGone if it has ended: then something else may have the units.
  Decision extend(std::optional<Instant> now = {}) noexcept;

  // The text with which any process with the same store can release or extend the permit; empty if
  // there is none.
  std::string text() const;
  // As text(), and leaves the permit to those who have the text: nothing is released here.
  std::string detach();

 private:
  std::unique_ptr<detail::HeldPermit> held_;
  Store* store_;
  Decision decision_;
};

// The text of a permit, as Permit::text() makes it. It is a secret of its holder, but not sealed.
// It contains the keys of the counters and the lease. Its holder can release and extend the permit,
// and can change the lease by which extend() extends it: RuleDecider::extend() bounds that by the
// rules. No other change of a text reaches the units of another holder.
//
// Thread-safety: one thread at a time. Ownership: movable; holds its parts. Cost: one allocation.
class PermitText {
 public:
  // Reads a text. Errors: what is wrong with it.
  static Expected<PermitText> parse(std::string_view text);
  // Appends the text of the permit that a take of these charges gave. Those of other algorithms,
  // and those without cost, are not in it; appends nothing if there are no others.
  static void append(const PermitId& id, std::span<const Charge> charges, std::string& out);

  ~PermitText();
  // Movable; a text that was moved from can only be destroyed or assigned to.
  PermitText(PermitText&&) noexcept;
  PermitText& operator=(PermitText&&) noexcept;

  // The counters, without their costs.
  std::span<const Charge> charges() const noexcept;
  // As the members of Permit, in any store.
  Decision release(Store& store, std::optional<Instant> now = {}) const noexcept;
  Decision extend(Store& store, std::optional<Instant> now = {}) const noexcept;

 private:
  explicit PermitText(std::unique_ptr<detail::HeldPermit> held) noexcept;
  std::unique_ptr<detail::HeldPermit> held_;
};

}  // namespace sluice
