// The scripts of Sluice on Redis compared with common scripts (redis/*.lua).

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/redis_cases.h"
#include "bench/report.h"
#include "bench/threads.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "Requests on one redis-server. It has processor 0 to itself; the load runs on processor\n"
    "1: one thread, 8 connections over a Unix socket, 16 requests per write on each. Sluice's\n"
    "scripts at the time of the server against common scripts with the clock of the client\n"
    "(bench/redis/*.lua), in alternating turns of 50 ms on the same server. ratio = decisions\n"
    "per second over those of the common script, median of the ratios of adjacent turns. Each\n"
    "line also has the processor time of the server per decision and the share of denied\n"
    "requests, for Sluice and for the common script.";

class RedisBench {
 public:
  explicit RedisBench(const Options& options) : options_(options) {}

  void run() {
    table("redis: scripts, one request on Redis at pipeline depth 16", kLegend);
    buckets();
    verbs();
    holds();
    hybrid();
    compare_three_limits();
    logs(100, options_.smoke ? 20 : 2000, 1.0);
    logs(10'000, options_.smoke ? 1 : 20, 1.5);
    full_logs();
  }

 private:
  PairedOptions paired(std::chrono::milliseconds block) const {
    if (options_.smoke) block = std::chrono::milliseconds{2};
    return {.pairs = options_.smoke ? 3u : 31u,
            .block = block,
            .time = TimeOf::kWall,
            .reciprocal = true};
  }

  Ratio compare(const std::string& name, Case& base, Case& own,
                std::chrono::milliseconds block = std::chrono::milliseconds{50},
                std::uint64_t log_limit = 0) {
    base.told = own.told = {};
    const Ratio ratio = Paired(paired(block)).measure(base, own);
    row(name, ratio,
        note_of(base.told, own.told) + (log_limit == 0 ? "" : held(own, base, log_limit)));
    return ratio;
  }

  static std::string held(const Case& own, const Case& base, std::uint64_t limit) {
    return ", hold " + std::to_string(limit - own.told.remaining) + " / " +
           std::to_string(limit - base.told.remaining);
  }

  OwnCase own_case(const Limit& limit, std::size_t keys = kBenchKeys, Action action = Verb::kTake) {
    ++cases_;
    return latest_case(limit, keys, action);
  }

  // With the same keys as the case before.
  OwnCase latest_case(const Limit& limit, std::size_t keys, Action action) {
    const PermitId id = PermitId::random();
    const bool has_id = action.verb == Verb::kHold || action.verb == Verb::kSettle;
    std::string key;
    return {server_, "own" + std::to_string(cases_) + ":",
            [&](std::size_t i, std::vector<Charge>& charges) {
              key = key_of(random_key(i, keys));
              charges.assign(1,
                             Charge{.key = key, .limit = limit, .permit = has_id ? &id : nullptr});
            },
            action};
  }

  BaselineCase common_bucket(std::uint64_t capacity, double rate, std::size_t keys = kBenchKeys) {
    const std::string prefix = "common" + std::to_string(++cases_) + ":";
    return {server_, "token_bucket.lua", [&](std::size_t i) -> std::vector<BaselineCase::Call> {
              return {{.key = prefix + key_of(random_key(i, keys)),
                       .before = {std::to_string(capacity), std::to_string(rate)},
                       .after = {"1"}}};
            }};
  }

  void buckets() {
    BaselineCase base = common_bucket(kPerSecond, kPerSecond);
    const auto against = [&](const std::string& name, const Limit& limit, double promised) {
      OwnCase own = own_case(limit);
      const Ratio ratio = compare(name, base, own);
      if (promised > 0) promise_at_least("redis-" + name, ratio.ratio, promised);
    };
    const std::chrono::seconds s{1};
    against("token_bucket", token_bucket(kPerSecond).per(s), 1.1);
    against("gcra", gcra(kPerSecond).per(s), 1.1);
    against("leaky_bucket/queue", leaky_bucket(kPerSecond).per(s).queueing(), 0);
    against("token_bucket/interval", token_bucket(kPerSecond).per(s).refilled_at_intervals(), 0);
    against("fixed_window", fixed_window(kPerSecond).per(s), 0);
    against("sliding_window_counter", sliding_window_counter(kPerSecond).per(s), 0);
    against("sliding_window_hybrid", sliding_window_hybrid(kPerSecond).per(s), 0);
    BaselineCase base_denied = common_bucket(1, 1.0 / 3600, 1);
    OwnCase own_denied = own_case(token_bucket(1).per(std::chrono::hours{1}), 1);
    compare("token_bucket/hot denied", base_denied, own_denied);
  }

  // The other verbs that count units, with a take as their baseline. Most time of a request passes
  // outside of the scripts, so the promise is about the server's processor time.
  void verbs() {
    const Limit limit = token_bucket(kPerSecond).per(std::chrono::seconds{1});
    const auto against_a_take = [&](const std::string& name, Action action) {
      OwnCase take = own_case(limit);
      OwnCase own = own_case(limit, kBenchKeys, action);
      compare(name + " / take", take, own);
      promise_at_most("redis-" + name + "-over-a-take",
                      own.told.server_us_each() / take.told.server_us_each(), 1.15);
    };
    against_a_take("charge", Verb::kCharge);
    against_a_take("take_at_most", Verb::kTakeAtMost);
    against_a_take("reserve", {Verb::kReserve, std::chrono::seconds{1}});
  }

  // A hold of a budget and its settlement, with a take of the budget as their baseline; and the
  // same on one key with 1,000 open holds, against one without.
  void holds() {
    const Limit limit = budget(kMaxAmount)
                            .per(std::chrono::hours{24})
                            .holds(65'535)
                            .remember(std::chrono::seconds{1});
    const Action hold{Verb::kHold, std::chrono::hours{1}};
    OwnCase take = own_case(limit);
    OwnCase opened = own_case(limit, kBenchKeys, hold);
    OwnCase settled = latest_case(limit, kBenchKeys, Verb::kSettle);
    const auto both = [](OwnCase& first, OwnCase& second) {
      return [&](std::size_t from, std::size_t count) {
        first(from, count);
        second(from, count);
      };
    };
    const Ratio ratio =
        Paired(paired(std::chrono::milliseconds{50})).measure(take, both(opened, settled));
    row("hold and settle / take", ratio, note_of(take.told, opened.told));
    const auto server_us = [](const OwnCase& first, const OwnCase& second) {
      return first.told.server_us_each() + second.told.server_us_each();
    };
    promise_at_most("redis-hold-and-settle-over-a-take",
                    server_us(opened, settled) / take.told.server_us_each(), 2.5);

    OwnCase few = own_case(limit, 1, hold);
    OwnCase few_settled = latest_case(limit, 1, Verb::kSettle);
    OwnCase kept = own_case(limit, 1, hold);
    kept(0, 1000);
    OwnCase many = latest_case(limit, 1, hold);
    OwnCase many_settled = latest_case(limit, 1, Verb::kSettle);
    many.skip_ids(1000);
    many_settled.skip_ids(1000);
    row("hold and settle, 1,000 open / none",
        Paired(paired(std::chrono::milliseconds{50}))
            .measure(both(few, few_settled), both(many, many_settled)));
    promise_at_most("redis-hold-and-settle-with-1000-open",
                    server_us(many, many_settled) / server_us(few, few_settled), 1.5);
    bytes_of_ids();
  }

  // The bytes of a key for each open hold, and for each settled id.
  void bytes_of_ids() {
    const Limit limit = budget(kMaxAmount).per(std::chrono::hours{24}).holds(65'535);
    const std::size_t count = options_.smoke ? 1'000 : 40'000;
    OwnCase opened = own_case(limit, 1, {Verb::kHold, std::chrono::hours{1}});
    OwnCase settled = latest_case(limit, 1, Verb::kSettle);
    const std::string prefix = "own" + std::to_string(cases_) + ":";
    const auto bytes = [&] { return bytes_of_keys(prefix) / static_cast<double>(count); };
    opened(0, count);
    const double hold = bytes();
    settled(0, count);
    const double id = bytes();
    std::printf("  memory of a key: %.1f bytes an open hold, %.1f bytes a settled id\n", hold, id);
    promise_at_most("redis-bytes-an-open-hold", hold, 48);
    promise_at_most("redis-bytes-a-settled-id", id, 24);
  }

  void hybrid() {
    const std::chrono::seconds s{1};
    OwnCase log = own_case(sliding_window_log(kPerSecond).per(s));
    OwnCase own = own_case(sliding_window_hybrid(kPerSecond).per(s));
    compare("sliding_window_hybrid / log", log, own);
    promise_at_most("redis-hybrid-over-a-log",
                    own.told.server_us_each() / log.told.server_us_each(), 1.5);
  }

  void compare_three_limits() {
    const auto own = three_limits(server_);
    const auto base = three_common_calls(server_);
    const Ratio ratio = compare("three token buckets / three calls", *base, *own);
    promise_at_least("redis-three-limits", ratio.ratio, 2.0);
  }

  // Full logs: each request is denied and writes nothing.
  void full_logs() {
    const std::chrono::hours window{1};
    const std::uint64_t limit = options_.smoke ? 100 : 10'000;
    OwnCase own = own_case(sliding_window_log(limit).per(window), 1);
    BaselineCase base = common_log(limit, window, 1);
    own(0, limit);
    base(0, limit);
    compare("window log, 10k entries, full", base, own);
  }

  // The logs of `keys` keys, each with about this number of entries at all times.
  void logs(std::uint64_t entries, std::size_t keys, double promised) {
    std::chrono::duration<double> window{static_cast<double>(entries * keys) / 50'000};
    const std::uint64_t limit = 2 * entries;
    for (int round = 0; round < (options_.smoke ? 0 : 2); ++round) {
      const std::unique_ptr<Logs> logs = make_logs(limit, window, keys);
      window *=
          static_cast<double>(entries) / static_cast<double>(limit - logs->own.told.remaining);
    }
    const std::unique_ptr<Logs> logs = make_logs(limit, window, keys);
    const std::string name = "window log, " + short_count(entries) + " entries";
    const Ratio ratio = compare(name, logs->base, logs->own, std::chrono::milliseconds{20}, limit);
    promise_at_least("redis-log-" + short_count(entries), ratio.ratio, promised);
    memory(*logs, entries, keys);
  }

  struct Logs {
    OwnCase own;
    BaselineCase base;
    std::string own_prefix;
    std::string base_prefix;
  };

  // A log per key on both sides, as full as possible.
  std::unique_ptr<Logs> make_logs(std::uint64_t limit, std::chrono::duration<double> window,
                                  std::size_t keys) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(window);
    const std::string own = "own" + std::to_string(cases_ + 1) + ":";
    const std::string base = "common" + std::to_string(cases_ + 2) + ":";
    // An aggregate, because a case cannot move.
    std::unique_ptr<Logs> logs(new Logs{own_case(sliding_window_log(limit).per(ms), keys),
                                        common_log(limit, ms, keys), own, base});
    run_for(logs->base, logs->own, ms + ms / 2);
    return logs;
  }

  BaselineCase common_log(std::uint64_t limit, std::chrono::milliseconds window, std::size_t keys) {
    const std::string prefix = "common" + std::to_string(++cases_) + ":";
    const std::string seconds = std::to_string(static_cast<double>(window.count()) / 1000);
    return {server_, "window_log.lua", [&](std::size_t i) -> std::vector<BaselineCase::Call> {
              return {{.key = prefix + key_of(random_key(i, keys)),
                       .before = {std::to_string(limit), seconds},
                       .after = {},
                       .unique = true}};
            }};
  }

  // Both sides receive the same number of requests alternately, so that their logs grow equally.
  void run_for(Case& base, Case& own, std::chrono::milliseconds time) {
    const double end = now_ns(TimeOf::kWall) + static_cast<double>(time.count()) * 1e6;
    for (std::size_t first = 0; now_ns(TimeOf::kWall) < end; first += 1024) {
      base(first, 1024);
      own(first, 1024);
    }
  }

  double bytes_of_keys(const std::string& prefix) {
    return std::stod(RedisLink(server_.socket())
                         .ask({"EVAL",
                               "local sum = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1])) do "
                               "sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end "
                               "return sum",
                               "0", prefix + "*"}));
  }

  void memory(const Logs& logs, std::uint64_t entries, std::size_t keys) {
    const double own = bytes_of_keys(logs.own_prefix) / static_cast<double>(keys);
    const double base = bytes_of_keys(logs.base_prefix) / static_cast<double>(keys);
    std::printf("  memory of a log there: %.0f bytes, %.0f in a sorted set: %.3f\n", own, base,
                own / base);
    if (entries >= 10'000) promise_at_most("redis-log-10k-memory", own / base, 0.25);
  }

  RedisServer server_;
  Options options_;
  std::size_t cases_ = 0;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  RedisBench bench(options);
  pin_to_cpu(1);
  bench.run();
}
