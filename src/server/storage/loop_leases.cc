#include "server/storage/loop_leases.h"

#include <boost/system/system_error.hpp>
#include <chrono>

namespace sluice::server {

Decision LoopLeases::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  const Decision decision = leased_.apply(action, charges, now, each);
  arm();
  return decision;
}

Decision LoopLeases::apply_one(Action action, const Charge& charge,
                               std::optional<Instant> now) noexcept {
  const Decision decision = leased_.apply_one(action, charge, now);
  arm();
  return decision;
}

void LoopLeases::stop() noexcept {
  is_stopped_ = true;
  try {
    timer_.cancel();
  } catch (const boost::system::system_error&) {  // then it finds that it is stopped
  }
}

// Sets the timer to the end of the next lease, which may be one of another loop.
void LoopLeases::arm() noexcept {
  const auto next = leases_.next_end();
  if (!next || *next >= armed_for_ || is_stopped_) return;
  armed_for_ = *next;
  try {
    timer_.expires_at(std::chrono::steady_clock::time_point(next->time_since_epoch()));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      armed_for_ = Instant::max();
      returns_.give_back();
      arm();
    });
  } catch (const std::exception&) {  // the next request tries again
    armed_for_ = Instant::max();
  }
}

}  // namespace sluice::server
