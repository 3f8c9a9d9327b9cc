// One take on the memory store, compared with an increment of the same key in a plain hash map.

#include <benchmark/benchmark.h>

#include <algorithm>
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
    "One Limiter::try_acquire(key, limit, 1, now) against ++ on the same key in a\n"
    "boost::unordered_flat_map<std::string, uint64_t> (XXH3; hashed once for shard and map; one\n"
    "std::mutex for each shard, as many as the store has). Keys of 15 bytes, all made and "
    "inserted\n"
    "beforehand, asked for in uniformly random order, read one after the other. Time moves on by\n"
    "1 us a request; limits are about 70 % used, so that requests are admitted and written; "
    "`denied`\n"
    "says how many were not. `hot denied`: one key, all denied. `with the clock`: without a "
    "timestamp,\n"
    "so that the store reads its clock, and limits 20 times as large. Processor time of one thread "
    "(in a\n"
    "process of two); ratio = median of the ratios of adjacent 10 ms blocks.";

constexpr std::size_t kKeyCounts[] = {1, 1'000, 1'000'000, 10'000'000};

struct Subject {
  std::string name;
  Limit limit;
  double near = 0;  // the promised ratios up to 1,000 keys and from 1,000,000 keys on; 0: none
  double far = 0;
  bool reads_clock = false;
};

Limit with_slices(Numbers n, std::uint64_t slices) {
  return sliding_window_counter(n.limit).per(n.per).slices(slices);
}

std::vector<Subject> subjects_for(std::size_t keys) {
  const Numbers n = numbers_for(keys);
  std::vector<Subject> all{
      {"token_bucket", token_bucket(n.limit).per(n.per), 2.4, 1.2},
      {"gcra", gcra(n.limit).per(n.per), 2.4, 1.2},
      {"fixed_window", fixed_window(n.limit).per(n.per), 2.1, 1.2},
      {"sliding_window_counter", with_slices(n, kDefaultSlices), 3, 2.2},
      {"sliding_window_counter/1-slice", with_slices(n, 1)},
      {"token_bucket/with the clock", token_bucket(20 * n.limit).per(n.per), 2.5, 1.2, true},
  };
  if (keys <= 1000) {
    all.push_back({"leaky_bucket/queue", leaky_bucket(n.limit).per(n.per).queueing()});
    all.push_back({"sliding_window_log", sliding_window_log(n.limit).per(n.per)});
    all.push_back({"sliding_window_hybrid", sliding_window_hybrid(n.limit).per(n.per)});
  }
  return all;
}

MemoryStoreOptions options_for(std::size_t keys) {
  return {.max_keys = std::max(keys + keys / 5, MemoryStoreOptions{}.max_keys),
          .max_log_bytes = std::max(keys * 200, MemoryStoreOptions{}.max_log_bytes),
          .shards = default_shards()};
}

class TakeBench {
 public:
  explicit TakeBench(const Options& options) : options_(options) {}

  void run(std::size_t keys) {
    const KeyStream stream(keys, options_.smoke ? 4096 : keys > 1000 ? 1 << 22 : 1 << 18);
    BaselineMap map;
    each_key(keys, [&](std::string_view key) { map.increment(key); });
    for (const Subject& subject : subjects_for(keys)) measure(map, stream, keys, subject);
  }

  void run_hot_denied() {
    const KeyStream stream(1, 4096);
    BaselineMap map;
    measure(map, stream, 1,
            {"token_bucket/hot denied", token_bucket(1).per(std::chrono::hours{1})});
    measure(map, stream, 1,
            {"sliding_window_counter/hot denied",
             sliding_window_counter(1).per(std::chrono::hours{1})});
  }

 private:
  void measure(BaselineMap& map, const KeyStream& stream, std::size_t keys,
               const Subject& subject) {
    MemoryStore store(options_for(keys));
    Limiter limiter(store);
    Timeline time;
    // All at one time, so that no counter is fully replenished before the last one is inserted.
    const Instant first = subject.reads_clock ? CounterClock::instance().now() : time.next();
    each_key(keys, [&](std::string_view key) {
      benchmark::DoNotOptimize(limiter.try_acquire(key, subject.limit, 1, first));
    });
    std::uint64_t asked = 0;
    std::uint64_t denied = 0;
    const auto increment = [&](std::size_t from, std::size_t count) {
      std::uint64_t sum = 0;
      stream.each(from, count, [&](std::string_view key) { sum += map.increment(key); });
      benchmark::DoNotOptimize(sum);
    };
    const auto take = [&](std::size_t from, std::size_t count) {
      asked += count;
      stream.each(from, count, [&](std::string_view key) {
        denied += !limiter.try_acquire(key, subject.limit, 1, time.next()).allowed();
      });
    };
    const auto take_now = [&](std::size_t from, std::size_t count) {
      asked += count;
      stream.each(from, count, [&](std::string_view key) {
        denied += !limiter.try_acquire(key, subject.limit).allowed();
      });
    };
    const Paired paired(options_.paired());
    const Ratio ratio =
        subject.reads_clock ? paired.measure(increment, take_now) : paired.measure(increment, take);
    tell(subject, keys, ratio, static_cast<double>(denied) / static_cast<double>(asked));
    const MemoryStoreStats stats = store.stats();
    if (stats.keys != keys || stats.evictions != 0) {
      std::printf("  warning: %zu keys of %zu, %llu evicted: not the case it says\n", stats.keys,
                  keys, static_cast<unsigned long long>(stats.evictions));
    }
  }

  void tell(const Subject& subject, std::size_t keys, const Ratio& ratio, double denied) const {
    char note[32];
    std::snprintf(note, sizeof(note), "denied %.2f %%", 100 * denied);
    row(subject.name + ", keys " + short_count(keys), ratio, note);
    const double most = keys <= 1000 ? subject.near : subject.far;
    const bool only_told = keys > 1'000'000 && subject.far > 1.5;  // the sliding counter at 10M
    if (most == 0 || only_told) return;
    std::string name = subject.name;
    std::replace(name.begin(), name.end(), ' ', '-');
    promise_at_most("take-" + name + "-" + short_count(keys), ratio.ratio, most);
  }

  Options options_;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  const IdleThread idle;
  table("take: one request, one limit, memory store", kLegend);
  TakeBench bench(options);
  const std::size_t most = options.smoke ? 1'000 : options.quick ? 1'000'000 : 10'000'000;
  for (const std::size_t keys : kKeyCounts) {
    if (options.keys != 0 ? keys != options.keys : keys > most) continue;
    bench.run(keys);
    if (keys == 1) bench.run_hot_denied();
  }
}
