#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/rules/envoy_manager.h"
#include "server/rules/pushed_rules.h"
#include "server/rules/rules_manager.h"
#include "server/rules/server_overrides.h"
#include "sluice/expected.h"

namespace boost::asio {
class io_context;
}

namespace sluice::server {

// The overrides of a server: in a file, or in Redis if the counters are there. Errors: one line.
Expected<std::unique_ptr<ServerOverrides>> open_overrides(const Config& config);

// All rules of a server: its own, from files or from Redis, and those from Envoy's files.
//
// Thread-safety: one thread only; the managers from any thread.
class ServerRules {
 public:
  using Reloaded = Expected<bool, RulesManager::Errors>;

  // Reads the rules. Errors: one line for each.
  static Expected<ServerRules> open(const Config& config);

  RulesManager& manager() const noexcept { return *manager_; }
  EnvoyManager& envoy() const noexcept { return *envoy_; }
  // Logs the warnings about the active rules.
  void log_warnings(Log& log) const;
  bool only_built_in() const { return manager_->built_in() && !envoy_->has_files(); }

  // Reads all files again and logs the result. Returns whether any rules changed. If there are
  // errors, returns all of them and keeps the active rules.
  Reloaded reload(Log& log);
  // Returns whether files have changed since they were read. Call it about twice a second.
  bool changed_on_disk();
  // Returns whether the active rules have changed since the last call.
  bool changed();
  // Follows the rules in Redis, if they are there. Calls `changed` after each change.
  void follow_pushes(boost::asio::io_context& loop, Log& log, std::function<void()> changed);
  // Pushes rules if they are in Redis. Call it on a fiber of that loop.
  Expected<PushedRules::Outcome> push(const std::vector<RulesText>& before,
                                      std::vector<RulesText> texts, std::string by);
  // Ends that. Call it before the loop is destroyed.
  void stop_following() noexcept { pushed_.reset(); }

 private:
  void reload_envoy(Log& log, Reloaded& result);

  std::unique_ptr<RulesManager> manager_;
  std::unique_ptr<EnvoyManager> envoy_;
  std::unique_ptr<PushedRules> pushed_;  // null: the rules are in files
  std::uint64_t followed_version_ = 1;
  std::uint64_t followed_envoy_ = 1;
};

}  // namespace sluice::server
