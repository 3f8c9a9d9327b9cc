// Rules in Redis: one hash, which a push replaces as a whole, and a second one in the same slot
// with the last 50 pushes. The main thread reads the id of the rules four times per second on its
// own connection and activates other rules like those from files: checked as a whole, or not at
// all.
#include "server/rules/redis_rules.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "limiter/replacement_file.h"
#include "server/net/fiber.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

constexpr std::chrono::milliseconds kLongestStart{5'000};
constexpr std::chrono::milliseconds kStartWithKept{1'000};

constexpr std::string_view kSource = "redis:";

// Adds the source to the names.
std::vector<RulesText> named(std::vector<RulesText> texts) {
  for (RulesText& text : texts) text.name.insert(0, kSource);
  return texts;
}

// Rules of a PUT have no source.
std::vector<RulesText> without_source(std::vector<RulesText> texts) {
  for (RulesText& text : texts) {
    if (text.name.starts_with(kSource)) text.name.erase(0, kSource.size());
  }
  return texts;
}

// Who made the rules active, for the history: "push 7 to Redis by alice@host".
std::string by_push(const PublishedRules& rules) {
  return "push " + std::to_string(rules.version) + " to Redis" +
         (rules.by.empty() ? "" : " by " + rules.by);
}

// The error of rules that cannot be read from Redis.
RuleError lost_rules(const RedisRulesSource& source, std::string_view why) {
  return {source.key, 1, 1, std::string(why),
          "expected rules that sluice rules push FILE has published"};
}

// Replaces the file as a whole. Without one, does nothing. Returns false if it lacks the rules.
bool keep_rules(const std::string& file, const PublishedRules& rules, Log& log) {
  if (file.empty()) return true;
  try {
    const std::string text = kept_text(rules);
    detail::ReplacementFile replacement(file);
    replacement.write(std::as_bytes(std::span(text)));
    replacement.replace();
    return true;
  } catch (const std::exception& error) {
    log.error("the rules for a start without Redis were not kept", {{"why", error.what()}});
  }
  return false;
}

// Reads the rules that a server has kept. Returns nothing if there are none to use, and logs why if
// there should be.
std::optional<PublishedRules> kept_rules(const std::string& file, Log& log) {
  if (file.empty() || !std::filesystem::exists(file)) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto rules = in.bad() || !in.is_open() ? Unexpected<std::string>{"it cannot be read"}
                                         : read_kept_text(text);
  if (rules) return std::move(*rules);
  log.error("the kept rules cannot be used", {{"file", file}, {"why", rules.error()}});
  return std::nullopt;
}

Expected<bool, PushFailure> result_of_push(const redis::Answer& answer) {
  if (answer.failure == redis::Failure::kNone) {
    const auto pushed = read_pushed(*answer.reply);
    if (!pushed) return Unexpected{PushFailure{pushed.error(), true}};
    return *pushed;
  }
  const bool may_be_done =
      answer.failure == redis::Failure::kTimeout || answer.failure == redis::Failure::kLost;
  return Unexpected{
      PushFailure{std::string(answer.text.empty() ? "no answer" : answer.text), may_be_done}};
}

}  // namespace

Expected<std::unique_ptr<PushedRules>> PushedRules::open(RedisRulesSource source, Log& log,
                                                         const RuleTerms& terms) {
  const auto opened = [&](const PublishedRules& rules) {
    return RulesManager::open_source(named(rules.texts), SystemClock::instance(), terms,
                                     by_push(rules));
  };
  auto kept = kept_rules(source.cache, log);
  const auto at_most = kept ? kStartWithKept : kLongestStart;
  auto rules = RedisRules::wait_for(source, at_most, [&](std::string_view why) {
    log.warning("waiting for the rules in Redis",
                {{"why", why}, {"at_most_s", at_most / std::chrono::seconds(1)}});
  });
  std::string why = rules ? std::string() : rules.error();
  if (rules) {
    auto manager = opened(*rules);
    if (manager) {
      std::unique_ptr<PushedRules> made(
          new PushedRules(std::move(source), std::move(*rules), std::move(*manager)));
      if (!keep_rules(made->source_.cache, made->latest_, log)) made->unkept_ = made->latest_;
      return made;
    }
    why = error_lines(manager.error());
  }
  if (!kept) return Unexpected{std::move(why)};
  auto manager = opened(*kept);
  if (!manager) {
    return Unexpected{why + "\nand the rules in " + source.cache + " are wrong:\n" +
                      error_lines(manager.error())};
  }
  log.error("the rules in Redis cannot be read; the server starts with those that it had last",
            {{"why", why},
             {"file", source.cache},
             {"pushed", kept->version},
             {"pushed_at", kept->pushed_at}});
  (*manager)->lose(lost_rules(source, why + "; the rules of " + source.cache +
                                          " are active, pushed " + kept->pushed_at),
                   true);
  return std::unique_ptr<PushedRules>(
      new PushedRules(std::move(source), std::move(*kept), std::move(*manager)));
}

void PushedRules::follow(boost::asio::io_context& loop, RulesManager& manager, Log& log,
                         std::function<void()> changed) {
  manager_ = &manager;
  log_ = &log;
  changed_ = std::move(changed);
  rules_ = std::make_unique<RedisRules>(
      loop, source_, latest_.id, [this](PublishedRules rules) { activate(std::move(rules)); },
      [this](std::string_view why, bool is_lost, bool is_new) { report(why, is_lost, is_new); },
      manager.status().lost_since.has_value());
  keep_timer_.emplace(loop);
  if (unkept_) keep_later();
}

void PushedRules::keep_later() {
  keep_timer_->expires_after(source_.remind);
  keep_timer_->async_wait([this](const boost::system::error_code& why) {
    if (why || !unkept_) return;
    if (!keep_rules(source_.cache, *unkept_, *log_)) return keep_later();
    unkept_.reset();
    log_->info("the rules for a start without Redis are kept again");
  });
}

void PushedRules::report(std::string_view why, bool is_lost, bool is_new) {
  if (why.empty()) {
    manager_->found();
    return log_->info("the rules in Redis can be read again");
  }
  log_->warning("the rules in Redis cannot be read; the active rules are unchanged",
                {{"why", why}});
  if (is_lost && is_new) manager_->lose(lost_rules(source_, why));
}

Expected<PushedRules::Pushed, PushFailure> PushedRules::push(const std::vector<RulesText>& before,
                                                             std::vector<RulesText> texts,
                                                             std::string by, bool replaces) {
  const bool are_from_redis = !before.empty() && before.front().name.starts_with(kSource);
  if (rules_ == nullptr || !source_.target->options.scripting || !are_from_redis) {
    return Pushed{};
  }
  if (!replaces && before != named(latest_.texts)) return Pushed{Outcome::kOthersInRedis};
  texts = without_source(std::move(texts));
  // Redis that has lost the rules gets them again.
  const bool are_lost = replaces && manager_->status().lost_since.has_value();
  if (texts == latest_.texts && !are_lost) return Pushed{};
  auto rules = publish(latest_.version + 1, pushed_now(), std::move(texts));
  if (!rules) return Unexpected{PushFailure{rules.error()}};
  rules->by = std::move(by);
  const auto pushed = rules_->push(*rules, are_lost ? std::string() : latest_.id);
  if (!pushed) return Unexpected{pushed.error()};
  if (!*pushed) return Pushed{Outcome::kOthersPushed};
  const std::uint64_t version = rules->version;
  if (latest_.version < version) activate(std::move(*rules));
  return Pushed{Outcome::kPushed, version};
}

void PushedRules::activate(PublishedRules rules) {
  const std::uint64_t pushed = rules.version;
  const PublishedRules before = std::exchange(latest_, std::move(rules));
  const auto changed = manager_->follow(named(latest_.texts), by_push(latest_));
  if (!changed) {
    for (const RuleError& error : changed.error()) {
      log_->error("the active rules are unchanged",
                  {{"why", error.to_string()}, {"pushed", pushed}});
    }
    return;
  }
  unkept_.reset();
  if (!keep_rules(source_.cache, latest_, *log_)) {
    unkept_ = latest_;
    keep_later();
  }
  log_->info(
      *changed ? "new rules are active" : "the rules did not change",
      {{"version", manager_->version()}, {"rules", manager_->status().rules}, {"pushed", pushed}});
  if (!*changed) return;
  // Rules that are pushed after a loss have a new date.
  if (pushed < before.version && latest_.pushed_at <= before.pushed_at) {
    const std::string why = "Redis came back with " + by_push(latest_) + ", and " +
                            by_push(before) + " was active; expected sluice rules push FILE, or " +
                            "sluice rules rollback by a server that has not restarted (--admin)";
    log_->error("the rules went back", {{"why", why}});
    manager_->go_back(why);
  }
  if (const std::string undone = manager_->status().undone_text(); !undone.empty()) {
    log_->warning("a push has undone changes of the administration", {{"undone", undone}});
  }
  changed_();
}

std::shared_ptr<const redis::Target> patient(const redis::Target& target) {
  auto copy = std::make_shared<redis::Target>(target);
  copy->options.deadline = std::max(copy->options.deadline, std::chrono::milliseconds{5'000});
  return copy;
}

std::string no_rules_at(std::string_view key) {
  return "there are no rules at " + std::string(key) +
         "; publish them with sluice rules push FILE (sluice rules "
         "show --admin ADDR prints those of a server that still has them)";
}

RedisRules::RedisRules(boost::asio::io_context& loop, RedisRulesSource source, std::string known,
                       OnRules on_rules, OnTrouble on_trouble, bool lost)
    : source_(std::move(source)),
      on_rules_(std::move(on_rules)),
      on_trouble_(std::move(on_trouble)),
      known_(std::move(known)),
      state_(lost ? State::kUnreachable : State::kFine),
      timer_(loop),
      client_(redis::make_client(loop, patient(*source_.target), nullptr)) {
  look();
}

RedisRules::~RedisRules() {
  ended_ = true;
  client_.reset();  // ends the poll in progress
}

Expected<bool, PushFailure> RedisRules::push(const PublishedRules& rules,
                                             std::string_view expected) {
  if (ended_ || net::current_fiber() == nullptr) {
    return Unexpected{PushFailure{"the server does not follow Redis now"}};
  }
  net::FiberWait wait;
  Expected<bool, PushFailure> result = false;
  redis::AskCommand command([&](const redis::Answer& answer) {
    result = result_of_push(answer);
    if (result && *result) known_ = rules.id;  // those before, if Redis loses the push, are others
    wait.finish();
  });
  fill_in_push(command, source_.key, rules, expected);
  client_->submit(command);
  wait.wait();
  return result;
}

void RedisRules::look() {
  reading_ = false;
  fill_in_read_id(look_, source_.key);
  client_->submit(look_);
}

void RedisRules::wait() {
  timer_.expires_after(source_.every);
  timer_.async_wait([this](const boost::system::error_code& why) {
    if (!why) look();
  });
}

// Without memory the process ends: nobody would notice that rules are no longer followed.
void RedisRules::looked(const redis::Answer& answer) {
  if (ended_) return;
  if (answer.failure == redis::Failure::kError) {
    trouble(State::kWrong, source_.key + ": " + std::string(answer.text));
  } else if (answer.failure != redis::Failure::kNone) {
    trouble(State::kUnreachable, answer.text.empty() ? "no answer" : answer.text);
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
  on_rules_(std::move(**rules));
}

void RedisRules::trouble(State state, std::string_view why) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_new = std::exchange(state_, state) != state;
  if (!is_new && now < remind_at_) return;
  remind_at_ = now + source_.remind;
  on_trouble_(why, state != State::kUnreachable, is_new);
}

void RedisRules::fine() {
  if (std::exchange(state_, State::kFine) != State::kFine) on_trouble_({}, false, false);
}

Expected<PublishedRules> RedisRules::wait_for(
    const RedisRulesSource& source, std::chrono::milliseconds at_most,
    const std::function<void(std::string_view why)>& waiting) {
  boost::asio::io_context loop{1};
  std::optional<PublishedRules> rules;
  std::string why;
  bool is_lost = false;
  const RedisRules follower(
      loop, source, {},
      [&](PublishedRules found) {
        rules = std::move(found);
        loop.stop();
      },
      [&](std::string_view trouble, bool lost, bool) {
        why = trouble;
        is_lost = lost;
        if (!why.empty()) waiting(why);
      });
  loop.run_for(at_most);
  if (rules) return *std::move(rules);
  if (why.empty()) why = "no answer";
  std::string error = "no rules could be read from " + source.target->shown + ": " + why;
  if (!is_lost) {
    error +=
        "; expected Redis, or --rules FILE with the rules of a server that runs (sluice rules show "
        "--admin ADDR prints them)";
  }
  return Unexpected{std::move(error)};
}

}  // namespace sluice::server
