#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "server/rules/published_rules.h"
#include "sluice/expected.h"
#include "stores/redis/client/client.h"

namespace boost::asio {
class io_context;
}

namespace sluice::server {

// Returns a copy of the target with a deadline of at least 5 s: no request waits for rules or
// overrides, and they may be long.
std::shared_ptr<const redis::Target> patient(const redis::Target& target);

// The place where rules are published.
struct RedisRulesSource {
  std::shared_ptr<const redis::Target> target;
  std::string key;
  std::chrono::milliseconds every{250};  // between two polls
};

// Follows the rules published in Redis: polls their id every 250 ms, and reads the rules when it
// has changed. It has its own connection, and may wait longer for it than requests do.
//
// Thread-safety: the loop's thread only. Ownership: borrows the loop and the owner. Cost: a poll is
// one small command.
class RedisRules {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Called with other rules, which are not yet validated.
    virtual void on_rules(PublishedRules rules) = 0;
    // Called with the reason when rules cannot be read, once per problem, and with an empty text
    // when they can be read again.
    virtual void on_trouble(std::string_view why) = 0;
  };

  // `known`: the id of the active rules.
  RedisRules(boost::asio::io_context& loop, RedisRulesSource source, std::string known,
             Owner& owner);
  ~RedisRules();
  RedisRules(const RedisRules&) = delete;
  RedisRules& operator=(const RedisRules&) = delete;

  // Replaces the rules with the id `expected`, and waits for the answer. Call it on a fiber of the
  // loop. Returns false if other rules are there. Errors: why it is not known to have happened.
  Expected<bool> push(const PublishedRules& rules, std::string_view expected);

  // Returns the rules that are there now, or that are pushed before `at_most` has passed. Errors:
  // why there are none. Runs its own event loop.
  static Expected<PublishedRules> wait_for(const RedisRulesSource& source,
                                           std::chrono::milliseconds at_most);

 private:
  struct Timer;
  enum class State { kFine, kUnreachable, kNone, kWrong };
  // Polls the id, or reads the rules.
  class Look final : public redis::Command {
   public:
    explicit Look(RedisRules& rules) : rules_(rules) {}
    void done(const redis::Answer& answer) noexcept override;

   private:
    RedisRules& rules_;
  };

  void look();
  void looked(const redis::Answer& answer);
  void see_id(const redisReply& reply);
  void see_rules(const redisReply& reply);
  void trouble(State state, std::string_view why);
  void fine();
  void wait();

  const RedisRulesSource source_;
  Owner& owner_;
  std::string known_;
  bool reading_ = false;
  bool ended_ = false;
  State state_ = State::kFine;
  std::unique_ptr<Timer> timer_;
  Look look_{*this};
  std::unique_ptr<redis::Client> client_;
};

// The message if there are no rules: "there are no rules at KEY; push some: ..."
std::string no_rules_at(std::string_view key);

}  // namespace sluice::server
