// Two threads compared with one on a memory store.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "bench/baseline_map.h"
#include "bench/report.h"
#include "bench/threads.h"
#include "bench/workload.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "Throughput of two threads over that of one: ratio = requests a second of both together over\n"
    "those of one alone, in turns; base ns is one thread's time for a request, ns/op that of two\n"
    "threads for each request of either. Each thread is tied to a processor where the system "
    "allows\n"
    "it. Blocks of 0.5 ms from the start of both to the end of both; one in which the system put\n"
    "something else in a thread's place is run again. The promise is by the wall's time; "
    "processor\n"
    "time leaves out sleeping before a lock. `arithmetic` shares nothing: what the machine gives "
    "two\n"
    "threads at this moment.";

constexpr std::size_t kThreads = 2;
// Keys per thread: a number that fits into the caches, and one that does not.
constexpr std::uint64_t kKeyCounts[] = {10'000, 1'000'000};

// The duration of one round: the time from the start of the first thread to the end of the last
// one, and the maximum processor time of a thread. Disturbed if the system ran another program in
// place of a thread.
struct Round {
  double wall_ns = 0;
  double processor_ns = 0;
  bool disturbed = false;
};

// Threads that sleep until they receive work and then start together.
class Workers {
 public:
  // void(state, thread, first, count)
  using Work = void (*)(void*, std::size_t, std::size_t, std::size_t);

  Workers() {
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads_[i] = std::thread([this, i] { serve(i); });
    }
  }
  ~Workers() {
    run(0, nullptr, nullptr, 0, 0);
    for (std::thread& t : threads_) t.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Lets the first `active` threads do `count` operations each, and returns when all are done.
  Round run(std::size_t active, Work work, void* state, std::size_t first, std::size_t count) {
    work_ = work;
    state_ = state;
    first_ = first;
    count_ = count;
    active_ = active;
    arrived_.store(0, std::memory_order_relaxed);
    left_.store(kThreads, std::memory_order_relaxed);
    round_.fetch_add(1, std::memory_order_release);
    round_.notify_all();
    for (std::size_t left = left_.load(); left != 0; left = left_.load()) left_.wait(left);
    return sum_up(active);
  }
  bool pinned() const { return pinned_.load() == kThreads; }

 private:
  struct alignas(64) Share {
    double start_ns = 0;
    double end_ns = 0;
    double processor_ns = 0;
    long preemptions = 0;
  };

  static long preemptions() {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    return used.ru_nivcsw;
  }

  void serve(std::size_t self) {
    pinned_ += pin_to_cpu(self);
    for (std::uint32_t seen = 0;; ++seen) {
      round_.wait(seen, std::memory_order_acquire);
      const bool last = work_ == nullptr;
      if (self < active_) shares_[self] = do_share(self);
      if (left_.fetch_sub(1) == 1) left_.notify_all();
      if (last) return;
    }
  }

  void wait_for_all(std::size_t arrivals) {
    ++arrived_;
    while (arrived_.load() < arrivals) {
    }
  }

  Share do_share(std::size_t self) {
    wait_for_all(active_);
    Share share;
    share.preemptions = -preemptions();
    // Checks again, to notice a disturbance that affected only one of the threads.
    wait_for_all(2 * active_);
    share.processor_ns = -now_ns(TimeOf::kThread);
    share.start_ns = now_ns(TimeOf::kWall);
    work_(state_, self, first_, count_);
    share.end_ns = now_ns(TimeOf::kWall);
    share.processor_ns += now_ns(TimeOf::kThread);
    share.preemptions += preemptions();
    return share;
  }

  Round sum_up(std::size_t active) const {
    Round round;
    double start = shares_[0].start_ns;
    for (const Share& share : std::span(shares_).first(active)) {
      start = std::min(start, share.start_ns);
      round.wall_ns = std::max(round.wall_ns, share.end_ns);
      round.processor_ns = std::max(round.processor_ns, share.processor_ns);
      round.disturbed |= share.preemptions != 0;
    }
    round.wall_ns -= start;
    return round;
  }

  Work work_ = nullptr;
  void* state_ = nullptr;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t active_ = 0;
  std::atomic<std::size_t> arrived_{0};
  std::atomic<std::size_t> left_{0};
  std::atomic<std::uint32_t> round_{0};
  std::atomic<std::size_t> pinned_{0};
  std::array<Share, kThreads> shares_;
  std::array<std::thread, kThreads> threads_;
};

// Measures the same operations in one thread and shared between two threads.
class Scaling {
 public:
  Scaling(Workers& workers, const Options& options)
      : workers_(workers), options_(options.paired()) {
    options_.reciprocal = true;
    options_.block = std::min<std::chrono::nanoseconds>(options_.block, kBlock);
  }

  template <typename Case>
  Ratio measure(TimeOf time, Case& run) {
    const Workers::Work work = [](void* state, std::size_t self, std::size_t first,
                                  std::size_t count) {
      (*static_cast<Case*>(state))(self, first, count);
    };
    const auto timed = [&](std::size_t active, std::size_t first, std::size_t count) {
      const Round round = undisturbed(active, work, &run, first, count);
      return time == TimeOf::kThread ? round.processor_ns : round.wall_ns;
    };
    return Paired(options_).measure(
        [&](std::size_t first, std::size_t count) { return timed(1, first, count); },
        [&](std::size_t first, std::size_t count) { return timed(kThreads, first, count); });
  }

  // The number of blocks that were always disturbed.
  std::size_t disturbed() const { return disturbed_; }

 private:
  static constexpr std::chrono::microseconds kBlock{
      500};  // short, so that most blocks are undisturbed
  static constexpr int kAttempts = 40;

  Round undisturbed(std::size_t active, Workers::Work work, void* state, std::size_t first,
                    std::size_t count) {
    for (int i = 1; i < kAttempts; ++i) {
      const Round round = workers_.run(active, work, state, first, count / active);
      if (!round.disturbed) return round;
    }
    ++disturbed_;
    return workers_.run(active, work, state, first, count / active);
  }

  Workers& workers_;
  PairedOptions options_;
  std::size_t disturbed_ = 0;
};

class ThreadsBench {
 public:
  explicit ThreadsBench(const Options& options) : options_(options) {}

  void arithmetic() {
    auto run = [](std::size_t, std::size_t first, std::size_t count) {
      std::uint64_t x = first | 1;
      for (std::size_t i = 0; i < count * 8; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        benchmark::DoNotOptimize(x);
      }
    };
    tell("arithmetic", run);
    if (!workers_.pinned()) std::printf("  (the threads could not be pinned to processors)\n");
  }

  double map(const std::array<KeyStream, kThreads>& streams, const std::string& name,
             std::uint64_t keys) {
    BaselineMap map;
    each_key(kThreads * keys, [&](std::string_view key) { map.increment(key); });
    auto run = [&](std::size_t self, std::size_t first, std::size_t count) {
      streams[self].each(first, count, [&](std::string_view key) {
        benchmark::DoNotOptimize(map.increment(key));
      });
    };
    return tell("bare map, " + name, run);
  }

  double store(const std::array<KeyStream, kThreads>& streams, const std::string& name,
               const Limit& limit, std::uint64_t keys) {
    MemoryStore store({.max_keys = std::max(3 * keys, MemoryStoreOptions{}.max_keys)});
    Limiter limiter(store);
    each_key(kThreads * keys, [&](std::string_view key) {
      benchmark::DoNotOptimize(limiter.try_acquire(key, limit, 1, Timeline().next()));
    });
    std::array<Timeline, kThreads> times;
    auto run = [&](std::size_t self, std::size_t first, std::size_t count) {
      Timeline time = times[self];
      streams[self].each(first, count, [&](std::string_view key) {
        benchmark::DoNotOptimize(limiter.try_acquire(key, limit, 1, time.next()));
      });
      times[self] = time;
    };
    return tell(std::string(to_string(limit.algorithm())) + ", " + name, run);
  }

  // The same with a store for each thread: what the machine gives two threads that share nothing.
  double own_stores(const std::array<KeyStream, kThreads>& streams, const std::string& name,
                    const Limit& limit, std::uint64_t keys) {
    const MemoryStoreOptions room{.max_keys = std::max(3 * keys, MemoryStoreOptions{}.max_keys)};
    std::array<MemoryStore, kThreads> stores{MemoryStore(room), MemoryStore(room)};
    std::array<Timeline, kThreads> times;
    auto run = [&](std::size_t self, std::size_t first, std::size_t count) {
      Limiter limiter(stores[self]);
      Timeline time = times[self];
      streams[self].each(first, count, [&](std::string_view key) {
        benchmark::DoNotOptimize(limiter.try_acquire(key, limit, 1, time.next()));
      });
      times[self] = time;
    };
    for (std::size_t i = 0; i < kThreads; ++i) {
      Limiter limiter(stores[i]);
      each_key(kThreads * keys, [&](std::string_view key) {
        benchmark::DoNotOptimize(limiter.try_acquire(key, limit, 1, Timeline().next()));
      });
    }
    return tell(std::string(to_string(limit.algorithm())) + ", " + name + ", a store each", run);
  }

 private:
  template <typename Case>
  double tell(const std::string& name, Case& run) {
    Scaling scaling(workers_, options_);
    row(name + ", processor time", scaling.measure(TimeOf::kThread, run));
    const Ratio ratio = scaling.measure(TimeOf::kWall, run);
    const std::size_t lost = scaling.disturbed();
    row(name, ratio, lost == 0 ? "" : "disturbed blocks: " + std::to_string(lost));
    return ratio.ratio;
  }

  Options options_;
  Workers workers_;
};

void run(const Options& options) {
  table("threads: two against one", kLegend);
  ThreadsBench bench(options);
  bench.arithmetic();

  for (const std::uint64_t keys : kKeyCounts) {
    if (options.smoke && keys > 10'000) break;
    const std::size_t length = options.smoke ? 4096 : keys > 10'000 ? 1 << 22 : 1 << 18;
    const std::array own{KeyStream(keys, length, 1), KeyStream(keys, length, 2, keys)};
    const Numbers n = numbers_for(keys);
    const std::string name = short_count(keys) + " keys each";
    bench.map(own, name, keys);
    bench.store(own, name, fixed_window(n.limit).per(n.per), keys);
    bench.own_stores(own, name, token_bucket(n.limit).per(n.per), keys);
    promise_at_least("threads-distinct-keys-" + short_count(keys),
                     bench.store(own, name, token_bucket(n.limit).per(n.per), keys),
                     keys > 10'000 ? 1.6 : 1.2);
  }

  const std::array hot{KeyStream(1, 4096), KeyStream(1, 4096)};
  const Numbers h = numbers_for(1);
  bench.map(hot, "one hot key", 1);
  bench.store(hot, "one hot key", fixed_window(h.limit * 2).per(h.per), 1);
  promise_at_least("threads-hot-key",
                   bench.store(hot, "one hot key", token_bucket(h.limit * 2).per(h.per), 1), 0.5);
  bench.arithmetic();
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) { sluice::bench::run(sluice::bench::Options::from(argc, argv)); }
