// The module of Sluice in a redis-server, compared with INCR and with scripts.

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
    "As the topic redis: one redis-server with processor 0, the load on processor 1, 8 "
    "connections\n"
    "over a Unix socket with 16 requests per write, in turns of 50 ms on the same server. ratio =\n"
    "decisions per second over requests per second of the baseline. The load has a processor of\n"
    "its own and is slower than a server that runs INCR, so `server us`, the processor time of\n"
    "the server per request for the module and the baseline, says more. SLUICE.APPLY is the\n"
    "command that RedisStore sends; the baseline `script` is the same request by EVALSHA.";

// As in the topic redis, 70 % of a limit is used: the module answers ten times as many requests.
constexpr std::uint64_t kUnits = 10 * kPerSecond;  // per second, of one key

class ModuleBench {
 public:
  explicit ModuleBench(const Options& options)
      : server_({"--loadmodule", SLUICE_MODULE_FILE}),
        paired_({.pairs = options.smoke ? 3u : 31u,
                 .block = std::chrono::milliseconds{options.smoke ? 2 : 50},
                 .time = TimeOf::kWall,
                 .reciprocal = true}) {}

  void run() {
    table("module: decisions inside Redis at pipeline depth 16", kLegend);
    const Limit bucket = token_bucket(kUnits).per(std::chrono::seconds{1});
    CommandCase incr = one_command("INCR", {});
    OwnCase apply = one_limit(bucket, OwnCase::By::kModule);
    promise_both("apply-over-incr", "SLUICE.APPLY / INCR", incr, apply, 0.7);
    CommandCase throttle =
        one_command("CL.THROTTLE", {std::to_string(kUnits - 1), std::to_string(kUnits), "1"});
    promise_both("cl-throttle-over-incr", "CL.THROTTLE / INCR", incr, throttle, 0.7);
    OwnCase script = one_limit(bucket, OwnCase::By::kScripts);
    promise_both("apply-over-script", "SLUICE.APPLY / script", script, apply, 2.5);
    const auto three = three_limits(server_, OwnCase::By::kModule);
    promise_both("three-limits-over-script", "three token buckets / script", *three_limits(server_),
                 *three, 0);
    promise_both("three-limits-over-common", "three token buckets / three common calls",
                 *three_common_calls(server_), *three, 3.0);
    algorithms();
    budgets();
  }

 private:
  // Prints the row and, if `least` is positive, the promises of the rate and of the processor time.
  void promise_both(const std::string& promise, const std::string& name, Case& base, Case& own,
                    double least) {
    base.told = own.told = {};
    const Ratio ratio = paired_.measure(base, own);
    row(name, ratio, note_of(base.told, own.told));
    if (least <= 0) return;
    promise_at_least("module-" + promise, ratio.ratio, least);
    promise_at_least("module-" + promise + "-by-server-us",
                     base.told.server_us_each() / own.told.server_us_each(), least);
  }

  // Every algorithm by the module, over the same requests by scripts.
  void algorithms() {
    const std::chrono::seconds s{1};
    const auto compare = [&](const char* name, const Limit& limit) {
      OwnCase script = one_limit(limit, OwnCase::By::kScripts);
      OwnCase apply = one_limit(limit, OwnCase::By::kModule);
      promise_both("", std::string(name) + " / script", script, apply, 0);
    };
    compare("gcra", gcra(kUnits).per(s));
    compare("fixed_window", fixed_window(kUnits).per(s));
    compare("sliding_window_counter", sliding_window_counter(kUnits).per(s));
    compare("sliding_window_log, 150 entries", sliding_window_log(kPerSecond).per(s));
    compare("sliding_window_hybrid", sliding_window_hybrid(kUnits).per(s));
  }

  // A hold of a budget and its settlement, with a take of the budget, and with the same by scripts,
  // as their baselines; and on one key with 1,000 open holds, with one that has none.
  void budgets() {
    const auto both = [](OwnCase& first, OwnCase& second) {
      return [&](std::size_t from, std::size_t count) {
        first(from, count);
        second(from, count);
      };
    };
    const auto server_us = [](const OwnCase& first, const OwnCase& second) {
      return first.told.server_us_each() + second.told.server_us_each();
    };
    const std::string begin = "budget" + std::to_string(++cases_) + ":";
    const auto by_module = OwnCase::By::kModule;
    OwnCase take = of_budget(begin + "take:", Verb::kTake, by_module);
    OwnCase held = of_budget(begin, kHold, by_module);
    OwnCase settled = of_budget(begin, Verb::kSettle, by_module);
    const auto note = [](double own, double base) {
      char text[64];
      std::snprintf(text, sizeof text, "server us %.2f / %.2f", own, base);
      return std::string(text);
    };
    const Ratio over_take = paired_.measure(take, both(held, settled));
    row("budget: hold and settle / take", over_take,
        note(server_us(held, settled), take.told.server_us_each()));
    promise_at_most("module-hold-and-settle-over-a-take",
                    server_us(held, settled) / take.told.server_us_each(), 4);

    OwnCase script_held = of_budget(begin + "script:", kHold, OwnCase::By::kScripts);
    OwnCase script_settled = of_budget(begin + "script:", Verb::kSettle, OwnCase::By::kScripts);
    held.told = settled.told = {};
    const Ratio over_script =
        paired_.measure(both(script_held, script_settled), both(held, settled));
    row("budget: hold and settle / script", over_script,
        note(server_us(held, settled), server_us(script_held, script_settled)));
    promise_at_least("module-hold-and-settle-over-script",
                     server_us(script_held, script_settled) / server_us(held, settled), 2.5);

    OwnCase few = of_budget(begin + "few:", kHold, by_module, 1);
    OwnCase few_settled = of_budget(begin + "few:", Verb::kSettle, by_module, 1);
    OwnCase kept = of_budget(begin + "many:", kHold, by_module, 1);
    kept(0, 1000);
    OwnCase many = of_budget(begin + "many:", kHold, by_module, 1);
    OwnCase many_settled = of_budget(begin + "many:", Verb::kSettle, by_module, 1);
    many.skip_ids(1000);
    many_settled.skip_ids(1000);
    row("budget: hold and settle, 1,000 open / none",
        paired_.measure(both(few, few_settled), both(many, many_settled)));
    promise_at_most("module-hold-and-settle-with-1000-open",
                    server_us(many, many_settled) / server_us(few, few_settled), 1.5);
  }

  // Each hold and settlement has an id of its own.
  OwnCase of_budget(const std::string& prefix, Action action, OwnCase::By by,
                    std::size_t keys = kBenchKeys) {
    const Limit limit = budget(kMaxAmount)
                            .per(std::chrono::hours{24})
                            .holds(65'535)
                            .remember(std::chrono::seconds{1});
    const PermitId id = PermitId::random();
    std::string key;
    return {server_, prefix,
            [&](std::size_t i, std::vector<Charge>& charges) {
              key = key_of(random_key(i, keys));
              const PermitId* const permit = action.verb == Verb::kTake ? nullptr : &id;
              charges.assign(1, Charge{.key = key, .limit = limit, .permit = permit});
            },
            action, by};
  }

  OwnCase one_limit(const Limit& limit, OwnCase::By by) {
    std::string key;
    return {server_, "own" + std::to_string(++cases_) + ":",
            [&](std::size_t i, std::vector<Charge>& charges) {
              key = key_of(random_key(i, kBenchKeys));
              charges.assign(1, Charge{.key = key, .limit = limit});
            },
            Verb::kTake, by};
  }

  CommandCase one_command(const std::string& name, const std::vector<std::string>& numbers) {
    const std::string prefix = "plain" + std::to_string(++cases_) + ":";
    return {server_, [&](std::size_t i) {
              std::vector<std::string> words = {name};
              words.push_back(prefix + key_of(random_key(i, kBenchKeys)));
              words.insert(words.end(), numbers.begin(), numbers.end());
              return words;
            }};
  }

  static constexpr Action kHold{Verb::kHold, std::chrono::hours{1}};

  RedisServer server_;
  Paired paired_;
  std::size_t cases_ = 0;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  ModuleBench bench(options);
  pin_to_cpu(1);
  bench.run();
}
