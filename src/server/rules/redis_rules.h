#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "server/rules/published_rules.h"
#include "sluice/expected.h"
#include "stores/redis/client/client.h"

namespace sluice::server {

// Where rules are published.
struct RedisRulesSource {
  std::shared_ptr<const redis::Target> target;
  std::string key;
  std::chrono::milliseconds every{250};  // between two looks
};

// Follows the rules that are published in Redis: looks every 250 ms whether they are others, and
// then reads them. It has a connection of its own, and may wait longer for it than requests do.
//
// Used by its loop's thread only. Ownership: borrows loop and owner. Cost: a look is one small
// command.
class RedisRules {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Other rules are there, not yet checked.
    virtual void on_rules(PublishedRules rules) = 0;
    // They cannot be read, and why; empty when they can be read again. Once for each trouble.
    virtual void on_trouble(std::string_view why) = 0;
  };

  // `known`: the id of the rules that are in force.
  RedisRules(boost::asio::io_context& loop, RedisRulesSource source, std::string known,
             Owner& owner);
  ~RedisRules();
  RedisRules(const RedisRules&) = delete;
  RedisRules& operator=(const RedisRules&) = delete;

  // The rules that are there now, or are pushed before `at_most` has passed. Errors: why there are
  // none. Has a loop of its own.
  static Expected<PublishedRules> wait_for(const RedisRulesSource& source,
                                           std::chrono::milliseconds at_most);

 private:
  enum class State { kFine, kUnreachable, kNone, kWrong };
  // Looks at the id, or reads the rules.
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
  boost::asio::steady_timer timer_;
  Look look_{*this};
  std::unique_ptr<redis::Client> client_;
};

// What to say of rules that are not there: "there are no rules at KEY; push some: ..."
std::string no_rules_at(std::string_view key);

}  // namespace sluice::server
