// Limits from a rules file.
#include <sluice/rule_decider.h>
#include <sluice/rule_guard.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <string>

// [start file]
constexpr const char* kRules = R"(
version: 1
domain: shop
rules:
  - name: send-code
    match: { method: POST, path: /send/code }
    limits:
      - { key: "{email.address}", algorithm: sliding_window_log, limit: 1, per: 60s }
)";
// [end file]

// [start decide]
bool decide(const sluice::RuleSet& rules, sluice::Limiter& limiter, const char* address) {
  sluice::RuleDecider decider(limiter);  // one per thread; it reuses its buffers
  const sluice::Attributes attributes{
      {"method", "POST"}, {"path", "/send/code"}, {"email.address", address}};
  const sluice::RuleAnswer& answer = decider.decide(rules, attributes);
  for (const sluice::LimitAnswer& limit : answer.limits) {
    std::printf("%s for %.*s: %u left\n", limit.limit->name.c_str(), int(limit.label.size()),
                limit.label.data(), limit.decision.remaining);
  }
  return answer.decision.allowed();
}
// [end decide]

// [start guard]
struct Email {
  std::string address;
};
struct Request {
  std::string user;
  Email email;
};
void send_code(const Request& request) { std::printf("sent to %s\n", request.user.c_str()); }

void guard(const sluice::LiveRules& rules, sluice::Limiter& limiter, const Request& request) {
  const auto send = sluice::guarded(rules, limiter, "send-code")
                        .with("email", &Request::email, sluice::field("address", &Email::address))
                        .returning(send_code);
  std::puts(send(request) ? "done" : "denied");
}
// [end guard]

// [start reload]
void reload(sluice::LiveRules& rules, const sluice::RuleSet& next) {
  for (const std::string& problem : rules.replace(next)) std::puts(problem.c_str());
}
// [end reload]

int main() {
  const auto rules = sluice::RuleSet::parse(kRules, "rules.yaml");
  if (!rules) {
    for (const auto& error : rules.error()) std::puts(error.to_string().c_str());
    return 1;
  }
  sluice::MemoryStore store;
  sluice::Limiter limiter(store);
  std::puts(decide(*rules, limiter, "alice@example.org") ? "allowed" : "denied");
  sluice::LiveRules live(*rules);
  guard(live, limiter, {"alice", {"alice@example.org"}});
  guard(live, limiter, {"bob", {"bob@example.org"}});
  reload(live, *rules);
}
