#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "rules/rule_diff.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rules_answers.h"
#include "server/protocol/http/fields.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server::pages {
namespace {

// Returns the text of that name, or the only text whose path ends with that name.
const RulesText* find_text(const std::vector<RulesText>& texts, std::string_view name) {
  const RulesText* found = nullptr;
  for (const RulesText& text : texts) {
    if (text.name == name) return &text;
    if (!text.name.ends_with("/" + std::string(name))) continue;
    if (found != nullptr) return nullptr;
    found = &text;
  }
  return found;
}

void list_texts(const ActiveRules& rules, http::Response& response) {
  JsonWriter json;
  json.begin_object().member("version", rules.version).key("files").begin_array();
  for (const RulesText& text : *rules.texts) {
    json.begin_object()
        .member("name", text.name)
        .member("bytes", std::uint64_t{text.text.size()})
        .end_object();
  }
  answer(response, 200, json.end_array().end_object());
}

// Returns whether the content type of a body may be YAML.
bool is_yaml(const http::Request& request) {
  Buffers buffers;
  const auto field = find_header(request.fields, "content-type", buffers);
  if (!field) return true;
  const http::Field type{trimmed(field->substr(0, field->find(';'))), {}};
  for (const std::string_view known : {"application/yaml", "application/x-yaml", "text/yaml",
                                       "text/x-yaml", "text/vnd.yaml", "text/plain"}) {
    if (has_name(type, known)) return true;
  }
  return false;
}

bool refuses_type(const Call& call) {
  if (is_yaml(call.request)) return false;
  call.response.add("Accept", "application/yaml");
  answer(call.response, {415,
                         "rules are YAML; expected Content-Type: application/yaml, or none "
                         "(curl -T FILE sends none)"});
  return true;
}

// A PUT replaces all rules. If they are in several files, the request must say so.
bool refuses_file(const Call& call) {
  Buffers buffers;
  const auto file = find_query(call.query, "file", buffers);
  if (file == "*") return false;
  if (file) {
    answer(call.response,
           {400, "rules are replaced as a whole, not file by file; expected file=* or no file="});
    return true;
  }
  const std::size_t files = call.parts.rules.active().texts->size();
  if (files == 1) return false;
  const std::string detail =
      "the active rules are from " + std::to_string(files) +
      " files, and the new rules would replace them all; expected ?file=* to confirm";
  answer(call.response, {409, detail});
  return true;
}

constexpr std::size_t kMostDifferences = 1000;

// Writes the differences between the active rules and others, as `sluice rules diff --json` does.
void write_differences(JsonWriter& json, const ActiveRules& active, std::string_view yaml) {
  std::vector<RuleText> before;
  before.reserve(active.texts->size());
  for (const RulesText& text : *active.texts) before.push_back({text.name, text.text});
  const RuleText after{"", yaml};
  const auto found = rules::compare_rules(before, {&after, 1});
  json.key("differences").begin_array();
  for (std::size_t i = 0; i < std::min(found.size(), kMostDifferences); ++i) {
    static constexpr std::array<std::string_view, 3> kKinds{"added", "removed", "changed"};
    const rules::RuleDifference& one = found[i];
    json.begin_object().member("change", kKinds[static_cast<std::size_t>(one.kind)]);
    const auto add = [&](std::string_view name, const std::string& value) {
      if (!value.empty()) json.member(name, value);
    };
    add("rule", one.rule);
    add("limit", one.limit);
    add("key", one.key);
    add("old", one.before);
    add("new", one.after);
    json.end_object();
  }
  json.end_array().member("more_differences", found.size() > kMostDifferences);
}

}  // namespace

void show_rules(const Call& call) {
  const ActiveRules rules = call.parts.rules.active();
  Buffers buffers;
  const auto name = find_query(call.query, "file", buffers);
  const RulesText* const text = name                       ? find_text(*rules.texts, *name)
                                : rules.texts->size() == 1 ? &rules.texts->front()
                                                           : nullptr;
  if (name && text == nullptr) {
    const std::string detail = "the active rules have no single file '" + std::string(*name) +
                               "'; GET /v1/status lists their files as sources";
    return answer(call.response, {404, detail});
  }
  add_version(rules, call.response);
  if (text == nullptr) return list_texts(rules, call.response);
  call.response.text = text->text;
  call.response.answer_text(200, "application/yaml");
}

void replace_rules(const Call& call) {
  if (refuses_type(call) || refuses_file(call)) return;
  std::optional<std::uint64_t> expected;
  if (has_condition(call)) {
    const ActiveRules now = call.parts.rules.active();
    if (!meets_condition(call, now)) return answer_other_version(call);
    expected = now.version;
  }
  const auto replaced =
      call.parts.rules.replace(std::string(call.request.body), "PUT /v1/rules", expected);
  if (!replaced && replaced.error().empty()) return answer_other_version(call);
  if (!replaced) return answer_errors(400, replaced.error(), call.response);
  call.done("rules replaced: version " + std::to_string(replaced->version));
  add_version(*replaced, call.response);
  JsonWriter json;
  json.begin_object().member("version", replaced->version);
  write_counts(json, replaced->rules);
  answer(call.response, 200, json.end_object());
}

void validate_rules(const Call& call) {
  if (refuses_type(call)) return;
  const auto rules = RuleSet::parse(call.request.body, "POST /v1/rules/validate");
  if (!rules) return answer_errors(400, rules.error(), call.response);
  const ActiveRules active = call.parts.rules.active();
  JsonWriter json;
  json.begin_object().member("version", active.version);
  write_counts(json, *rules);
  write_differences(json, active, call.request.body);
  answer(call.response, 200, json.end_object());
}

void reload_rules(const Call& call) {
  if (call.parts.rules.built_in()) {
    return answer(call.response, {409,
                                  "the server was started without rules files, so there is nothing "
                                  "to reload; expected --rules FILE at the start"});
  }
  const auto changed = call.parts.reload ? call.parts.reload() : call.parts.rules.reload();
  if (!changed) return answer_errors(409, changed.error(), call.response);
  const ActiveRules now = call.parts.rules.active();
  call.done("rules reloaded: version " + std::to_string(now.version));
  add_version(now, call.response);
  JsonWriter json;
  json.begin_object().member("version", now.version).member("changed", *changed);
  write_counts(json, now.rules);
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
