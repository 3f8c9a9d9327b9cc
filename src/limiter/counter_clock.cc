// The default clock of programs reads the processor's counter, which costs less than half of a call
// of the system. Each thread reads the system's clock once a millisecond. The server uses
// SystemClock, because a clock that is set must count at once there.
#include "limiter/counter_clock.h"

#include "sluice/clock.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>
#endif
namespace sluice {

#if defined(__x86_64__) && defined(__linux__)
namespace {

// Each thread has its own. NOLINTNEXTLINE(*-avoid-non-const-global-variables)
constinit thread_local detail::TickAnchor anchor;

// Reading the clocks takes a tenth of this. If it takes longer, the thread was interrupted.
constexpr std::uint64_t kMostTicksOfASample = 1000;

// Whether the counter has a constant rate, is the same on all processors, and may be read. The
// kernel uses it for its own clocks only if it has found the first two to be true.
bool counter_is_usable() noexcept {
  constexpr unsigned kPowerManagement = 0x80000007;
  constexpr unsigned kIsInvariant = 1u << 8;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(kPowerManagement, &a, &b, &c, &d) == 0 || (d & kIsInvariant) == 0) return false;
  int may_read = 0;
  if (::prctl(PR_GET_TSC, &may_read) != 0 || may_read != PR_TSC_ENABLE) return false;
  std::FILE* const file =
      std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");
  if (file == nullptr) return false;
  std::array<char, 8> name{};
  const std::size_t size = std::fread(name.data(), 1, name.size(), file);
  std::fclose(file);
  return std::string_view(name.data(), size) == "tsc\n";
}

std::int64_t nanos_of(clockid_t clock) noexcept {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

[[gnu::noinline]] Instant read_system() noexcept {
  static const bool is_usable = counter_is_usable();
  if (!is_usable) return SystemClock::instance().now();
  const std::uint64_t before = __rdtsc();
  detail::TickAnchor::Sample sample;
  sample.real_ns = nanos_of(CLOCK_REALTIME);
  sample.steady_ns = nanos_of(CLOCK_MONOTONIC);
  const std::uint64_t took = __rdtsc() - before;
  sample.ticks = before + took / 2;
  if (took <= kMostTicksOfASample) anchor.add(sample);
  return Instant{Duration{sample.real_ns / 1000}};
}

}  // namespace

Instant CounterClock::now() const noexcept {
  Instant at;
  // Reads the counter only if it may be read.
  if (anchor.is_ready() && anchor.read(__rdtsc(), at)) [[likely]]
    return at;
  return read_system();
}
#else
Instant CounterClock::now() const noexcept { return SystemClock::instance().now(); }
#endif

}  // namespace sluice
