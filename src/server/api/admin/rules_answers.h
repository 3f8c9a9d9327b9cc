#pragma once

#include <string>

#include "server/api/admin/pages.h"

// What the answers about rules have in common.
namespace sluice::server::pages {

// Adds the version of the rules and their ETag.
void add_version(const ActiveRules& rules, http::Response& response);
void write_counts(JsonWriter& json, const RuleSet& rules);
void answer_errors(int status, const RulesManager::Errors& errors, http::Response& response);

// Whether the request has If-Match, and whether that names these rules: "*", their ETag, or only
// their version.
bool has_condition(const Call& call);
bool meets_condition(const Call& call, const ActiveRules& rules);
void answer_other_version(const Call& call);

}  // namespace sluice::server::pages
