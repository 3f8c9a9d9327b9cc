#pragma once

#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/store.h"
#include "stores/redis/script/plan.h"
#include "tests/property/history.h"
#include "tests/redis/redis_server.h"

namespace sluice_redis {

// A command that is sent by ScriptConnection, and whose end nobody waits for.
class PlainCommand final : public sluice::redis::Command {
 public:
  void done(const sluice::redis::Answer&) noexcept override {}
};

// Script calls over a blocking connection, any number of them under way. A script that was not sent
// before is loaded first. Throws std::runtime_error where a script's hash is not what it is said to
// be.
class ScriptConnection {
 public:
  explicit ScriptConnection(const RedisServer& server) : connection_(server) {}

  void send(const sluice::redis::Command& command);
  // To the next command that was sent and has not been answered.
  Reply next();
  // Other commands, while none of the above is under way.
  Reply run(std::initializer_list<std::string_view> words) { return connection_.run(words); }
  std::string text(std::initializer_list<std::string_view> words) {
    return RedisConnection::text(run(words));
  }

 private:
  RedisConnection connection_;
  std::set<std::string_view> loaded_;              // hashes
  std::deque<const sluice::redis::Script*> sent_;  // null: a call; else the loading of that
};

// The decisions of the scripts in a Redis, by Plan alone, one request after the other. By slot, the
// parts are sent at once, and what was taken in one is given back where another denies.
class PlanStore final : public sluice::Store {
 public:
  PlanStore(ScriptConnection& connection, std::string prefix, bool by_slot = false)
      : connection_(connection), prefix_(std::move(prefix)), by_slot_(by_slot) {}

  sluice::Decision apply(sluice::Verb verb, std::span<const sluice::Charge> charges,
                         std::optional<sluice::Instant> now,
                         std::span<sluice::Decision> each) noexcept override;

  // Of the last request: what Redis said instead of deciding; empty where it did decide.
  const std::string& error() const noexcept { return error_; }

 private:
  enum class Outcome { kAllowed, kDenied, kForeign, kError };
  Outcome read(std::size_t part);

  ScriptConnection& connection_;
  std::string prefix_;
  bool by_slot_;
  sluice::redis::Plan plan_;
  std::string error_;
};

// What the scripts answer to each step of a history, all sent at once to fresh counters under
// `prefix`. An error reply is answered as store_error or foreign_value.
std::vector<sluice_property::Answered> answers(ScriptConnection& connection,
                                               std::string_view prefix,
                                               const sluice_property::History& history);

}  // namespace sluice_redis
