// Looks at a limit without taking from it, and gives back units if the work fails.
#include <sluice/sluice.h>

#include <cstdio>
#include <string_view>

using namespace std::chrono_literals;

constexpr auto kPerUser = sluice::token_bucket(5).per(1h);

bool send_message(std::string_view text) { return !text.empty(); }

void limited_send(sluice::Limiter& limiter, std::string_view user, std::string_view text) {
  if (!limiter.try_acquire(user, kPerUser)) {
    std::puts("too many messages");
  } else if (send_message(text)) {
    std::puts("sent");
  } else {
    limiter.refund(user, kPerUser);  // nothing was sent, so nothing counts
    std::puts("not sent, not counted");
  }
}

void show(sluice::Limiter& limiter, std::string_view user) {
  // A peek decides like a take, but changes nothing. With a cost of 0 it is never denied.
  std::printf("%lu left\n", limiter.peek(user, kPerUser, 0).remaining);
  std::puts(limiter.peek(user, kPerUser, 5) ? "a batch of 5 fits" : "a batch of 5 does not fit");
}

int main() {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  show(limiter, "alice");
  limited_send(limiter, "alice", "hello");
  limited_send(limiter, "alice", "");
  show(limiter, "alice");
  limiter.reset("alice", kPerUser);  // deletes the counter
  show(limiter, "alice");
}
