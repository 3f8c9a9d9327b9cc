// Two machines that share a limit through Redis, and what they do without it.
#include <sluice/redis_chain.h>
#include <sluice/reservation.h>
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

using namespace std::chrono_literals;

// [start open]
std::unique_ptr<sluice::RedisChain> open_counters(const std::string& url) {
  sluice::RedisChainOptions options;
  options.redis.url = url;
  options.redis.deadline = 250ms;                          // the default is 50 ms
  options.on_store_error = sluice::FailurePolicy::kLocal;  // without Redis: half of each limit
  options.local.nodes = 2;
  auto chain = sluice::RedisChain::open(options);
  if (!chain) {
    std::puts(chain.error().c_str());  // the URL or an option is wrong
    return nullptr;
  }
  return std::move(*chain);
}
// [end open]

// [start fleet]
constexpr auto kCalls = sluice::token_bucket(60).per(1h).burst(1);

void call(const char* machine, sluice::Limiter& limiter) {
  const sluice::Reservation turn = limiter.reserve("partner-api", kCalls, 1, 1h);
  if (!turn) {
    std::printf("%s: no turn within an hour\n", machine);
    return;
  }
  const auto delay = std::chrono::ceil<std::chrono::minutes>(turn.delay());
  std::printf("%s: in %d min (%s)\n", machine, static_cast<int>(delay.count()),
              std::string(to_string(turn.decision().reason)).c_str());
}
// [end fleet]

int main(int argc, char** argv) {
  const std::string url = argc > 1 ? argv[1] : "redis://127.0.0.1:6379";
  const auto one = open_counters(url);
  const auto other = open_counters(url);
  if (!one || !other) return 1;
  (void)one->wait_until_ready(1s);
  (void)other->wait_until_ready(1s);
  sluice::Limiter first(*one);
  sluice::Limiter second(*other);
  for (int i = 0; i < 2; ++i) {
    call("machine 1", first);
    call("machine 2", second);
  }
}
