// A memory store that grows and then evicts: bytes per key, time per insertion, longest takes.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/baseline_map.h"
#include "bench/report.h"
#include "bench/threads.h"
#include "bench/workload.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "== growth: one thread inserts distinct keys into an empty memory store, then goes on at its\n"
    "bound, where each insertion evicts a live counter. Each key is one take of a token bucket.\n"
    "bytes = growth of the resident set per key. ns = processor time per insertion, the median of\n"
    "its parts of a hundredth, and the slowest part over the median. The last columns time each\n"
    "take alone, in processor time, in a second pass: percentiles and the longest, in\n"
    "microseconds, with about 0.3 us for the clock. `nothing` is the same loop without a store, "
    "and\n"
    "`page of 2 MB` touches a new page each time: what is long there is the machine. `bare map` "
    "is\n"
    "the map of take_bench.";

// Durations in buckets of an eighth of a power of two; the maximum is exact.
class Durations {
 public:
  void add(double ns) noexcept {
    const auto whole = static_cast<std::uint64_t>(ns < 8 ? 8 : ns);
    const auto power = static_cast<std::size_t>(std::bit_width(whole)) - 1;
    ++counts_[power * 8 + (whole >> (power - 3) & 7)];
    ++total_;
    longest_ = std::max(longest_, ns);
  }
  // Returns the upper end of the bucket of a percentile.
  double percentile(double share) const noexcept {
    auto left = static_cast<double>(total_) * share;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      left -= static_cast<double>(counts_[i]);
      if (left <= 0) return static_cast<double>((i % 8 + 9) << (i / 8)) / 8;
    }
    return longest_;
  }
  double longest() const noexcept { return longest_; }

 private:
  std::array<std::uint64_t, 512> counts_{};
  std::uint64_t total_ = 0;
  double longest_ = 0;
};

double resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  const bool is_read = file != nullptr && std::fscanf(file, "%*s %lu", &pages) == 1;
  if (file != nullptr) std::fclose(file);
  if (!is_read) {
    std::fprintf(stderr, "growth_bench: cannot read /proc/self/statm\n");
    std::exit(1);
  }
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// What one phase took: keys `first` to `first + count - 1`.
struct Phase {
  double ns = 0;       // per key
  double slowest = 0;  // part of a hundredth, over the median
  std::vector<double> parts;
  Durations takes;
};

template <typename Insert>
void insert_keys(std::uint64_t first, std::uint64_t count, Insert insert) {
  char key[kKeyBytes];
  for (std::uint64_t i = first; i < first + count; ++i) {
    write_key(key, i);
    insert(std::string_view(key, sizeof(key)));
  }
}

template <typename Insert>
void time_parts(std::uint64_t first, std::uint64_t count, Insert insert, Phase& phase) {
  const std::uint64_t part = std::max<std::uint64_t>(count / 100, 1);
  for (std::uint64_t done = 0; done + part <= count; done += part) {
    const double start = now_ns(TimeOf::kThread);
    insert_keys(first + done, part, insert);
    phase.parts.push_back((now_ns(TimeOf::kThread) - start) / static_cast<double>(part));
  }
  phase.ns = median(phase.parts);
  phase.slowest = *std::max_element(phase.parts.begin(), phase.parts.end()) / phase.ns;
}

template <typename Insert>
void time_each(std::uint64_t first, std::uint64_t count, Insert insert, Phase& phase) {
  double last = now_ns(TimeOf::kThread);
  insert_keys(first, count, [&](std::string_view key) {
    insert(key);
    const double now = now_ns(TimeOf::kThread);
    phase.takes.add(now - last);
    last = now;
  });
}

void print(const std::string& name, double bytes, const Phase& phase) {
  const Durations& takes = phase.takes;
  std::printf("  %-28s %6.1f %7.1f %8.2f %8.2f %8.2f %9.1f\n", name.c_str(), bytes, phase.ns,
              phase.slowest, takes.percentile(0.5) / 1e3, takes.percentile(0.9999) / 1e3,
              takes.longest() / 1e3);
  std::fflush(stdout);
}

// Prints the nanoseconds per insertion in each tenth of the keys.
void print_tenths(const Phase& phase) {
  std::printf("  %-28s", "  ns in each tenth of the keys");
  for (std::size_t i = 0; i + 10 <= phase.parts.size(); i += 10) {
    const auto begin = phase.parts.begin() + static_cast<std::ptrdiff_t>(i);
    std::printf(" %.0f", std::accumulate(begin, begin + 10, 0.0) / 10);
  }
  std::printf("\n");
}

// A store with room for `keys`, and the take of each key.
struct Subject {
  explicit Subject(std::uint64_t keys)
      : store(std::make_unique<MemoryStore>(MemoryStoreOptions{.max_keys = keys})),
        limiter(*store) {}

  void operator()(std::string_view key) {
    denied += limiter.try_acquire(key, limit, 1, at).allowed() ? 0 : 1;
  }
  void check(std::uint64_t keys, bool is_full) const {
    const MemoryStoreStats stats = store->stats();
    if (denied == 0 && (is_full ? stats.evictions > 0 : stats.keys == keys)) return;
    std::fprintf(stderr, "growth_bench: %llu denied, %zu of %llu keys, %llu evicted\n",
                 static_cast<unsigned long long>(denied), stats.keys,
                 static_cast<unsigned long long>(keys),
                 static_cast<unsigned long long>(stats.evictions));
    std::exit(1);
  }

  std::unique_ptr<MemoryStore> store;
  Limiter limiter;
  Limit limit = token_bucket(101).per(std::chrono::hours{24});
  Instant at = Timeline().next();
  std::uint64_t denied = 0;
};

struct Result {
  Phase growth;
  Phase eviction;
  double bytes = 0;
};

// Inserts `keys` into a store with a fifth more room, so that chance crowds no shard, then as many
// as it takes to fill it, and then a fifth more. `time` is time_parts or time_each.
template <typename Time>
void run_pass(std::uint64_t keys, Time time, Result& result) {
  const double before = resident_bytes();
  Subject subject(keys + keys / 5);
  const auto insert = [&](std::string_view key) { subject(key); };
  time(0, keys, insert, result.growth);
  subject.check(keys, false);
  result.bytes = (resident_bytes() - before) / static_cast<double>(keys);
  insert_keys(keys, keys / 4, insert);
  time(keys + keys / 4, keys / 5, insert, result.eviction);
  subject.check(keys, true);
}

void measure_store(std::uint64_t keys, std::size_t passes) {
  const std::string size = short_count(keys);
  std::vector<double> longest, longest_eviction;
  Result result;
  for (std::size_t i = 0; i < passes; ++i) {
    result.growth.takes = result.eviction.takes = {};
    run_pass(keys, [](auto&&... all) { time_each(all...); }, result);
    longest.push_back(result.growth.takes.longest() / 1e6);
    longest_eviction.push_back(result.eviction.takes.longest() / 1e6);
  }
  run_pass(keys, [](auto&&... all) { time_parts(all...); }, result);
  print("sluice, " + size + " keys", result.bytes, result.growth);
  print_tenths(result.growth);
  print("sluice, at its bound", 0, result.eviction);
  promise_at_most("growth-bytes-per-key-" + size, result.bytes, 64);
  promise_at_most("growth-longest-take-ms-" + size, median(longest), 0.5);
  promise_at_most("eviction-longest-take-ms-" + size, median(longest_eviction), 1);
  promise_at_most("growth-slowest-part-" + size, result.growth.slowest, 2);
  promise_at_most("eviction-slowest-part-" + size, result.eviction.slowest, 2);
}

template <typename Insert>
void measure_other(const std::string& name, std::uint64_t keys, Insert insert) {
  Phase phase;
  const double before = resident_bytes();
  time_each(0, keys, insert, phase);
  print(name, (resident_bytes() - before) / static_cast<double>(keys), phase);
}

// The system clears a page when it is first touched, and may have to move others to make one.
void measure_pages(std::size_t count) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  const std::size_t bytes = (count + 1) * kPage;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  madvise(memory, bytes, MADV_HUGEPAGE);
  const std::size_t before_first = -reinterpret_cast<std::uintptr_t>(memory) & (kPage - 1);
  auto* const first = static_cast<volatile char*>(memory) + before_first;
  Phase phase;
  for (std::size_t i = 0; i < count; ++i) {
    const double start = now_ns(TimeOf::kThread);
    first[i * kPage] = 1;
    phase.takes.add(now_ns(TimeOf::kThread) - start);
  }
  munmap(memory, bytes);
  print("page of 2 MB", 0, phase);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  const IdleThread idle;
  std::printf("\n%s\n  %-28s %6s %7s %8s %8s %8s %9s\n", kLegend, "case", "bytes", "ns", "slowest",
              "50 %", "99.99 %", "longest");
  const std::uint64_t keys = options.keys != 0 ? options.keys
                             : options.smoke   ? 100'000
                             : options.quick   ? 1'000'000
                                               : 10'000'000;
  measure_other("nothing", keys, [](std::string_view) {});
  measure_pages(options.smoke ? 10 : 400);
  measure_store(keys, options.smoke ? 1 : 3);
  if (options.large) measure_store(100'000'000, 1);
  BaselineMap map;
  measure_other("bare map", keys, [&](std::string_view key) { map.increment(key); });
}
