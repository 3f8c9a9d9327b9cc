// The resident memory of a memory store per key.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/baseline_map.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "== memory: resident bytes for each key\n"
    "Each case is a process of its own that inserts distinct keys, without holding them, into a "
    "store\n"
    "with room for a fifth more, and divides what its resident set (/proc/self/statm) has grown "
    "by\n"
    "by the number of keys; looked at on the way up too, as a table may be lucky at one size.\n"
    "`bare map` is the map that take_bench compares with, by short std::string keys.";

std::size_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (file == nullptr || std::fscanf(file, "%*s %lu", &pages) != 1) {
    std::fprintf(stderr, "memory_bench: cannot read /proc/self/statm\n");
    std::exit(1);
  }
  std::fclose(file);
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

struct Subject {
  const char* name;
  bool promised;
};
constexpr Subject kSubjects[] = {
    {"token_bucket", true},
    {"gcra", true},
    {"leaky_bucket", true},
    {"fixed_window", true},
    {"sliding_window_counter", false},
    {"bare-map", false},
};

Limit limit_of(const std::string& name) {
  LimitSpec spec{.algorithm = *algorithm_from(name), .limit = 101, .per = std::chrono::hours{24}};
  return *Limit::make(spec);
}

// Runs in the process of one case. Prints "KEYS BYTES-PER-KEY" at ten sizes up to `keys`.
template <typename Insert>
void grow(std::size_t keys, Insert insert) {
  const std::size_t before = resident_bytes();
  std::size_t inserted = 0;
  each_key(keys, [&](std::string_view key) {
    insert(key);
    if (++inserted % (keys / 20) != 0 || inserted < keys / 2) return;
    const auto grown = static_cast<double>(resident_bytes() - before);
    std::printf("%zu %.2f\n", inserted, grown / static_cast<double>(inserted));
  });
}

int run_case(const std::string& name, std::size_t keys) {
  if (name == "bare-map") {
    BaselineMap map;
    grow(keys, [&](std::string_view key) { map.increment(key); });
    return 0;
  }
  const MemoryStoreOptions options{.max_keys = keys + keys / 5, .max_log_bytes = keys * 200};
  MemoryStore store(options);
  Limiter limiter(store);
  const Limit limit = limit_of(name);
  Timeline time;
  const Instant at = time.next();
  std::size_t denied = 0;
  grow(keys,
       [&](std::string_view key) { denied += !limiter.try_acquire(key, limit, 1, at).allowed(); });
  if (denied == 0 && store.stats().keys == keys) return 0;
  std::fprintf(stderr, "memory_bench: %zu of %zu keys were kept\n", store.stats().keys, keys);
  return 1;
}

// Runs this program as the process of a case and prints its output.
void measure(const std::string& program, const Subject& subject, std::size_t keys) {
  const std::string command =
      "'" + program + "' --case " + subject.name + " " + std::to_string(keys);
  std::FILE* const output = popen(command.c_str(), "r");
  if (output == nullptr) std::exit(1);
  std::printf("  %-24s", subject.name);
  std::size_t at = 0;
  double bytes = 0;
  double worst = 0;
  while (std::fscanf(output, "%zu %lf", &at, &bytes) == 2) {
    std::printf(" %5.1f", bytes);
    worst = std::max(worst, bytes);
  }
  if (pclose(output) != 0 || at != keys) {
    std::fprintf(stderr, "memory_bench: the case %s failed\n", subject.name);
    std::exit(1);
  }
  std::printf("  worst %5.1f\n", worst);
  if (!subject.promised) return;
  promise_at_most(std::string("memory-bytes-per-key-") + subject.name + "-" + short_count(keys),
                  bytes, 64);
}

void measure_all(const std::string& program, const Options& options) {
  const std::size_t keys = options.smoke ? 100'000 : options.quick ? 1'000'000 : 10'000'000;
  std::printf("\n%s\n  %-24s", kLegend, "case, at % of the keys");
  for (int percent = 50; percent <= 100; percent += 5) std::printf(" %5d", percent);
  std::printf("\n");
  std::fflush(stdout);
  for (const Subject& subject : kSubjects) {
    measure(program, subject, keys);
    if (options.smoke) break;
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  if (argc == 4 && std::strcmp(argv[1], "--case") == 0) {
    return run_case(argv[2], std::strtoul(argv[3], nullptr, 10));
  }
  measure_all(argv[0], Options::from(argc, argv));
}
