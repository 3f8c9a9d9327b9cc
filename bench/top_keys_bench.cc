// What counting the top keys adds to a decision.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/paired.h"
#include "bench/report.h"
#include "bench/workload.h"
#include "insight/top_keys.h"
#include "metrics/metrics.h"
#include "sluice/attributes.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "RuleDecider::decide() by one rule with one limit, and its metrics, with and without\n"
    "KeyRecorder::count(), with 1,000,000 keys, each in its own store. `new`: every key is as\n"
    "frequent, so nearly none is in the sketch; `zipf`: key k comes 1/k as often as\n"
    "the first. The sketch is full. `denied`: the limit denies everything, so both lists\n"
    "count. Processor time; adjacent 10 ms blocks.";

constexpr std::size_t kKeys = 1'000'000;

// The keys of requests in the order of their use.
std::vector<std::string> uniform_keys(std::size_t length) {
  std::vector<std::string> keys;
  keys.reserve(length);
  KeyStream(kKeys, length).each(0, length, [&](std::string_view key) { keys.emplace_back(key); });
  return keys;
}

std::vector<std::string> zipf_keys(std::size_t length) {
  std::vector<double> sums(kKeys);
  double sum = 0;
  for (std::size_t i = 0; i < kKeys; ++i) sums[i] = sum += 1.0 / static_cast<double>(i + 1);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> pick(0, sum);
  std::vector<std::string> keys;
  keys.reserve(length);
  for (std::size_t i = 0; i < length; ++i) {
    const auto at = std::lower_bound(sums.begin(), sums.end(), pick(random)) - sums.begin();
    std::string key(kKeyBytes, ' ');
    write_key(key.data(), static_cast<std::uint64_t>(at));
    keys.push_back(std::move(key));
  }
  return keys;
}

// One loop of a server: its store, its decider and its counts.
class LoopCase {
 public:
  LoopCase(const RuleSet& rules, insight::KeyRecorder* keys) : rules_(rules), keys_(keys) {
    recorder_.use(rules);
    if (keys_ != nullptr) keys_->use(rules);
  }
  void run(const std::vector<std::string>& keys, std::size_t first, std::size_t count) {
    for (std::size_t i = first; i < first + count; ++i) {
      request_.set("header.x-user", keys[i % keys.size()]);
      const RuleAnswer& answer = decider_.decide(rules_, request_, {}, time_.next());
      recorder_.count(answer);
      if (keys_ != nullptr) keys_->count(answer);
    }
  }

 private:
  const RuleSet& rules_;
  MemoryStore store_{{.max_keys = 2 * kKeys}};
  Limiter limiter_{store_};
  RuleDecider decider_{limiter_};
  metrics::Registry registry_;
  metrics::Recorder& recorder_ = registry_.make_recorder();
  insight::KeyRecorder* keys_;
  Attributes request_{{"header.x-user", ""}};
  Timeline time_;
};

void compare(const Options& options, const std::string& name, std::uint64_t limit,
             const std::vector<std::string>& keys) {
  const RuleSet rules = RuleSet::parse(
                            "version: 1\nrules:\n  - name: api\n    limits: [{ name: user, key: "
                            "\"{header.x-user}\", algorithm: token_bucket, limit: " +
                                std::to_string(limit) + ", per: 1s }]\n",
                            "bench")
                            .value();
  const insight::KeyHash hash;
  insight::TopKeys top_keys({.loops = 2}, hash);
  LoopCase without(rules, nullptr), with(rules, &top_keys.make_recorder());
  without.run(keys, 0, keys.size());
  with.run(keys, 0, keys.size());
  const Ratio ratio = Paired(options.paired())
                          .measure([&](auto... range) { without.run(keys, range...); },
                                   [&](auto... range) { with.run(keys, range...); });
  row(name, ratio);
  promise_at_most("top-keys-" + name + "-ns", ratio.more_ns, 60);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  table("Top keys", kLegend);
  const std::size_t length = options.smoke ? 4096 : std::size_t{1} << 21;
  const auto uniform = uniform_keys(length);
  const auto zipf = zipf_keys(length);
  compare(options, "new", 1000, uniform);
  compare(options, "zipf", 1000, zipf);
  compare(options, "new-denied", 0, uniform);
  compare(options, "zipf-denied", 0, zipf);
}
