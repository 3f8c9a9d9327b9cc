#include "server/rules/pushed_rules.h"

#include <string_view>
#include <utility>

#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds kLongestStart{5'000};

constexpr std::string_view kSource = "redis:";

// Adds the source to the names.
std::vector<RulesText> named(std::vector<RulesText> texts) {
  for (RulesText& text : texts) text.name.insert(0, kSource);
  return texts;
}

std::vector<RulesText> without_source(std::vector<RulesText> texts) {
  for (RulesText& text : texts) text.name.erase(0, kSource.size());
  return texts;
}

std::string lines_of(const RulesManager::Errors& errors) {
  std::string out;
  for (const RuleError& error : errors) {
    out.append(out.empty() ? "" : "\n").append(error.to_string());
  }
  return out;
}

}  // namespace

Expected<std::unique_ptr<PushedRules>> PushedRules::open(RedisRulesSource source,
                                                         const RuleTerms& terms) {
  auto found = RedisRules::wait_for(source, kLongestStart);
  if (!found) return Unexpected{found.error()};
  auto manager = RulesManager::open_source(named(found->texts), SystemClock::instance(), terms);
  if (!manager) return Unexpected{lines_of(manager.error())};
  return std::unique_ptr<PushedRules>(
      new PushedRules(std::move(source), std::move(*found), std::move(*manager)));
}

void PushedRules::follow(boost::asio::io_context& loop, RulesManager& manager, Log& log,
                         std::function<void()> changed) {
  manager_ = &manager;
  log_ = &log;
  changed_ = std::move(changed);
  rules_ = std::make_unique<RedisRules>(loop, source_, latest_.id, *this);
}

Expected<PushedRules::Outcome> PushedRules::push(const std::vector<RulesText>& before,
                                                 std::vector<RulesText> texts, std::string by) {
  const bool are_from_redis = !before.empty() && before.front().name.starts_with(kSource);
  if (rules_ == nullptr || !source_.target->options.scripting || !are_from_redis) {
    return Outcome::kNotInRedis;
  }
  if (before != named(latest_.texts)) return Outcome::kOthersPushed;
  auto rules = publish(latest_.version + 1, pushed_now(), without_source(std::move(texts)));
  if (!rules) return Unexpected{rules.error()};
  rules->by = std::move(by);
  const auto pushed = rules_->push(*rules, latest_.id);
  if (!pushed) return Unexpected{pushed.error()};
  if (!*pushed) return Outcome::kOthersPushed;
  if (latest_.version < rules->version) on_rules(std::move(*rules));
  return Outcome::kPushed;
}

void PushedRules::on_rules(PublishedRules rules) {
  const std::uint64_t pushed = rules.version;
  latest_ = std::move(rules);
  const auto changed = manager_->follow(named(latest_.texts));
  if (!changed) {
    for (const RuleError& error : changed.error()) {
      log_->error("the active rules are unchanged",
                  {{"why", error.to_string()}, {"pushed", pushed}});
    }
    return;
  }
  log_->info(
      *changed ? "new rules are active" : "the rules did not change",
      {{"version", manager_->version()}, {"rules", manager_->status().rules}, {"pushed", pushed}});
  if (*changed) changed_();
}

void PushedRules::on_trouble(std::string_view why) {
  if (why.empty()) return log_->info("the rules in Redis can be read again");
  log_->warning("the rules in Redis cannot be read; the active rules are unchanged",
                {{"why", why}});
}

}  // namespace sluice::server
