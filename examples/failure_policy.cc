// What happens when the store of the counters fails: allow, deny, or limit within this process.
#include <sluice/failure_policy.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <string>

using namespace std::chrono_literals;

// A store that always fails, like a Redis that is unreachable.
class BrokenStore final : public sluice::Store {
 public:
  sluice::Decision apply(sluice::Action, std::span<const sluice::Charge>,
                         std::optional<sluice::Instant>,
                         std::span<sluice::Decision> each) noexcept override {
    const auto failed = sluice::Decision::refused(sluice::Reason::kStoreError);
    for (sluice::Decision& decision : each) decision = failed;
    return failed;
  }
};

void ask(const char* name, sluice::FailurePolicy policy) {
  BrokenStore broken;
  sluice::CircuitBreaker breaker;  // stops requests to a store that keeps failing
  sluice::FailurePolicyStore store(broken, breaker, {.fallback = policy, .nodes = 2});
  sluice::Limiter limiter(store);
  constexpr auto kPerUser = sluice::fixed_window(4).per(1h);  // with 2 nodes: 2 for each process

  std::printf("%s:", name);
  for (int i = 0; i < 3; ++i) {
    const sluice::Decision decision = limiter.try_acquire("user:42", kPerUser);
    std::printf(" %s (%s)", decision ? "allowed" : "denied",
                std::string(to_string(decision.reason)).c_str());
  }
  std::puts("");
}

int main() {
  ask("allow", sluice::FailurePolicy::kAllow);
  ask("deny", sluice::FailurePolicy::kDeny);
  ask("local", sluice::FailurePolicy::kLocal);
}
