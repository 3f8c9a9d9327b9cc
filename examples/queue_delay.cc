// A leaky bucket as a queue: admitted requests wait, so that they are evenly spaced.
#include <sluice/sluice.h>

#include <cstdio>

using namespace std::chrono_literals;

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  constexpr auto kMail = sluice::leaky_bucket(2).per(1s).burst(3).queueing();
  const sluice::Instant now{24h * 365};  // an explicit timestamp; leave it out to use the clock
  for (int i = 1; i <= 4; ++i) {
    const sluice::Decision decision = limiter.try_acquire("mail", kMail, 1, now);
    if (decision) {
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(*decision.delay);
      std::printf("mail %d: send in %d ms\n", i, static_cast<int>(wait.count()));
    } else {
      std::printf("mail %d: the queue is full\n", i);
    }
  }
}
