// Calls of a language model: requests and tokens per minute as one decision. Each call takes an
// estimate of its tokens, and settles to the true number when it ends.
//
// Usage: example_llm_tokens FILE.csv, with the columns TIMESTAMP, ContextTokens, GeneratedTokens.
#include <sluice/rule_decider.h>
#include <sluice/sluice.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <queue>
#include <string>
#include <vector>

// [start file]
constexpr const char* kRules = R"(
version: 1
rules:
  - name: models
    limits:
      - { name: requests, key: "{team}", algorithm: gcra, limit: 600, per: 1m, burst: 59, cost: 1 }
      - { name: tokens, key: "{team}", algorithm: token_bucket, limit: 500000, per: 1m,
          burst: 50000, cost: request }
)";
// [end file]
constexpr double kTokensPerMinute = 500'000;
// The longest answer that the calls ask for (`max_tokens`), an answer of usual length, and how long
// a token takes.
constexpr std::uint64_t kMaxTokens = 1000;
constexpr std::uint64_t kUsualTokens = 200;
constexpr sluice::Duration kTokenTime = std::chrono::milliseconds{20};

struct Call {
  sluice::Instant at;
  std::uint64_t context = 0;
  std::uint64_t generated = 0;

  std::uint64_t actual() const { return context + generated; }
  sluice::Instant end() const { return at + kTokenTime * generated; }
};

class Models {
 public:
  Models(const sluice::RuleSet& rules, sluice::Limiter& limiter)
      : rules_(rules), decider_(limiter) {}

  // Takes one request and the estimated tokens, or nothing.
  bool begin(const sluice::Attributes& call, std::uint64_t estimate, sluice::Instant now) {
    return decider_.decide(rules_, call, estimate, now).decision.allowed();
  }
  // Gives back the tokens that the call did not use, or charges those beyond the estimate. The call
  // still counts as one request.
  void end(const sluice::Attributes& call, std::uint64_t estimate, std::uint64_t actual,
           sluice::Instant now) {
    decider_.settle(rules_, call, estimate, actual, now);
  }

 private:
  sluice::RuleSet rules_;
  sluice::RuleDecider decider_;
};

struct Totals {
  std::size_t admitted = 0;
  std::uint64_t taken = 0;  // when the calls began
  std::uint64_t used = 0;
};

// What a call takes when it begins: its context, and this many tokens for the answer.
struct Policy {
  std::optional<std::uint64_t> answer = {};  // absent: the true number, as if it were known before
  bool settles = false;

  std::uint64_t estimate(const Call& call) const {
    return call.context + answer.value_or(call.generated);
  }
};

// Decides the calls at their own times.
Totals run(const sluice::RuleSet& rules, const std::vector<Call>& calls, const Policy& policy) {
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  Models models(rules, limiter);
  const sluice::Attributes team{{"team", "search"}};
  const auto ends_later = [](const Call& a, const Call& b) { return a.end() > b.end(); };
  std::priority_queue<Call, std::vector<Call>, decltype(ends_later)> running(ends_later);
  Totals totals;
  for (const Call& call : calls) {
    for (; !running.empty() && running.top().end() <= call.at; running.pop()) {
      const Call& ended = running.top();
      if (policy.settles) models.end(team, policy.estimate(ended), ended.actual(), ended.end());
    }
    if (!models.begin(team, policy.estimate(call), call.at)) continue;
    ++totals.admitted;
    totals.taken += policy.estimate(call);
    totals.used += call.actual();
    running.push(call);
  }
  return totals;
}

// Reads "2023-11-16 18:15:46.6805900,374,44". Returns false for another line, such as the header.
bool read(const std::string& line, Call& call) {
  int year = 0;
  unsigned month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  unsigned long context = 0, generated = 0;
  if (std::sscanf(line.c_str(), "%4d-%2u-%2u %2u:%2u:%lf,%lu,%lu", &year, &month, &day, &hour,
                  &minute, &second, &context, &generated) != 8 ||
      context > 1'000'000 || generated > kMaxTokens) {
    return false;
  }
  using std::chrono::duration_cast;
  const std::chrono::sys_days date = std::chrono::year(year) / int(month) / int(day);
  const auto since_midnight = std::chrono::hours(hour) + std::chrono::minutes(minute) +
                              std::chrono::duration<double>(second);
  call = {
      sluice::Instant(date.time_since_epoch() + duration_cast<sluice::Duration>(since_midnight)),
      context, generated};
  return true;
}

void print(const char* name, const Totals& totals, const std::vector<Call>& calls) {
  const std::chrono::duration<double, std::ratio<60>> minutes = calls.back().at - calls.front().at;
  std::printf("%s: %zu of %zu calls admitted, %.0f tokens used per minute, %.0f %% of the limit\n",
              name, totals.admitted, calls.size(), double(totals.used) / minutes.count(),
              100 * double(totals.used) / minutes.count() / kTokensPerMinute);
}

int main(int count, char** arguments) {
  std::ifstream file(count == 2 ? arguments[1] : "");
  std::vector<Call> calls;
  Call call;
  for (std::string line; std::getline(file, line);) {
    if (read(line, call)) calls.push_back(call);
  }
  const auto rules = sluice::RuleSet::parse(kRules, "rules.yaml");
  if (calls.size() < 2 || !rules) {
    std::puts("expected a CSV file: TIMESTAMP,ContextTokens,GeneratedTokens");
    return 1;
  }
  const Totals estimated = run(*rules, calls, {kMaxTokens});
  const Totals settled = run(*rules, calls, {kMaxTokens, true});
  print("estimates only", estimated, calls);
  print("settled", settled, calls);
  print("usual estimates, settled", run(*rules, calls, {kUsualTokens, true}), calls);
  print("known before", run(*rules, calls, {}), calls);
  std::printf("settling gave back %.0f %% of the tokens and admitted %zu more calls\n",
              100 * double(settled.taken - settled.used) / double(settled.taken),
              settled.admitted - estimated.admitted);
}
