#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "sluice/async_policies.h"
#include "sluice/leased_store.h"

namespace sluice::server {

// Leases in front of the stores of one event loop. A timer of the loop gives back what was not
// used, all in one turn.
//
// Thread-safety: the loop's thread only; the leases are shared by all loops. Ownership: borrows its
// arguments. `returns` takes back the units; it must not wait.
class LoopLeases final : public Store {
 public:
  LoopLeases(boost::asio::io_context& loop, Store& store, AsyncStore& returns, Leases& leases)
      : leases_(leases),
        leased_(store, leases, LeaseReturns::kByCaller),
        returns_(returns, leases),
        timer_(loop) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;
  // From now on nothing is given back.
  void stop() noexcept;

 private:
  void arm() noexcept;

  Leases& leases_;
  LeasedStore leased_;
  AsyncLeasedStore returns_;
  boost::asio::steady_timer timer_;
  Instant armed_for_ = Instant::max();
  bool is_stopped_ = false;
};

}  // namespace sluice::server
