#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/redis_session.h"
#include "cli/store_flags.h"
#include "server/rules/published_rules.h"
#include "server/rules/rules_files.h"
#include "server/rules/rules_history.h"
#include "sluice/rule_set.h"

namespace sluice::cli {

// The flags that select the rules in Redis.
struct PlaceFlags {
  std::shared_ptr<StoreFlags> store;
  std::string key;
};
std::shared_ptr<PlaceFlags> add_place_flags(Command command);

// The location of rules in Redis. Failures name it.
class RulesPlace {
 public:
  static Expected<RulesPlace, Failed> open(const server::Config& config, const std::string& key);
  static Expected<RulesPlace, Failed> open(const PlaceFlags& flags);

  const std::string& key() const noexcept { return key_; }
  // Return nothing, or none, if nothing was pushed.
  Expected<std::optional<server::PublishedRules>, Failed> read() const;
  Expected<std::vector<server::PastPush>, Failed> history() const;
  // Returns the rules of a push of the history.
  Expected<std::vector<server::RulesText>, Failed> past(const server::PastPush& push) const;
  // Returns whether the rules replaced those with the id `old`.
  Expected<bool, Failed> put(const server::PublishedRules& rules, const std::string& old) const;

 private:
  RulesPlace(std::unique_ptr<RedisSession> session, std::string key, bool scripting)
      : session_(std::move(session)), key_(std::move(key)), scripting_(scripting) {}
  Failed wrong(const std::string& what) const;

  std::unique_ptr<RedisSession> session_;
  std::string key_;
  bool scripting_;
};

// Valid rules, and a summary ("2 rules, 3 limits").
struct CheckedRules {
  std::vector<server::RulesText> texts;
  std::string summary;
};
// Returns nothing after printing all errors.
std::optional<CheckedRules> check_texts(server::FilesRead read, const RuleTerms& terms);

// How rules are pushed.
struct PushFlags {
  std::optional<std::uint64_t> expect;
  bool dry_run = false;
  std::string by;
};
// Adds --expect, --dry-run and --by.
std::shared_ptr<PushFlags> add_push_flags(Command command);
// Pushes the rules and prints their version. `note` follows the name of who pushes, in the history.
// Returns the exit status.
Expected<int, Failed> push_rules(const RulesPlace& place, const PushFlags& flags,
                                 CheckedRules checked, const std::string& note = {});

// Prints a failure of `rules COMMAND`. Returns the exit status.
int finish(const char* command, const Expected<int, Failed>& result);

}  // namespace sluice::cli
