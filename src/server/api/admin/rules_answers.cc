#include "server/api/admin/rules_answers.h"

#include <algorithm>
#include <functional>

#include "server/protocol/http/fields.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server::pages {
namespace {

// Returns "VERSION-CONTENT". Versions start again with each process, whose rules may differ.
std::string tag_of(const ActiveRules& rules) {
  const std::hash<std::string_view> hash;
  std::size_t content = 0;
  for (const RulesText& text : *rules.texts) {
    content = content * 31 + hash(text.name) * 7 + hash(text.text);
  }
  return std::to_string(rules.version) + "-" + std::to_string(content);
}

bool names_rules(std::string_view list, const ActiveRules& rules) {
  const std::string tag = tag_of(rules);
  const std::string version = std::to_string(rules.version);
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::string_view one = trimmed(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (one.size() > 1 && one.starts_with('"') && one.ends_with('"')) {
      one = one.substr(1, one.size() - 2);
    }
    if (one == "*" || one == tag || one == version) return true;
  }
  return false;
}

}  // namespace

void add_version(const ActiveRules& rules, http::Response& response) {
  response.add("ETag", "\"" + tag_of(rules) + "\"");
  response.add("X-Sluice-Rules-Version", std::to_string(rules.version));
}

void write_counts(JsonWriter& json, const RuleSet& rules) {
  json.member("rules", std::uint64_t{rules.rules().size()})
      .member("limits", std::uint64_t{count_limits(rules)});
}

void answer_errors(int status, const RulesManager::Errors& errors, http::Response& response) {
  JsonWriter json;
  write_errors(json, errors);
  const std::string detail = errors.front().to_string();
  answer(response, {status, detail}, "\"errors\":" + std::string(json.view()));
}

bool has_condition(const Call& call) {
  Buffers buffers;
  return find_header(call.request.fields, "if-match", buffers).has_value();
}

bool meets_condition(const Call& call, const ActiveRules& rules) {
  Buffers buffers;
  const auto condition = find_header(call.request.fields, "if-match", buffers);
  return !condition || names_rules(*condition, rules);
}

void answer_other_version(const Call& call) {
  const ActiveRules now = call.parts.rules.active();
  add_version(now, call.response);
  const std::string detail = "If-Match does not name the active rules; expected version " +
                             std::to_string(now.version) + ", or its ETag of GET /v1/rules";
  answer(call.response, {412, detail, "Precondition Failed"});
}

}  // namespace sluice::server::pages
