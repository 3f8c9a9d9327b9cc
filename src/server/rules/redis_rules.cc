#include "server/rules/redis_rules.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "server/net/fiber.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

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

void RedisRules::see_id(const redis::Reply& reply) {
  // A hash without an id is read as well, to report its error.
  const std::string_view id = reply.type == redis::Reply::kString ? reply.text : "";
  if (!id.empty() && id == known_) return fine();
  reading_ = true;
  fill_in_read_rules(look_, source_.key);
}

void RedisRules::see_rules(const redis::Reply& reply) {
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
