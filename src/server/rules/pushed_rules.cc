#include "server/rules/pushed_rules.h"

#include <utility>

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds kLongestStart{5'000};

// Adds the source to the names.
std::vector<RulesText> named(std::vector<RulesText> texts) {
  for (RulesText& text : texts) text.name.insert(0, "redis:");
  return texts;
}

std::string joined(const RulesManager::Errors& errors) {
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
  auto manager =
      RulesManager::open_source(named(std::move(found->texts)), SystemClock::instance(), terms);
  if (!manager) return Unexpected{joined(manager.error())};
  return std::unique_ptr<PushedRules>(
      new PushedRules(std::move(source), std::move(found->id), std::move(*manager)));
}

void PushedRules::follow(boost::asio::io_context& loop, RulesManager& manager, Log& log,
                         std::function<void()> changed) {
  manager_ = &manager;
  log_ = &log;
  changed_ = std::move(changed);
  rules_ = std::make_unique<RedisRules>(loop, source_, known_, *this);
}

void PushedRules::on_rules(PublishedRules rules) {
  const std::uint64_t pushed = rules.version;
  const auto changed = manager_->follow(named(std::move(rules.texts)));
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
