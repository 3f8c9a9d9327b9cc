// Limits from a rules file.
#include <sluice/rule_decider.h>
#include <sluice/rule_guard.h>
#include <sluice/sluice.h>

#include <cstdio>
#include <string>

constexpr const char* kRules = R"(
version: 1
domain: shop
rules:
  - name: send-code
    match: { method: POST, path: /send/code }
    limits:
      - { name: address, key: "{email.address}", algorithm: sliding_window_log, limit: 1, per: 60s }
)";

// [start decide]
bool decide(const sluice::RuleSet& rules, sluice::Limiter& limiter, const char* address) {
  sluice::RuleDecider decider(limiter);  // one per thread; it reuses its buffers
  const sluice::Attributes attributes{
      {"method", "POST"}, {"path", "/send/code"}, {"email.address", address}};
  const sluice::RuleAnswer& answer = decider.decide(rules, attributes);
  for (const sluice::LimitAnswer& limit : answer.limits) {
    std::printf("%s for %.*s: %lu left\n", limit.limit->name.c_str(), int(limit.label.size()),
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

// [start overrides]
// What single keys have instead of the numbers of their rules, from a file.
bool load(sluice::Overrides& overrides, const std::string& path) {
  const auto read = sluice::read_overrides(path, overrides);
  if (!read) std::puts(read.error().c_str());
  return read && *read;
}

void guard(const sluice::LiveRules& rules, sluice::Limiter& limiter,
           const sluice::Overrides& overrides, const Request& request) {
  const auto send = sluice::guarded(rules, limiter, "send-code", {.overrides = &overrides})
                        .with("email", &Request::email, sluice::field("address", &Email::address))
                        .returning(send_code);
  for (int i = 0; i < 3; ++i) std::puts(send(request) ? "done" : "denied");
}
// [end overrides]

// Gives an address two codes per minute, and keeps that in a file.
bool give_more(const sluice::RuleSet& rules, const char* address, const std::string& path) {
  const sluice::Override two{.limit = 2};
  const auto key = sluice::name_override(rules, "send-code", "address",
                                         sluice::Attributes{{"email.address", address}}, two);
  if (!key) std::puts(key.error().c_str());
  sluice::Overrides overrides;
  return key && overrides.set(*key, two) && sluice::write_overrides(path, overrides);
}

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
  sluice::Overrides overrides;
  const std::string path = "example-overrides.txt";
  if (!give_more(*rules, "carol@example.org", path) || !load(overrides, path)) return 1;
  std::remove(path.c_str());
  guard(live, limiter, overrides, {"carol", {"carol@example.org"}});
}
