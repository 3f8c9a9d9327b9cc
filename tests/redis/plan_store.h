#pragma once

#include <deque>
#include <random>
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

// A part of a plan for ScriptConnection. Ignores its result, and borrows the plan.
class PlainCommand final : public sluice::redis::Command {
 public:
  void write(sluice::redis::Plan& plan, std::size_t part = 0) {
    plan_ = &plan;
    part_ = part;
    plan.write(part, *this);
  }
  // The same as a command of the module.
  std::string for_module() {
    std::string bytes;
    append_for_module(bytes);
    return bytes;
  }

  void done(const sluice::redis::Answer&) noexcept override {}
  void append_for_module(std::string& out) override { plan_->append_for_module(part_, out); }

 private:
  sluice::redis::Plan* plan_ = nullptr;
  std::size_t part_ = 0;
};

// Sends script calls over a blocking connection, any number before their replies. Loads a script
// before its first call. Throws std::runtime_error if a script's hash is wrong. `by_module` per
// cent of the calls are commands of the module instead; half of them if all servers have it.
class ScriptConnection {
 public:
  explicit ScriptConnection(const RedisServer& server,
                            unsigned by_module = module_file() != nullptr ? 50 : 0)
      : connection_(server), by_module_(by_module) {}

  void send(sluice::redis::Command& command);
  void send_script(const sluice::redis::Command& command);
  // Returns the reply to the oldest command that has not been answered.
  Reply next();
  // Whether next() has returned a reply of the module.
  bool was_by_module() const noexcept { return was_by_module_; }
  // Runs another command while none of the above is in progress.
  Reply run(std::initializer_list<std::string_view> words) { return connection_.run(words); }
  std::string text(std::initializer_list<std::string_view> words) {
    return RedisConnection::text(run(words));
  }

 private:
  RedisConnection connection_;
  const unsigned by_module_;
  std::set<std::string_view> loaded_;  // hashes
  struct Sent {
    const sluice::redis::Script* loading = nullptr;
    bool is_by_module = false;
  };
  std::deque<Sent> sent_;
  std::mt19937 dice_;
  bool was_by_module_ = false;
};

// A store that decides with scripts and Plan only, one request after the other. With `by_slot` it
// sends the parts of all slots at once, and undoes the takes of the others if one slot denies.
class PlanStore final : public sluice::Store {
 public:
  PlanStore(ScriptConnection& connection, std::string prefix, bool by_slot = false,
            std::uint64_t ledger_keep = 0)
      : connection_(connection),
        options_{.prefix = std::move(prefix),
                 .by_slot = by_slot,
                 .ledger_keep = ledger_keep,
                 .uses_module = true} {}

  sluice::Decision apply(sluice::Action action, std::span<const sluice::Charge> charges,
                         std::optional<sluice::Instant> now,
                         std::span<sluice::Decision> each) noexcept override;

  // The error of Redis for the last request. Empty if Redis decided.
  const std::string& error() const noexcept { return error_; }

 private:
  enum class Outcome { kAllowed, kDenied, kForeign, kFull, kError };
  Outcome read(std::size_t part);

  ScriptConnection& connection_;
  sluice::redis::RequestOptions options_;
  sluice::redis::Plan plan_;
  std::string error_;
};

// Returns the scripts' answer to each step of a history, all sent at once to new counters under
// `prefix`. An error reply becomes store_error, foreign_value or store_full.
std::vector<sluice_property::Answered> answers(ScriptConnection& connection,
                                               std::string_view prefix,
                                               const sluice_property::History& history);

}  // namespace sluice_redis
