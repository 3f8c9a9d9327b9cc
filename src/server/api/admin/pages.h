#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json_writer.h"
#include "server/api/admin/admin_endpoint.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/message.h"
#include "server/protocol/http/problem.h"
#include "server/protocol/http/route.h"

// The handlers of the administration's paths. They get only requests that were admitted.
namespace sluice::server {
class History;
}

namespace sluice::server::pages {

using base::JsonWriter;

struct Call {
  const AdminEndpoint& admin;
  const http::Request& request;
  std::string_view query;
  http::Response& response;
  const http::Route& route;
  std::string_view name = {};  // the rest of the path, if the route has parameters in it

  // Returns the value of a parameter of the query, which must be one of the route's.
  std::optional<std::string> parameter(std::string_view of) const;
  // Returns the number of such a parameter, which is in its range, or another one without it.
  std::uint64_t number(std::string_view of, std::uint64_t otherwise) const;

  const Overrides* overrides() const noexcept {
    return admin.overrides != nullptr ? &admin.overrides->all() : nullptr;
  }
  // Reports what was done.
  void done(std::string_view what) const;
};

// How many of a list an answer has, without `count`.
inline constexpr std::uint64_t kListed = 1000;

// Write the answer. The detail need not be UTF-8.
void answer(http::Response& response, int status, const JsonWriter& json);
void answer(http::Response& response, const Problem& problem, std::string_view members = {});
void answer(const Call& call, int status, std::string_view detail);
// The same, and returns nothing.
std::nullopt_t refuse(const Call& call, int status, std::string_view detail);
// Returns what to expect instead of a text that base::parse_rfc3339() refuses: an instant in its
// range, or `otherwise`.
std::string_view expected_instant(std::string_view text, std::string_view otherwise);
// Returns the lines of a body, which end with LF or CRLF.
std::vector<std::string_view> lines_of(std::string_view body);
// "[{"file":...,"line":...,"column":...,"what":...,"expected":...},...]"
void write_errors(JsonWriter& json, const std::vector<RuleError>& errors);

// Answers a request.
using Page = void(const Call& call);

Page show_rules, replace_rules, validate_rules, reload_rules;
// Change numbers of one rule or plan, or prices of one model.
Page change_rule, change_plan, change_prices;
// The schemas of their bodies; a plan has that of a rule.
void write_patch_schema(JsonWriter& json);
void write_prices_schema(JsonWriter& json);
// The rules that were active before, and their texts; and one of them again.
Page show_rules_history, roll_back_rules;
// Writes what the recent requests would have met with other rules, if there are some.
void write_replay(JsonWriter& json, const Call& call, const RuleSet& active, const RuleSet& next);
Page show_keys, reset_keys;
Page show_blocks, start_blocks, end_blocks;
// Says what a request would get, and why (sluice try --server).
Page try_request;
// What the quota service does (docs/quota.md).
Page show_quota;
Page show_status;
// The part of the status that is not about rules, as members.
void write_server(JsonWriter& json, const ServerStatus& status);
// "outage" while the store fails: since when, why, what each of the first `most` rules does
// meanwhile, and by the history, which may be null, how many requests were decided without it;
// "last_outage", the latest one that is over; "full" while it takes no new counters,
// with the same members; "slow" while it answers slowly; "rules_lost" while the rules cannot be
// read from their source; "rules_older" after it came back with older ones; "gateway_not_trusted"
// while a gateway is missing in trusted_proxies; "overrides_lost" for an hour after Redis has lost
// some; and "temporary", the changes of rules for a time, if there are some.
void write_outage(JsonWriter& json, const ServerStatus& server, const RulesStatus& status,
                  const RuleSet& rules, std::size_t most, const History* history);
// "temporary", if there are some.
void write_temporary(JsonWriter& json, const std::vector<TemporaryChange>& changes);
Page show_events, show_history;
// What a rule and a limit are, as members.
void write_rule_facts(JsonWriter& json, const Rule& rule);
void write_limit_facts(JsonWriter& json, const Rule& rule, const RuleLimit& limit);
Page show_top;
// Who has spent what, by the ledger of budgets.
Page show_usage;
Page list_overrides, import_overrides;
// Removes the override of the counter in the query, even if its rule is gone.
Page remove_counter;
// The counter and what an override says, as members; and only what it says.
void write_override(JsonWriter& json, std::string_view counter, const Override& given);
void write_override(JsonWriter& json, const Override& given);
// Says that the key of a counter is too long for an override.
std::string too_long(std::string_view counter);
// Answers that the server has none, and returns true.
bool lacks_overrides(const Call& call);
// The override of one key: the name of the call is "RULE/LIMIT".
Page show_override, set_override, remove_override;
void write_override_schema(JsonWriter& json);  // of the body of set_override()

}  // namespace sluice::server::pages
