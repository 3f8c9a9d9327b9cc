#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "insight/top_keys.h"
#include "server/api/admin/live_page.h"
#include "server/api/admin/status_page.h"
#include "server/config/secret.h"
#include "server/decide/recent_requests.h"
#include "server/logging/denial_log.h"
#include "server/logging/ledger_lines.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/route.h"
#include "server/rules/redis_rules.h"
#include "server/rules/rules_manager.h"
#include "server/rules/server_overrides.h"
#include "server/storage/loop_stores.h"
#include "sluice/expected.h"
#include "sluice/limiter.h"

namespace sluice::server {

// The bearer token of the administration, from a file or an environment variable, or no token.
//
// Thread-safety: that of a value. Cost: the time of matches() depends only on the length of the
// presented token, not on how much of it is right.
class AdminToken {
 public:
  // Reads the file, or the variable of that name. With neither there is no token. Line ends at the
  // end are not part of the token. Errors: the problem with the source and what is expected.
  static Expected<AdminToken> from(SecretSource source);

  // Reads the source again. After an error the token is unchanged. Returns whether it changed.
  Expected<bool> reload();
  bool is_set() const noexcept { return !token_.empty(); }
  bool matches(std::string_view presented) const noexcept;
  // Returns a weakness of the token ("others may read the file"), or an empty text.
  const std::string& warning() const noexcept { return warning_; }

 private:
  SecretSource source_;
  std::string token_;
  std::string warning_;
};

// Returns why a request to the administration is refused (401), or nothing. With a token, the
// request must present it, or the client the certificate of an admin.
std::optional<Problem> check_token(const http::Request& request, const AdminToken& token);

// The administration over HTTP (docs/admin.md): the active rules, counters, and the status.
//
// Thread-safety: handle() from one thread, which must also be the thread of AdminToken::reload().
// Ownership: borrows what it refers to. Cost: checking rules takes milliseconds, a second for the
// largest, so no loop that decides should call it.
struct AdminEndpoint {
  // Pushes other rules in place of the active ones (PushedRules::push()).
  using Push = std::function<Expected<PushedRules::Pushed, PushFailure>(
      const std::vector<RulesText>& before, std::vector<RulesText> texts, std::string by,
      bool replaces)>;

  void handle(const http::Request& request, http::Response& response) const;
  // The requests that it answers.
  static std::vector<http::Route> routes();

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
  OverridesLost* lost = nullptr;  // null: none can be lost
  Store* local = nullptr;         // see RuleStores
  // Empty: rules are not in Redis.
  Push push = {};
  // Finds at most `most` blocks that hold now. Errors: why the store cannot say.
  std::function<Expected<HeldBlocks>(std::size_t most)> find_blocks = {};
  // Reads the ledger of budgets (Stores::read_ledger()).
  std::function<Status(const LedgerReplay::See& see)> read_ledger = {};
  const insight::TopKeys* top_keys = nullptr;  // null: keys are not counted
  const DenialLog* denials = nullptr;          // null: nothing is known of denied requests
  // Null: no events.
  LiveEvents* events = nullptr;
  // Null: new rules are not compared with the active ones on recent requests.
  const RecentRequests* recent = nullptr;
  // Returns what the quota service does, as JSON. Empty: there is none.
  std::function<std::string()> quota = {};
};

}  // namespace sluice::server
