// in_process token_bucket|gcra KEYS admitted|denied OPERATIONS: nanoseconds of processor time per
// decision, and the share of denied decisions. The programs next to it do the same with other
// libraries.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "bench/threads.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

// Random keys in the order of their use. The programs of all languages make the same ones.
std::vector<std::string> keys_in_order(std::uint64_t count) {
  std::vector<std::string> keys(std::size_t{1} << 18);
  std::uint64_t x = 1;
  for (std::string& key : keys) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    char text[32];
    std::snprintf(text, sizeof(text), "user:%010llu",
                  static_cast<unsigned long long>((x >> 33) % count));
    key = text;
  }
  return keys;
}

Limit limit_for(bool is_gcra, bool many_denied) {
  using std::chrono::hours;
  using std::chrono::seconds;
  if (is_gcra) {
    // GCRA admits one more than its burst.
    return many_denied ? gcra(2).per(hours{1}).burst(1) : gcra(1).per(seconds{1}).burst(999'999);
  }
  return many_denied ? token_bucket(2).per(hours{1})
                     : token_bucket(1).per(seconds{1}).burst(1'000'000);
}

double process_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  if (argc != 5) return 2;
  const IdleThread idle;
  const std::vector<std::string> keys = keys_in_order(std::strtoull(argv[2], nullptr, 10));
  const sluice::Limit limit =
      limit_for(std::string_view(argv[1]) == "gcra", std::string_view(argv[3]) == "denied");
  const std::size_t operations = std::strtoull(argv[4], nullptr, 10);
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  const auto run = [&](std::size_t count) {
    std::size_t denied = 0;
    for (std::size_t i = 0; i < count; ++i) {
      denied += !limiter.try_acquire(keys[i & (keys.size() - 1)], limit).allowed();
    }
    return denied;
  };
  run(keys.size() * 2);
  const double begin = process_seconds();
  const std::size_t denied = run(operations);
  const double seconds = process_seconds() - begin;
  const auto count = static_cast<double>(operations);
  std::printf("%.2f %.4f\n", seconds * 1e9 / count, static_cast<double>(denied) / count);
}
