// `sluice try`: decides requests that are given on the command line, by a rules file or by a
// running server, and says why.

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/civil_time.h"
#include "cli/admin_client.h"
#include "cli/command.h"
#include "cli/top_command.h"
#include "core/period.h"
#include "rules/diagnostics.h"
#include "server/decide/trial.h"
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

With --server, the administration of a running server (--admin) decides by its rules and counters, and
there is no RULES. It only looks: the request counts nowhere, unless --consume is given.

REQUEST is what a client sends: a method, a path with its query, and attributes as NAME=VALUE, in one
text or in several. A path gets `path`, normalized as by /v1/auth, and `query.NAME`.

Exit status: 0 the requests were decided, whatever the decisions are; 1 the rules are wrong, or no
server answers; 2 wrong usage.

Examples:
  sluice try rules.yaml 'POST /login ip=192.0.2.1' -n 7
  sluice try rules.yaml GET '/search?q=a b' ip=192.0.2.1 'header.user-agent=curl 8' --every 10s -n 20
  sluice try rules.yaml 'GET /report ip=192.0.2.1' --at 2026-03-31T23:59:00Z --every 1m -n 3
  sluice try --server 'POST /login ip=192.0.2.1')";

struct TryFlags {
  std::string rules;
  std::vector<std::string> request;
  std::uint64_t count = 1;
  std::uint64_t cost = 1;
  std::string at;
  std::string every = "0s";
  bool server = false;
  bool consume = false;
  std::shared_ptr<AdminFlags> admin;
};

struct GivenTime final : Clock {
  Instant now() const noexcept override { return at; }
  Instant at{};
};

// Asks a server, which explains its decision in text.
int ask_server(const TryFlags& arguments) {
  std::vector<std::string> words = arguments.request;
  if (!arguments.rules.empty()) words.insert(words.begin(), arguments.rules);
  for (const std::string& word : words) {
    if (!is_address(word)) continue;
    throw wrong_usage(
        "--server takes no address; expected that of the administration after --admin, "
        "such as --admin 127.0.0.1:6070, instead of " +
        rules::in_quotes(word));
  }
  const auto request = server::WrittenRequest::read(words);
  if (!request) throw wrong_usage(request.error());
  if (!arguments.at.empty() || arguments.every != "0s") {
    throw wrong_usage("--at and --every are for rules in memory; a server has its own time");
  }
  if (arguments.count > 1 && !arguments.consume) {
    throw wrong_usage("-n needs --consume: without it each request is answered like the first");
  }
  if (arguments.count > server::kMostTried) {
    throw wrong_usage("-n " + std::to_string(arguments.count) +
                      " is too many for a server; expected at most " +
                      std::to_string(server::kMostTried));
  }
  std::string body;
  for (const std::string& word : words) {
    if (word.find('\n') != word.npos) throw wrong_usage("a word has two lines; expected one");
    body.append(body.empty() ? "" : "\n").append(word);
  }
  AdminClient client(*arguments.admin);
  const AdminClient::Answer answer =
      client.ask("POST",
                 "/v1/try?cost=" + std::to_string(arguments.cost) +
                     (arguments.consume ? "&consume=" + std::to_string(arguments.count) : ""),
                 std::move(body));
  if (answer.status != 200) throw Failed(client.refusal(answer));
  print_full_store(client, std::cout);
  std::cout << answer.body;
  return 0;
}

int try_requests(const TryFlags& arguments) {
  if (arguments.server) return ask_server(arguments);
  if (arguments.rules.empty() || arguments.request.empty()) {
    throw wrong_usage(
        "expected RULES and REQUEST, such as rules.yaml 'POST /login ip=192.0.2.1', or "
        "--server and REQUEST");
  }
  if (arguments.consume) throw wrong_usage("--consume is only for --server");
  const auto request = server::WrittenRequest::read(arguments.request);
  if (!request) throw wrong_usage(request.error());
  GivenTime clock;
  clock.at = SystemClock::instance().now();
  if (!arguments.at.empty()) {
    const auto at = base::parse_rfc3339(arguments.at);
    if (!at) {
      throw wrong_usage("--at " + rules::in_quotes(arguments.at) +
                        " is no time; expected one such as 2026-03-31T23:59:00Z");
    }
    clock.at = *at;
  }
  const auto every = core::parse_period(arguments.every);
  if (!every) throw wrong_usage("--every: " + every.error());
  if (*every > kMaxPeriod) {
    throw wrong_usage("--every " + arguments.every + " is too long; expected at most 366d");
  }
  const auto rules = RuleSet::load(arguments.rules);
  print_errors(rules ? rules->warnings() : rules.error());
  if (!rules) return kFailed;
  const std::string unread = server::explain_unread(*rules, *request);
  for (std::size_t at = 0; at < unread.size(); at = unread.find('\n', at) + 1) {
    std::cerr << "sluice: " << unread.substr(at, unread.find('\n', at) + 1 - at);
  }
  std::cout << server::explain_rules(*rules, *request);
  MemoryStore store({}, clock);
  Limiter limiter(store);
  RuleDecider decider(limiter);
  const Instant start = clock.at;
  for (std::uint64_t i = 1; i <= arguments.count; ++i, clock.at += *every) {
    const RuleAnswer& answer = decider.decide(*rules, *request, {arguments.cost}, clock.at);
    if (i == 1) std::cout << server::explain_limits(*rules, *request, answer) << '\n';
    std::cout << i << "  +" << server::in_seconds(clock.at - start) << "  "
              << server::explain_decision(answer);
    if (i == arguments.count) std::cout << '\n' << server::explain_response(answer, clock);
  }
  return 0;
}

}  // namespace

void add_try(Command app) {
  const Command command =
      app.add_subcommand("try", "Decide requests by rules, and say why", kTryHelp);
  const auto arguments = std::make_shared<TryFlags>();
  command.add_option("RULES", arguments->rules, "The rules file; not with --server");
  command.add_option("REQUEST", arguments->request, "The request");
  command
      .add_option("-n,--count", arguments->count,
                  "How many requests; with --server at most " + std::to_string(server::kMostTried))
      .range(std::uint64_t{1}, kMostRequests)
      .show_default();
  command.add_option("--cost", arguments->cost, "The units of each request")
      .range(std::uint64_t{0}, kMaxAmount)
      .show_default();
  command.add_option("--at", arguments->at, "The time of the first request [now]", "TIME");
  command.add_option("--every", arguments->every, "The time between requests", "PERIOD")
      .show_default();
  command.add_flag("--server", arguments->server, "Ask a running server instead of reading RULES");
  command.add_flag("--consume", arguments->consume,
                   "With --server: really take the units of the requests");
  arguments->admin = add_admin_flags(command);
  command.run("try", [arguments] { return try_requests(*arguments); });
}

}  // namespace sluice::cli
