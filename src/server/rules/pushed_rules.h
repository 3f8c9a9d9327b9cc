#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/logging/log.h"
#include "server/rules/redis_rules.h"
#include "server/rules/rules_manager.h"

namespace boost::asio {
class io_context;
}

namespace sluice::server {

// The rules of a server that reads them from Redis: the rules at its start, and then every push.
// Invalid pushes and an unreachable Redis are logged and leave the active rules unchanged.
//
// Thread-safety: the loop's thread only, once follow() was called. Ownership: owns the manager;
// borrows the loop and the log.
class PushedRules final : public RedisRules::Owner {
 public:
  // Waits at most 5 s for rules. Errors: lines that say why there are none, or what is wrong with
  // them.
  static Expected<std::unique_ptr<PushedRules>> open(RedisRulesSource source,
                                                     const RuleTerms& terms = {});

  // Returns the manager of the active rules. Call it once.
  std::unique_ptr<RulesManager> take_manager() { return std::move(opened_); }
  // Follows pushes from now on. Calls `changed` when other rules are active.
  void follow(boost::asio::io_context& loop, RulesManager& manager, Log& log,
              std::function<void()> changed);

  enum class Outcome : std::uint8_t {
    kPushed,
    kOthersPushed,  // at the same time, or those in Redis are refused here
    kNotInRedis,    // nothing was pushed: `before` is not from Redis, or there are no scripts
  };
  // Pushes `texts` instead of `before`, the active rules, and activates them. Call it on a fiber of
  // the loop. Errors: why they are not known to be there.
  Expected<Outcome> push(const std::vector<RulesText>& before, std::vector<RulesText> texts,
                         std::string by);

 private:
  PushedRules(RedisRulesSource source, PublishedRules rules, std::unique_ptr<RulesManager> manager)
      : source_(std::move(source)), latest_(std::move(rules)), opened_(std::move(manager)) {}

  void on_rules(PublishedRules rules) override;
  void on_trouble(std::string_view why) override;

  const RedisRulesSource source_;
  PublishedRules latest_;  // valid or not
  std::unique_ptr<RulesManager> opened_;
  RulesManager* manager_ = nullptr;
  Log* log_ = nullptr;
  std::function<void()> changed_;
  std::unique_ptr<RedisRules> rules_;
};

}  // namespace sluice::server
