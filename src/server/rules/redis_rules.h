#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/logging/log.h"
#include "server/rules/published_rules.h"
#include "server/rules/rules_manager.h"
#include "sluice/expected.h"
#include "stores/redis/client/client.h"

namespace sluice::server {

// Returns a copy of the target with a deadline of at least 5 s: no request waits for rules or
// overrides, and they may be long.
std::shared_ptr<const redis::Target> patient(const redis::Target& target);

// The place where rules are published.
struct RedisRulesSource {
  std::shared_ptr<const redis::Target> target;
  std::string key;
  std::chrono::milliseconds every{250};      // between two polls
  std::chrono::milliseconds remind{60'000};  // between two reports of one problem
  std::string cache = {};                    // the file that keeps the rules; empty: none
};

// Why rules could not be pushed. A plain value.
struct PushFailure {
  std::string why;
  bool may_be_done = false;  // Redis may have the rules nevertheless
};

// Follows the rules published in Redis: polls their id every 250 ms, and reads the rules when it
// has changed. It has its own connection, and may wait longer for it than requests do.
//
// Thread-safety: the loop's thread only. Ownership: borrows the loop. Cost: a poll is
// one small command.
class RedisRules {
 public:
  // Called with other rules, which are not yet validated.
  using OnRules = std::function<void(PublishedRules rules)>;
  // Called when rules cannot be read, at first and at intervals, and with an empty text when they
  // can be again. `is_lost`: Redis answers, but does not have rules that can be read. `is_new`: the
  // problem was not reported before.
  using OnTrouble = std::function<void(std::string_view why, bool is_lost, bool is_new)>;

  // `known`: the id of the active rules. `lost`: no rules could be read before, which was reported.
  RedisRules(boost::asio::io_context& loop, RedisRulesSource source, std::string known,
             OnRules on_rules, OnTrouble on_trouble, bool lost = false);
  ~RedisRules();
  RedisRules(const RedisRules&) = delete;
  RedisRules& operator=(const RedisRules&) = delete;

  // Replaces the rules with the id `expected`, and waits for the answer. Call it on a fiber of the
  // loop. Returns false if other rules are there.
  Expected<bool, PushFailure> push(const PublishedRules& rules, std::string_view expected);

  // Returns the rules that are there now, or that are pushed before `at_most` has passed. Errors:
  // why there are none. Calls `waiting` with each problem meanwhile. Runs its own event loop.
  static Expected<PublishedRules> wait_for(
      const RedisRulesSource& source, std::chrono::milliseconds at_most,
      const std::function<void(std::string_view why)>& waiting = [](std::string_view) {});

 private:
  enum class State { kFine, kUnreachable, kNone, kWrong };

  void look();
  void looked(const redis::Answer& answer);
  void see_id(const redis::Reply& reply);
  void see_rules(const redis::Reply& reply);
  void trouble(State state, std::string_view why);
  void fine();
  void wait();

  const RedisRulesSource source_;
  const OnRules on_rules_;
  const OnTrouble on_trouble_;
  std::string known_;
  bool reading_ = false;
  bool ended_ = false;
  State state_;
  std::chrono::steady_clock::time_point remind_at_{};
  boost::asio::steady_timer timer_;
  // Polls the id, or reads the rules.
  redis::AskCommand look_{[this](const redis::Answer& answer) { looked(answer); }};
  std::unique_ptr<redis::Client> client_;
};

// The message if there are no rules: "there are no rules at KEY; push some: ..."
std::string no_rules_at(std::string_view key);

// The rules of a server that reads them from Redis: the rules at its start, and then every push.
// Invalid pushes and an unreachable Redis are logged and leave the active rules unchanged. A file
// keeps the active rules, if there is one and it can be written; else that is tried again after
// `remind`. A server that cannot read rules at its start takes them.
//
// Thread-safety: the loop's thread only, once follow() was called. Ownership: owns the manager;
// borrows the loop and the log.
class PushedRules final {
 public:
  // Waits at most 5 s for rules, or 1 s if the file has some, and logs what it waits for. Errors:
  // lines that say why there are none, or what is wrong with them.
  static Expected<std::unique_ptr<PushedRules>> open(RedisRulesSource source, Log& log,
                                                     const RuleTerms& terms = {});

  // Returns the manager of the active rules. Call it once.
  std::unique_ptr<RulesManager> take_manager() { return std::move(opened_); }
  // Follows pushes from now on. Calls `changed` when other rules are active.
  void follow(boost::asio::io_context& loop, RulesManager& manager, Log& log,
              std::function<void()> changed);

  enum class Outcome : std::uint8_t {
    kPushed,
    kOthersPushed,   // at the same time
    kOthersInRedis,  // those in Redis are not `before`: this server refused them, for example
    // Nothing was pushed: `before` is not from Redis, there are no scripts, or `texts` are there.
    kNotInRedis,
  };
  struct Pushed {
    Outcome outcome = Outcome::kNotInRedis;
    std::uint64_t version = 0;  // in Redis, if it was pushed
  };
  // Pushes `texts` instead of `before`, the active rules, and activates them. `replaces`: also in
  // place of others that are in Redis. Call it on a fiber of the loop.
  Expected<Pushed, PushFailure> push(const std::vector<RulesText>& before,
                                     std::vector<RulesText> texts, std::string by, bool replaces);

 private:
  PushedRules(RedisRulesSource source, PublishedRules rules, std::unique_ptr<RulesManager> manager)
      : source_(std::move(source)), latest_(std::move(rules)), opened_(std::move(manager)) {}

  void activate(PublishedRules rules);
  void keep_later();
  void report(std::string_view why, bool is_lost, bool is_new);

  const RedisRulesSource source_;
  PublishedRules latest_;                 // valid or not
  std::optional<PublishedRules> unkept_;  // that the file lacks
  std::optional<boost::asio::steady_timer> keep_timer_;
  std::unique_ptr<RulesManager> opened_;
  RulesManager* manager_ = nullptr;
  Log* log_ = nullptr;
  std::function<void()> changed_;
  std::unique_ptr<RedisRules> rules_;
};

}  // namespace sluice::server
