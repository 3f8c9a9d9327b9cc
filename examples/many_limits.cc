// Several limits on one request: all admit it, or nothing is taken from any.
#include <sluice/sluice.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

// [start limits]
constexpr auto kAll = sluice::token_bucket(1000).per(1s).burst(10000);
constexpr auto kPerPath = sluice::sliding_window_counter(100).per(1s);
constexpr auto kPerUser = sluice::gcra(1).per(1h).burst(1);

sluice::Decision decide(sluice::Limiter& limiter, std::string_view path, std::string_view user) {
  const std::array charges{
      sluice::Charge{"all", kAll},
      sluice::Charge{path, kPerPath},
      sluice::Charge{user, kPerUser},
  };
  std::array<sluice::Decision, 3> each;
  const sluice::Decision decision = limiter.check(charges, each);
  if (!decision && !each[2]) std::printf("%.*s asks too often\n", int(user.size()), user.data());
  return decision;
}
// [end limits]

// [start verbs]
void look_and_give_back(sluice::Limiter& limiter, std::string_view user) {
  // What a take would answer; takes nothing. A cost of 0 shows the numbers, and is never denied.
  const sluice::Decision next = limiter.peek(user, kPerUser);
  std::printf("%.*s: %s, %u left\n", int(user.size()), user.data(),
              next ? "may go on" : "has to wait", limiter.peek(user, kPerUser, 0).remaining);
  limiter.refund(user, kPerUser, 1);  // gives back the newest unit
  limiter.reset(user, kPerUser);      // forgets the counter
}
// [end verbs]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  for (int i = 0; i < 3; ++i) {
    std::printf("%s\n", decide(limiter, "/api/order", "alice") ? "allowed" : "denied");
  }
  std::printf("%s\n", decide(limiter, "/api/order", "bob") ? "allowed" : "denied");
  look_and_give_back(limiter, "alice");
  std::printf("%s\n", decide(limiter, "/api/order", "alice") ? "allowed" : "denied");
}
