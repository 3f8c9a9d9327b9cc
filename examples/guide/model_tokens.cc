// Calls of a language model: requests and tokens as one decision, settled to the true cost.
#include <sluice/reservation.h>
#include <sluice/sluice.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>

using namespace std::chrono_literals;

struct Answer {
  std::uint64_t tokens = 0;
};

static Answer call_model() { return {.tokens = 1'200}; }

// [start model]
constexpr auto kRequests = sluice::gcra(600).per(1min).burst(59);
constexpr auto kTokens = sluice::token_bucket(50'000).per(1min).burst(5'000);

void ask(sluice::Limiter& limiter, std::uint64_t estimate) {
  const std::array charges{sluice::Charge{"team:search", kRequests},
                           sluice::Charge{"team:search", kTokens, estimate}};
  sluice::Reservation call = limiter.reserve(charges, 30s);
  if (!call) {
    std::puts("the model is busy");
    return;
  }
  call.wait();
  const Answer answer = call_model();
  call.settle(std::array<std::uint64_t, 2>{1, answer.tokens});
  std::printf("taken: %d, used: %d\n", static_cast<int>(estimate), static_cast<int>(answer.tokens));
}
// [end model]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  for (int i = 0; i < 3; ++i) ask(limiter, 3'000);
  const std::uint64_t left = limiter.peek("team:search", kTokens, 0).remaining;
  std::puts(left >= 1'400 && left < 5'000 ? "what was not used is there" : "wrong");
}
