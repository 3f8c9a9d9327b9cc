#include "stores/redis/cluster/reconnect.h"

#include <utility>

namespace sluice::redis {

Reconnect::Reconnect(Duration first_backoff, Duration longest_backoff, Random random)
    : backoff_(first_backoff, longest_backoff), random_(std::move(random)) {}

void Reconnect::ready(Time now) noexcept {
  is_ready_ = true;
  is_failing_ = false;
  ready_at_ = now;
}

void Reconnect::ended(Time now) {
  const Duration wait = is_ready_ ? backoff_.after_loss(now - ready_at_, random_())
                                  : backoff_.after_failure(random_());
  has_link_ = false;
  is_ready_ = false;
  is_failing_ = wait > Duration::zero();
  earliest_ = now + wait;
}

}  // namespace sluice::redis
