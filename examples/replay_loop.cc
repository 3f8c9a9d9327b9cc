// Decides past requests at their own times, as `sluice replay` does.
#include <sluice/sluice.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>

using namespace std::chrono_literals;

// Each line: seconds since the epoch, and the client.
void replay(std::istream& log, sluice::Limiter& limiter, const sluice::Limit& limit) {
  int allowed = 0;
  int denied = 0;
  sluice::Instant clock{};
  std::string client;
  for (long long seconds = 0; log >> seconds >> client;) {
    // Logs are not in order: the clock is the latest time read so far.
    clock = std::max(clock, sluice::Instant{std::chrono::seconds{seconds}});
    ++(limiter.try_acquire(client, limit, 1, clock) ? allowed : denied);
  }
  std::cout << allowed << " allowed, " << denied << " denied\n";
}

int main() {
  std::istringstream log(
      "1700000000 alice\n"
      "1700000001 alice\n"
      "1700000001 bob\n"
      "1700000000 alice\n"  // late, and one too many
      "1700000060 alice\n");
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  replay(log, limiter, sluice::sliding_window_log(2).per(60s));
}
