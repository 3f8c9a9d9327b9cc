// A key of several parts: tenant, user and path.
#include <sluice/sluice.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

using namespace std::chrono_literals;

struct Request {
  std::string tenant;
  std::optional<std::string> user;  // absent: not signed in
  std::string path;
};

constexpr auto kPerUserAndPath = sluice::fixed_window(2).per(1h);
constexpr std::size_t kLongestPath = 1000;

const char* serve(sluice::Limiter& limiter, const Request& request) {
  // A part may be any bytes, but a client that varies it freely gets a new counter each time.
  if (request.tenant.empty() || request.path.size() > kLongestPath) return "400 bad request";

  // An absent user and a user with an empty name have different keys.
  const sluice::KeyBuilder key(request.tenant, request.user, request.path);
  const sluice::Decision decision = limiter.try_acquire(key.view(), kPerUserAndPath);
  switch (decision.outcome) {
    case sluice::Outcome::kAllowed: break;
    case sluice::Outcome::kDenied: return "429 too many requests";
    case sluice::Outcome::kFailed: return "503 the store did not answer";
  }
  std::printf("%lu of %lu left: ", decision.remaining, decision.capacity);
  return "200 ok";
}

class BrokenStore final : public sluice::Store {
  sluice::Decision apply(sluice::Action, std::span<const sluice::Charge>,
                         std::optional<sluice::Instant>,
                         std::span<sluice::Decision> each) noexcept override {
    const auto failed = sluice::Decision::refused(sluice::Reason::kStoreError);
    std::fill(each.begin(), each.end(), failed);
    return failed;
  }
};

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  for (int i = 0; i < 3; ++i) std::puts(serve(limiter, {"shop", "anna", "/orders"}));
  // Joined with "/", both requests would have the key "a/b/c".
  std::puts(serve(limiter, {"a", "b/c", ""}));
  std::puts(serve(limiter, {"a/b", "c", ""}));
  std::puts(serve(limiter, {"shop", {}, "/orders"}));
  std::puts(serve(limiter, {"", "anna", "/orders"}));
  std::puts(serve(limiter, {"shop", "anna", std::string(2000, 'x')}));

  BrokenStore broken;
  sluice::Limiter failing(broken);
  std::puts(serve(failing, {"shop", "anna", "/orders"}));
}
