#include "replay/replay.h"

#include <algorithm>

#include "replay/log_attributes.h"
#include "replay/text.h"
#include "rules/remembered_requests.h"
#include "rules/request_names.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"

namespace sluice::replay {
namespace {

using SteadyClock = std::chrono::steady_clock;

MemoryStoreOptions store_options(std::size_t max_keys) {
  MemoryStoreOptions options;
  options.max_keys = max_keys;
  options.max_log_bytes = std::size_t{1} << 30;
  options.shards = 1;  // one thread decides
  return options;
}

bool counts_responses(const RuleSet& rules) {
  const auto any = [](const Rule& rule) {
    return std::any_of(rule.limits.begin(), rule.limits.end(),
                       [](const RuleLimit& limit) { return limit.counts_responses; });
  };
  return std::any_of(rules.rules().begin(), rules.rules().end(), any);
}

class Replay {
 public:
  Replay(const RuleSet& rules, const ReplayOptions& options)
      : rules_(rules),
        options_(options),
        store_(store_options(options.max_keys)),
        report_(rules, options.max_keys) {}

  ReplayReport run() {
    const auto start = SteadyClock::now();
    report_.logs = options_.logs;
    LogReaderOptions reading = options_.reading;
    reading.names = &names_;
    LogReader reader(options_.logs, reading);
    while (LogBatch* batch = reader.next()) {
      decide(*batch);
      account(*batch);
      reader.release(batch);
    }
    report_.evictions = store_.stats().evictions;
    const auto elapsed = SteadyClock::now() - start;
    report_.elapsed = std::chrono::round<std::chrono::milliseconds>(elapsed);
    return std::move(report_);
  }

 private:
  void decide(const LogBatch& batch) {
    for (std::size_t i = 0; i < batch.lines.size(); ++i) {
      const LogLine& line = batch.lines[i];
      clock_ = std::max(clock_, line.at);
      first_ = std::min(first_, line.at);
      report_.late += line.at < clock_ ? 1 : 0;
      attributes_.show(line, batch.fields(line));
      const RuleAnswer& answer = decide(batch, i);
      report_.tally.count(answer, clock_);
      if (counts_responses_ && answer.decision.allowed()) {
        decider_.report(rules_, attributes_, attributes_, 1, clock_);
      }
    }
    if (report_.tally.requests == 0) return;
    report_.first = first_;
    report_.last = clock_;
  }

  const RuleAnswer& decide(const LogBatch& batch, std::size_t line) {
    const RequestCosts costs = batch.costs(batch.lines[line]);
    if (costs.units == 1 && costs.limits.empty()) {
      return requests_.decide(batch.name(line), attributes_, clock_);
    }
    const RuleAnswer& answer = decider_.decide(rules_, attributes_, costs, clock_);
    const bool has_unknown = answer.decision.reason == Reason::kInvalid && answer.matched.empty();
    return has_unknown ? decide_without_unknown(costs) : answer;
  }

  // A server denies a request with a cost for a limit that no matching rule has. A field of a log
  // gives each line this cost, whatever rules match, so it is left out for the others.
  const RuleAnswer& decide_without_unknown(RequestCosts costs) {
    const RuleAnswer& looked = decider_.decide(rules_, attributes_, 1, clock_, Verb::kPeek);
    known_costs_.clear();
    for (const LimitCost& cost : costs.limits) {
      if (is_limit_of(looked, cost.limit)) known_costs_.push_back(cost);
    }
    costs.limits = known_costs_;
    return decider_.decide(rules_, attributes_, costs, clock_);
  }

  static bool is_limit_of(const RuleAnswer& answer, std::string_view name) {
    return std::any_of(answer.matched.begin(), answer.matched.end(), [&](const auto& matched) {
      return std::any_of(matched.rule->limits.begin(), matched.rule->limits.end(),
                         [&](const RuleLimit& limit) { return limit.name == name; });
    });
  }

  void account(const LogBatch& batch) {
    const std::string& path = options_.logs[batch.log];
    const std::uint64_t lines = batch.lines.size() + batch.skipped;
    report_.lines += lines;
    report_.skipped += batch.skipped;
    report_.bytes = batch.inflated;
    log_lines_ += lines;
    log_parsed_ += batch.lines.size();
    auto& formats = report_.formats;
    if (lines > 0 && std::find(formats.begin(), formats.end(), batch.format) == formats.end()) {
      formats.push_back(batch.format);
    }
    for (const SkippedLine& line : batch.first_skipped) complain_of(path, line);
    if (batch.last) finish_log(path, batch);
    if (options_.on_progress) {
      options_.on_progress({path, report_.lines, report_.bytes, batch.progress});
    }
  }

  void finish_log(const std::string& path, const LogBatch& batch) {
    report_.opened += batch.opened ? 1 : 0;
    if (!batch.error.empty()) {
      report_.failed = true;
      complain(path + ": " + batch.error);
    } else if (log_lines_ == 0) {
      complain(path + ": is empty; there is nothing to decide");
    } else if (log_parsed_ == 0) {
      complain(path + ": no line could be read as " + std::string(title_of(batch.format)) +
               "; is it an access log? --format and --field say what it is");
    }
    log_lines_ = log_parsed_ = 0;
  }

  void complain_of(const std::string& path, const SkippedLine& line) {
    std::string text = path + ":" + std::to_string(line.number) + ": skipped: ";
    text += explain(line.fault);
    if (!line.begins.empty()) text += ": " + printable(line.begins);
    complain(text);
  }

  void complain(std::string_view text) {
    if (options_.complain) options_.complain(text);
  }

  const RuleSet& rules_;
  const ReplayOptions& options_;
  const bool counts_responses_ = counts_responses(rules_);
  MemoryStore store_;
  Limiter limiter_{store_};
  rules::RequestNames names_{rules_, options_.overrides};
  rules::RememberedRequests requests_{limiter_, rules_, {.overrides = options_.overrides}};
  RuleDecider decider_{limiter_, {.overrides = options_.overrides}};
  LogAttributes attributes_;
  std::vector<LimitCost> known_costs_;
  ReplayReport report_;
  Instant clock_ = kFirstInstant;
  Instant first_ = kLastInstant;
  std::uint64_t log_lines_ = 0;
  std::uint64_t log_parsed_ = 0;
};

}  // namespace

bool ReplayReport::approximate() const noexcept {
  const auto overflowed = [](const LimitTally& limit) { return limit.keys.overflowed(); };
  return evictions > 0 ||
         std::any_of(tally.rules.begin(), tally.rules.end(), [&](const auto& rule) {
           return std::any_of(rule.limits.begin(), rule.limits.end(), overflowed);
         });
}

ReplayReport replay(const RuleSet& rules, const ReplayOptions& options) {
  return Replay(rules, options).run();
}

}  // namespace sluice::replay
