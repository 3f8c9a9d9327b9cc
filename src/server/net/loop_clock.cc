#include "server/net/loop_clock.h"

namespace sluice::server::net {
namespace {

class SystemLoopClock final : public LoopClock {
 public:
  SteadyTime now() const noexcept override { return std::chrono::steady_clock::now(); }
  std::time_t date() const noexcept override { return std::time(nullptr); }
};

}  // namespace

const LoopClock& LoopClock::system() noexcept {
  static const SystemLoopClock clock;
  return clock;
}

}  // namespace sluice::server::net
