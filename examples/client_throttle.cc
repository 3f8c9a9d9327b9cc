// Requests to another service that limits its clients.
#include <sluice/client_throttle.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

struct Response {
  int status = 200;
  std::string retry_after, rate_limit;
};

// The other service: it is busy once, and reports its limit at the end.
Response http_get(int number) {
  if (number == 2) return {503, "1", ""};
  if (number == 4) return {200, "", R"("client";r=0;t=60)"};
  return {};
}

// [start get]
Response get(sluice::ClientThrottle& throttle, int number, int tries = 4) {
  for (auto pause = 1s;; pause *= 2) {
    if (!throttle.wait_to_send(30s)) return {429, "", ""};
    const Response answer = http_get(number);
    throttle.record({answer.status, answer.retry_after, answer.rate_limit});
    const bool is_denied = answer.status == 429 || answer.status == 503;
    if (!is_denied || --tries == 0) return answer;
    if (answer.retry_after.empty()) std::this_thread::sleep_for(pause);
  }
}
// [end get]

}  // namespace

int main() {
  // [start throttle]
  sluice::MemoryStore store;  // or a RedisStore: all machines then share the limit and the stops
  constexpr auto kAllowed = sluice::leaky_bucket(100).per(1s).queueing();
  sluice::ClientThrottle throttle(store, "maps", kAllowed);

  for (int i = 1; i <= 5; ++i) {
    if (const auto decision = throttle.wait_to_send(5s); !decision) {
      std::printf("request %d: not sent\n", i);
      break;
    }
    const Response response = http_get(i);
    throttle.record({response.status, response.retry_after, response.rate_limit});
    std::printf("request %d: %d\n", i, response.status);
  }
  // [end throttle]
  std::printf("request 6: %d\n", get(throttle, 6).status);
  std::puts(throttle.stopped_for() > 50s ? "stopped for a minute" : "not stopped");
}
