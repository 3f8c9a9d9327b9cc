#include "server/rules/redis_rules.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <utility>

#include "server/net/fiber.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

namespace sluice::server {
namespace {

// A push that a fiber waits for.
class Push final : public redis::Command {
 public:
  Expected<bool> wait() {
    wait_.wait();
    return std::move(result_);
  }
  void done(const redis::Answer& answer) noexcept override {
    if (answer.failure == redis::Failure::kNone) {
      result_ = read_pushed(*answer.reply);
    } else {
      result_ = Unexpected{explain(answer)};
    }
    wait_.finish();
  }

 private:
  static std::string explain(const redis::Answer& answer) {
    std::string what(answer.text.empty() ? "no answer" : answer.text);
    const bool may_be_done =
        answer.failure == redis::Failure::kTimeout || answer.failure == redis::Failure::kLost;
    if (!may_be_done) return what;
    return what + "; they may have been changed: look at them before you repeat the request";
  }

  net::FiberWait wait_;
  Expected<bool> result_ = false;
};

}  // namespace

std::shared_ptr<const redis::Target> patient(const redis::Target& target) {
  auto copy = std::make_shared<redis::Target>(target);
  copy->options.deadline = std::max(copy->options.deadline, std::chrono::milliseconds{5'000});
  return copy;
}

struct RedisRules::Timer : boost::asio::steady_timer {
  using boost::asio::steady_timer::steady_timer;
};

std::string no_rules_at(std::string_view key) {
  return "there are no rules at " + std::string(key) + "; publish them with sluice rules push FILE";
}

RedisRules::RedisRules(boost::asio::io_context& loop, RedisRulesSource source, std::string known,
                       Owner& owner)
    : source_(std::move(source)),
      owner_(owner),
      known_(std::move(known)),
      timer_(std::make_unique<Timer>(loop)),
      client_(redis::make_client(loop, patient(*source_.target), nullptr)) {
  look();
}

RedisRules::~RedisRules() {
  ended_ = true;
  client_.reset();  // ends the poll in progress
}

Expected<bool> RedisRules::push(const PublishedRules& rules, std::string_view expected) {
  if (ended_ || net::current_fiber() == nullptr) {
    return Unexpected{"the server does not follow Redis now"};
  }
  Push command;
  fill_in_push(command, source_.key, rules, expected);
  client_->submit(command);
  return command.wait();
}

void RedisRules::look() {
  reading_ = false;
  fill_in_read_id(look_, source_.key);
  client_->submit(look_);
}

void RedisRules::wait() {
  timer_->expires_after(source_.every);
  timer_->async_wait([this](const boost::system::error_code& why) {
    if (!why) look();
  });
}

void RedisRules::Look::done(const redis::Answer& answer) noexcept try {
  rules_.looked(answer);
} catch (const std::exception&) {
  std::terminate();  // out of memory: nobody would notice that rules are no longer followed
}

void RedisRules::looked(const redis::Answer& answer) {
  if (ended_) return;
  if (answer.failure == redis::Failure::kError) {
    trouble(State::kWrong, source_.key + ": " + std::string(answer.text));
  } else if (answer.failure != redis::Failure::kNone) {
    trouble(State::kUnreachable, answer.text);
  } else if (!reading_) {
    see_id(*answer.reply);
    if (reading_) return client_->submit(look_);
  } else {
    see_rules(*answer.reply);
  }
  wait();
}

void RedisRules::see_id(const redisReply& reply) {
  // A hash without an id is read as well, to report its error.
  const std::string_view id =
      reply.type == REDIS_REPLY_STRING ? std::string_view(reply.str, reply.len) : "";
  if (!id.empty() && id == known_) return fine();
  reading_ = true;
  fill_in_read_rules(look_, source_.key);
}

void RedisRules::see_rules(const redisReply& reply) {
  auto rules = read_rules(reply);
  if (!rules) return trouble(State::kWrong, source_.key + " holds " + rules.error());
  if (!*rules) return trouble(State::kNone, no_rules_at(source_.key));
  known_ = (*rules)->id;
  fine();
  owner_.on_rules(std::move(**rules));
}

void RedisRules::trouble(State state, std::string_view why) {
  if (std::exchange(state_, state) != state) owner_.on_trouble(why);
}

void RedisRules::fine() {
  if (std::exchange(state_, State::kFine) != State::kFine) owner_.on_trouble({});
}

Expected<PublishedRules> RedisRules::wait_for(const RedisRulesSource& source,
                                              std::chrono::milliseconds at_most) {
  struct Waiting final : Owner {
    void on_rules(PublishedRules found) override {
      rules = std::move(found);
      loop.stop();
    }
    void on_trouble(std::string_view what) override { why = what; }

    boost::asio::io_context loop{1};
    std::optional<PublishedRules> rules;
    std::string why;
  };
  Waiting waiting;
  const RedisRules follower(waiting.loop, source, {}, waiting);
  waiting.loop.run_for(at_most);
  if (waiting.rules) return std::move(*waiting.rules);
  const std::string why = waiting.why.empty() ? "no answer" : waiting.why;
  return Unexpected{"no rules could be read from " + source.target->shown + ": " + why};
}

}  // namespace sluice::server
