// `sluice try`: decides requests that are given on the command line by a rules file, and says why:
// which rule matches and which do not, the keys and numbers of its limits, and what a client gets.

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/civil_time.h"
#include "cli/command.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/rule_set.h"
#include "server/decide/rejection.h"
#include "server/protocol/http/request_target.h"
#include "sluice/memory_store.h"
#include "sluice/rule_decider.h"

namespace sluice::cli {
namespace {

constexpr std::uint64_t kMostRequests = 100'000;

constexpr const char* kTryHelp =
    R"(Decide requests by a rules file, in memory and without a server, and say why: the rule that
matches and why the ones before it do not, each limit with its key and its numbers, the answer of
each request, and what a gateway passes on to the client: the status, the fields, and the body if
the rule has one.

REQUEST is what a client sends: a method, a path with its query, and attributes as NAME=VALUE, in one
text or in several. A path gets `path`, normalized as by /v1/auth, and `query.NAME`.

Exit status: 0 the requests were decided, whatever the decisions are; 1 the rules are wrong; 2 wrong
usage.

Examples:
  sluice try rules.yaml 'POST /login ip=192.0.2.1' -n 7
  sluice try rules.yaml GET '/search?q=a b' ip=192.0.2.1 'header.user-agent=curl 8' --every 10s -n 20
  sluice try rules.yaml 'GET /report ip=192.0.2.1' --at 2026-03-31T23:59:00Z --every 1m -n 3)";

struct TryFlags {
  std::string rules;
  std::vector<std::string> request;
  std::uint64_t count = 1;
  std::uint64_t cost = 1;
  std::string at;
  std::string every = "0s";
};

struct GivenTime final : Clock {
  Instant now() const noexcept override { return at; }
  Instant at{};
};

// What REQUEST says.
class TriedRequest final : public AttributeSource {
 public:
  explicit TriedRequest(const std::vector<std::string>& words) {
    if (words.size() > 1) {
      for (const std::string& word : words) read(word);
      return;
    }
    std::string_view rest = words.front();
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (end > 0) read(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  std::optional<std::string_view> find(std::string_view name) const override {
    const auto given = values_.find(std::string(name));
    if (given != values_.end()) return given->second;
    constexpr std::string_view kQuery = "query.";
    if (!name.starts_with(kQuery)) return std::nullopt;
    return server::find_query(target_.query, name.substr(kQuery.size()), buffers_);
  }
  const std::map<std::string, std::string>& values() const noexcept { return values_; }

 private:
  void read(const std::string& word) {
    if (word.empty()) return;
    const bool is_method = std::all_of(
        word.begin(), word.end(), [](unsigned char c) { return std::isupper(c) != 0 || c == '-'; });
    if (is_method) return add("method", word);
    if (word.front() == '/' || word.starts_with("http://") || word.starts_with("https://")) {
      written_ = word;
      target_ = server::split_target(written_);
      std::string buffer;
      return add("path", std::string(server::normalized_path(target_.path, buffer)));
    }
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == word.npos) {
      throw Failed(rules::in_quotes(word) +
                       " is no part of a request; expected a method such as POST, a path such as "
                       "/login, or NAME=VALUE such as ip=192.0.2.1",
                   kUsage);
    }
    const std::string name = word.substr(0, equals);
    if (const auto wrong = rules::find_name_error(name)) throw Failed(*wrong, kUsage);
    add(rules::normalized(name), word.substr(equals + 1));
  }

  void add(const std::string& name, std::string value) {
    if (!values_.emplace(name, std::move(value)).second) {
      throw Failed("the request has " + name + " twice; expected it once", kUsage);
    }
  }

  std::map<std::string, std::string> values_;
  std::string written_;
  server::RequestTarget target_;
  mutable server::Buffers buffers_;
};

std::string in_seconds(Duration time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  std::array<char, 32> text{};
  const bool is_whole = ms % 1000 == 0;
  std::snprintf(text.data(), text.size(), is_whole ? "%.0f s" : "%.3f s",
                static_cast<double>(ms) / 1000);
  return text.data();
}

// "10 per 1m, at most 15 at once (token_bucket)"
std::string numbers_of(const Limit& limit) {
  std::string out = std::to_string(limit.limit());
  out += holds_permits(limit.algorithm()) ? " at once, lease " : " per ";
  out += core::format_period(limit);
  if (limit.capacity() != limit.limit()) {
    out += ", at most " + std::to_string(limit.capacity()) + " at once";
  }
  return out + " (" + std::string(to_string(limit.algorithm())) + ")";
}

// Prints which rules match, and why the others do not. Warns about attributes that no rule reads,
// but not about those that every request has.
void explain_rules(const RuleSet& rules, const TriedRequest& request) {
  const RuleSet::Impl& set = rules::Access::impl(rules);
  const auto& known = set.attributes.names();
  for (const auto& [name, value] : request.values()) {
    if (name == "method" || name == "path") continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::cerr << "sluice: no rule reads the attribute " << rules::in_quotes(name)
              << rules::did_you_mean(name, {known.begin(), known.end()}) << '\n';
  }
  rules::AttributeValues values;
  values.begin(set.attributes, request);
  for (std::size_t i = 0; i < set.rules.size(); ++i) {
    const Rule& rule = set.rules[i];
    std::cout << "rule " << rule.name << ": ";
    const rules::Condition* const wrong = set.compiled[i].mismatch(values);
    if (wrong != nullptr) {
      const auto& value = values.get(wrong->attribute);
      std::cout << "does not match, " << known[wrong->attribute] << " is "
                << (value ? rules::in_quotes(*value) : "absent") << " and must "
                << (wrong->negated ? "not " : "") << "be " << wrong->written << '\n';
      continue;
    }
    std::cout << "matches" << (rule.mode == RuleMode::kShadow ? " (mode: shadow)" : "");
    if (rule.action != RuleAction::kLimit) {
      std::cout << ", action: " << (rule.action == RuleAction::kAllow ? "allow" : "deny");
    }
    const bool is_last = !rules::lets_others_match(rule);
    if (is_last && i + 1 < set.rules.size()) std::cout << "; rules after it are not tried";
    std::cout << '\n';
    if (is_last) return;
  }
}

// "RULE/LIMIT", which is the name of a limit without one.
std::string full_name(const Rule& rule, const RuleLimit& limit) {
  const std::string of_rule = rule.name + "/";
  return limit.name.starts_with(of_rule) ? limit.name : of_rule + limit.name;
}

void explain_limits(const RuleAnswer& answer) {
  if (!answer.mistake.empty()) {
    std::cout << "the request is invalid: " << answer.mistake << '\n';
  } else if (answer.matched.empty()) {
    std::cout << "no rule matches, so the request is allowed\n";
  }
  for (const LimitAnswer& limit : answer.limits) {
    std::cout << "limit " << full_name(*limit.rule, *limit.limit) << ": "
              << numbers_of(limit.numbers);
    if (!limit.label.empty()) std::cout << ", key " << rules::in_quotes(limit.label);
    if (limit.cost != 1) std::cout << ", cost " << limit.cost;
    std::cout << '\n';
  }
  for (const RuleAnswer::Skipped& one : answer.skipped) {
    std::cout << "limit " << full_name(*one.rule, *one.limit)
              << ": skipped, because the request lacks an attribute of its key or its cost\n";
  }
}

void print_tried(std::uint64_t number, Duration after, const RuleAnswer& answer) {
  const Decision& decision = answer.decision;
  std::cout << number << "  +" << in_seconds(after) << "  "
            << (decision.allowed() ? "allowed" : "denied") << "  " << to_string(decision.reason);
  if (decision.retry_after) std::cout << ", again after " << in_seconds(*decision.retry_after);
  if (decision.delay && *decision.delay > Duration{0}) {
    std::cout << ", delayed by " << in_seconds(*decision.delay);
  }
  for (const LimitAnswer& limit : answer.limits) {
    if (!has_numbers(limit.decision)) continue;
    std::cout << "; " << limit.limit->name << ' ' << limit.decision.remaining << " of "
              << limit.decision.capacity << " left";
  }
  std::cout << '\n';
}

// Prints what /v1/auth answers.
void print_response(const RuleAnswer& answer, const Clock& clock) {
  RuleHttpFields fields;
  server::http::Response response;
  server::put_gateway_answer(answer, fields, response, clock);
  std::erase(response.fields, '\r');
  std::cout << "\nHTTP status " << response.status << '\n' << response.fields;
  if (response.body.empty()) return;
  std::cout << "Content-Type: " << response.content_type << "\n\n" << response.body << '\n';
}

int try_requests(const TryFlags& arguments) {
  const TriedRequest request(arguments.request);
  GivenTime clock;
  clock.at = SystemClock::instance().now();
  if (!arguments.at.empty()) {
    const auto at = base::parse_rfc3339(arguments.at);
    if (!at) {
      throw Failed("--at " + rules::in_quotes(arguments.at) +
                       " is no time; expected one such as 2026-03-31T23:59:00Z",
                   kUsage);
    }
    clock.at = *at;
  }
  const auto every = core::parse_period(arguments.every);
  if (!every) throw Failed("--every: " + every.error(), kUsage);
  if (*every > kMaxPeriod) {
    throw Failed("--every " + arguments.every + " is too long; expected at most 366d", kUsage);
  }
  const auto rules = RuleSet::load(arguments.rules);
  for (const RuleError& error :
       rules ? std::vector<RuleError>(rules->warnings().begin(), rules->warnings().end())
             : rules.error()) {
    std::cerr << error.to_string() << '\n';
  }
  if (!rules) return kFailed;
  explain_rules(*rules, request);
  MemoryStore store({}, clock);
  Limiter limiter(store);
  RuleDecider decider(limiter);
  const Instant start = clock.at;
  for (std::uint64_t i = 1; i <= arguments.count; ++i, clock.at += *every) {
    const RuleAnswer& answer = decider.decide(*rules, request, {arguments.cost}, clock.at);
    if (i == 1) explain_limits(answer);
    if (i == 1) std::cout << '\n';
    print_tried(i, clock.at - start, answer);
    if (i == arguments.count) print_response(answer, clock);
  }
  return 0;
}

}  // namespace

void add_try(Command app, int& status) {
  const Command command = app.add_subcommand("try", "Decide requests by rules, and say why");
  command.footer(kTryHelp);
  const auto arguments = std::make_shared<TryFlags>();
  command.add_option("RULES", arguments->rules, "The rules file").required();
  command.add_option("REQUEST", arguments->request, "The request").required();
  command.add_option("-n,--count", arguments->count, "How many requests")
      .range(std::uint64_t{1}, kMostRequests)
      .show_default();
  command.add_option("--cost", arguments->cost, "The units of each request").show_default();
  command.add_option("--at", arguments->at, "The time of the first request [now]")
      .type_name("TIME");
  command.add_option("--every", arguments->every, "The time between requests")
      .type_name("PERIOD")
      .show_default();
  command.run(status, "try", [arguments] { return try_requests(*arguments); });
}

}  // namespace sluice::cli
