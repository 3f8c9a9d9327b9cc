// Several limits on one request: all admit the request, or none is charged.
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
  if (!decision && !each[2]) {
    std::printf("%.*s: too many requests\n", int(user.size()), user.data());
  }
  return decision;
}
// [end limits]

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  for (int i = 0; i < 3; ++i) {
    std::printf("%s\n", decide(limiter, "/api/order", "alice") ? "allowed" : "denied");
  }
  std::printf("%s\n", decide(limiter, "/api/order", "bob") ? "allowed" : "denied");
}
