// Measures RedisStore: many callers at the same time, a limit that denies, and a dead Redis.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "bench/redis_load.h"
#include "bench/redis_server.h"
#include "bench/report.h"
#include "bench/store_callers.h"
#include "bench/threads.h"
#include "bench/workload.h"
#include "sluice/deny_cache.h"
#include "sluice/failure_policy.h"
#include "sluice/limiter.h"
#include "sluice/redis_store.h"
#include "stores/redis/script/plan.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "Decisions per second of 64 threads that wait for each answer through one store. Its\n"
    "process, with the thread of the store, has processor 1; the redis-server has processor\n"
    "0. The baseline is `redis-benchmark -P 16 -c 50` on processor 1 with the same script, as\n"
    "it reports its own rate. Turns of half a second; median of the ratios of adjacent turns.\n"
    "With the deny cache, the baseline is the same store without it. Each line also has the\n"
    "processor time per decision in the process of the callers.";
constexpr const char* kDeadLegend =
    "One thread uses a store whose redis-server has stopped without closing its connections, with\n"
    "a circuit breaker with its defaults; deadline 50 ms. ns/op is the median of ten thousand\n"
    "turns of 1000 decisions, including probes. `longest` is the longest wait of any call,\n"
    "including the first calls.";

constexpr std::chrono::milliseconds kDeadline{50};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "redis_store_bench: %s\n", what.c_str());
  std::exit(1);
}

std::unique_ptr<RedisStore> open_store(const RedisServer& server,
                                       std::chrono::milliseconds deadline = kDeadline) {
  auto store = RedisStore::open({.url = server.url(), .deadline = deadline});
  if (!store) fail(store.error());
  if (const auto ready = (*store)->wait_until_ready(std::chrono::seconds{5}); !ready) {
    fail(ready.error());
  }
  return std::move(*store);
}

// Returns the processor time of the processes that have ended.
double children_cpu_ns() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto ns = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

// Returns the elements of a RESP command after its name.
std::vector<std::string> elements_of(const redis::Command& command) {
  std::vector<std::string> elements;
  std::string_view rest = command.tail;
  while (!rest.empty()) {
    const std::size_t size = std::strtoul(rest.data() + 1, nullptr, 10);
    rest.remove_prefix(rest.find('\n') + 1);
    elements.emplace_back(rest.substr(0, size));
    rest.remove_prefix(size + 2);
  }
  return elements;
}

// Runs redis-benchmark with the script of the store on random keys.
class RedisBenchmark {
 public:
  RedisBenchmark(const RedisServer& server, const Limit& limit, std::size_t least) : least_(least) {
    struct Buffer final : redis::Command {
      void done(const redis::Answer&) noexcept override {}
    } command;
    const Charge charge{.key = "", .limit = limit};
    redis::Plan plan;
    if (!plan.begin({.prefix = "benchmark:"}, Verb::kTake, {&charge, 1}, std::nullopt)) {
      fail("a request that the script does not support");
    }
    plan.write(0, command);
    const std::vector<std::string> elements = elements_of(command);  // 1, the key, an argument
    const std::string sha1 =
        RedisLink(server.socket()).load_script(with_argument(elements.at(2), *command.script));
    line_ = "redis-benchmark -s '" + server.socket() + "' -c 50 -P 16 --csv -r " +
            std::to_string(kKeys) + " -n ";
    words_ = " EVALSHA " + sha1 + " 1 'benchmark:user:__rand_int__'";
  }

  // Returns nanoseconds, as redis-benchmark measures them.
  double operator()(std::size_t, std::size_t count) {
    const std::size_t asked = std::max(count, least_);
    cost.ns -= children_cpu_ns();
    FILE* const said = popen((line_ + std::to_string(asked) + words_ + " 2>&1").c_str(), "r");
    if (said == nullptr) fail("cannot start redis-benchmark");
    std::string text;
    for (int c = std::fgetc(said); c != EOF; c = std::fgetc(said)) {
      text.push_back(static_cast<char>(c));
    }
    if (pclose(said) != 0) fail("redis-benchmark: " + text);
    cost.ns += children_cpu_ns();
    cost.asked += asked;
    return static_cast<double>(count) * 1e9 / requests_per_second(text);
  }

  Cost cost;

 private:
  // Returns the script with its argument inside, because redis-benchmark cannot send zero bytes.
  static std::string with_argument(const std::string& argument, const redis::Script& script) {
    std::string text = "local ARGV = {'";
    for (const char c : argument) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\%03u", static_cast<unsigned char>(c));
      text += escaped;
    }
    return text + "'}\n" + std::string(script.text);
  }
  // Reads a line of names and a line of "quoted","numbers": the seventh from the end.
  static double requests_per_second(const std::string& csv) {
    std::size_t at = csv.size();
    for (int i = 0; i < 7 && at != std::string::npos; ++i) {
      at = at == 0 ? std::string::npos : csv.rfind("\",\"", at - 1);
    }
    const double found = at == std::string::npos ? 0 : std::strtod(csv.c_str() + at + 3, nullptr);
    if (!(found > 0)) fail("redis-benchmark printed: " + csv);
    return found;
  }

  std::size_t least_;  // the minimum number of requests for a measurement
  std::string line_;
  std::string words_;
};

PairedOptions paired(const Options& options) {
  return {.pairs = options.smoke ? 3u : 11u,
          .block = std::chrono::milliseconds{options.smoke ? 5 : 500},
          .time = TimeOf::kWall,
          .reciprocal = true};
}

std::string costs(const Cost& own, const Cost& base) {
  char text[64];
  std::snprintf(text, sizeof(text), "callers' us %.2f / %.2f", own.us_each(), base.us_each());
  return text;
}

void check_decided(const Callers& callers) {
  if (callers.undecided() == 0) return;
  std::printf("  (%llu requests of these were not decided in time)\n",
              static_cast<unsigned long long>(callers.undecided()));
}

void many_callers(const Options& options) {
  const RedisServer server;
  const Limit limit = token_bucket(150).per(std::chrono::seconds{1});
  const std::unique_ptr<RedisStore> store = open_store(server);
  Callers own(*store, limit, kKeys);
  RedisBenchmark base(server, limit, options.smoke ? 1000 : 20'000);
  const Ratio ratio = Paired(paired(options)).measure(base, own);
  row("64 callers / redis-benchmark -P 16", ratio, costs(own.cost, base.cost));
  check_decided(own);
  promise_at_least("redis-64-callers", ratio.ratio, 0.8);
}

void denied_callers(const Options& options) {
  const RedisServer server;
  const Limit limit = token_bucket(1).per(std::chrono::hours{1});
  const std::unique_ptr<RedisStore> store = open_store(server);
  DenyCache cache;
  DenyCacheStore cached(*store, cache);
  Callers own(cached, limit, 1);
  Callers base(*store, limit, 1);
  const Ratio ratio = Paired(paired(options)).measure(base, own);
  row("hot key, denied, 64 callers: cached / asked", ratio, costs(own.cost, base.cost));
  check_decided(base);
  promise_at_least("redis-deny-cache", ratio.ratio, 20);
}

// The cost of the decisions of one thread, in batches of a thousand, and the longest wait.
struct Unanswered {
  double ns_each = 0;  // the median
  double longest_ms = 0;
};

Unanswered ask_dead(Store& store, std::size_t turns) {
  constexpr std::size_t kInTurn = 1000;
  Limiter limiter(store);
  const Limit limit = token_bucket(150).per(std::chrono::seconds{1});
  std::vector<double> each;
  double longest = 0;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const double start = now_ns(TimeOf::kWall);
    double last = start;
    for (std::size_t i = 0; i < kInTurn; ++i) {
      const Decision decision = limiter.try_acquire(keys()[(turn + i * 7) % kKeys], limit);
      if (decision.reason != Reason::kFallback) fail("a decision without a Redis");
      const double now = now_ns(TimeOf::kWall);
      longest = std::max(longest, now - last);
      last = now;
    }
    each.push_back((last - start) / static_cast<double>(kInTurn));
  }
  return {median(each), longest / 1e6};
}

void without_redis(const Options& options) {
  std::printf("\n== redis: a server that does not answer\n%s\n", kDeadLegend);
  static constexpr struct {
    const char* name;
    FailurePolicy policy;
  } kCases[] = {{"allow", FailurePolicy::kAllow},
                {"deny", FailurePolicy::kDeny},
                {"local", FailurePolicy::kLocal}};
  for (const auto& [name, policy] : kCases) {
    const RedisServer server;
    const std::unique_ptr<RedisStore> store = open_store(server);
    CircuitBreaker breaker;
    FailurePolicyStore guarded(*store, breaker, {.fallback = policy, .nodes = 4});
    server.signal(SIGSTOP);
    const Unanswered found = ask_dead(guarded, options.smoke ? 10 : 10'000);
    std::printf("  policy %-6s %8.1f ns/op, longest %.1f ms\n", name, found.ns_each,
                found.longest_ms);
    promise_at_least(std::string("redis-dead-") + name + "-M-a-second", 1e3 / found.ns_each, 1);
    promise_at_most(std::string("redis-dead-") + name + "-longest-over-deadline",
                    found.longest_ms / static_cast<double>(kDeadline.count()), 1.1);
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  pin_to_cpu(1);
  table("redis: the store's callers", kLegend);
  many_callers(options);
  denied_callers(options);
  without_redis(options);
}
