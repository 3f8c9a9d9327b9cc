#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "insight/top_keys.h"
#include "server/api/admin/admin_token.h"
#include "server/api/admin/live_events.h"
#include "server/api/admin/status_page.h"
#include "server/protocol/http/message.h"
#include "server/rules/pushed_rules.h"
#include "server/rules/rules_manager.h"
#include "server/rules/server_overrides.h"
#include "server/storage/held_blocks.h"
#include "sluice/limiter.h"

namespace sluice::server {

// The administration over HTTP (docs/admin.md): the active rules, counters, and the status.
//
// Thread-safety: handle() from one thread, which must also be the thread of AdminToken::reload().
// Ownership: borrows all its parts. Cost: checking rules takes milliseconds, a second for the
// largest, so no loop that decides should call it.
class AdminEndpoint {
 public:
  // Pushes other rules in place of the active ones (PushedRules::push()).
  using Push = std::function<Expected<PushedRules::Outcome>(
      const std::vector<RulesText>& before, std::vector<RulesText> texts, std::string by)>;
  struct Parts {
    RulesManager& rules;
    Limiter& limiter;
    const AdminToken& token;
    std::function<ServerStatus()> status;
    // The action of POST /v1/rules/reload. If empty: rules.reload().
    std::function<Expected<bool, RulesManager::Errors>()> reload = {};
    // Called after each change with its description and the peer's address, for the log.
    std::function<void(std::string_view what, std::string_view peer)> done = {};
    // Null: the server has none.
    ServerOverrides* overrides = nullptr;
    // Empty: rules are not in Redis.
    Push push = {};
    // Finds at most so many blocks that hold now. Errors: why the store cannot say.
    std::function<Expected<HeldBlocks>(std::size_t most)> find_blocks = {};
    const insight::TopKeys* top_keys = nullptr;  // null: keys are not counted
    // Null: no events.
    LiveEvents* events = nullptr;
  };
  explicit AdminEndpoint(Parts parts);

  void handle(const http::Request& request, http::Response& response);

 private:
  Parts parts_;
};

}  // namespace sluice::server
