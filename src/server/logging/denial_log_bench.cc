#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "server/logging/denial_log.h"
#include "server/logging/log.h"

namespace sluice::server {
namespace {

// A denial where the rate is exhausted, by several threads at once: all but some of these.
void suppressed(benchmark::State& state) {
  static const int descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  static Log log({.denials_per_second = 1}, descriptor);
  static DenialLog denials(log);
  const Decision denied{.outcome = Outcome::kDenied, .reason = Reason::kLimited};
  for (auto _ : state) denials.write("rule", "limit", "key", denied);
}
BENCHMARK(suppressed)->ThreadRange(1, 2);

void line(benchmark::State& state) {
  const int descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC);
  {
    Log log({.access = true}, descriptor);
    for (auto _ : state) {
      log.access("GET", "/a/b?c=d", 200, "203.0.113.9", std::chrono::microseconds{7}, "auth");
    }
  }
  close(descriptor);
}
BENCHMARK(line);

}  // namespace
}  // namespace sluice::server
