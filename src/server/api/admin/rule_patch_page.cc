#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/quoted.h"
#include "rules/rule_edit.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_patch_body.h"
#include "server/api/admin/rules_answers.h"
#include "server/protocol/http/request_target.h"

namespace sluice::server::pages {
namespace {

// "a, b, c and 97 more"
std::string some_names(std::span<const Rule> rules) {
  constexpr std::size_t kMost = 20;
  std::string out;
  for (std::size_t i = 0; i < std::min(rules.size(), kMost); ++i) {
    out.append(i == 0 ? "" : ", ").append(rules[i].name);
  }
  if (rules.size() > kMost) out += " and " + std::to_string(rules.size() - kMost) + " more";
  return out;
}

void answer_no_rule(const Call& call, const std::string& name, const RuleSet& rules) {
  const std::string detail =
      "there is no rule " + core::in_quotes(name) + "; expected " +
      (rules.rules().empty() ? "none, there are no rules" : "one of: " + some_names(rules.rules()));
  answer(call.response, {404, detail});
}

using Outcome = PushedRules::Outcome;

std::string_view end_of_change(const RulesManager& rules, Outcome outcome) {
  if (outcome == Outcome::kPushed) return "other rules are pushed";
  if (rules.built_in()) return "the server stops";
  if (rules.from_source()) return "other rules are pushed, or the server reloads or stops";
  return "the rules files or their lists change, or the server reloads or stops";
}

void answer_changed(const Call& call, const ActiveRules& before, const ActiveRules& now,
                    const std::string& file, Outcome outcome) {
  const bool changed = now.version != before.version;
  add_version(now, call.response);
  JsonWriter json;
  json.begin_object().member("version", now.version).member("changed", changed);
  write_counts(json, now.rules);
  json.member("file", file).member("active_until", end_of_change(call.parts.rules, outcome));
  answer(call.response, 200, json.end_object());
}

// Pushes checked rules, if the active rules are in Redis. Returns nothing after answering why they
// were not pushed.
std::optional<Outcome> push(const Call& call, const ActiveRules& before,
                            const std::vector<RulesText>& texts, const std::string& rule) {
  if (!call.parts.push || *before.texts == texts) return Outcome::kNotInRedis;
  if (const auto checked = call.parts.rules.check(texts); !checked) {
    answer_errors(400, checked.error(), call.response);
    return std::nullopt;
  }
  std::string by = "PATCH /v1/rules/" + rule;
  if (!call.request.peer.empty()) by.append(" from ").append(call.request.peer);
  const auto pushed = call.parts.push(*before.texts, texts, by);
  if (!pushed) {
    const std::string detail = "the rules in Redis could not be changed: " + pushed.error();
    answer(call.response, {503, detail});
    return std::nullopt;
  }
  if (*pushed == Outcome::kOthersPushed) {
    answer(call.response, {409,
                           "other rules were pushed at the same time; expected the same request "
                           "again, after a look at those rules"});
    return std::nullopt;
  }
  return *pushed;
}

void finish(const Call& call, const ActiveRules& before, const ActiveRules& now,
            const std::string& rule, const std::string& file, Outcome outcome) {
  if (now.version != before.version) {
    call.done("rule " + rule + " changed: version " + std::to_string(now.version));
  }
  answer_changed(call, before, now, file, outcome);
}

// A push has activated the rules, unless others came at the same time.
void finish_push(const Call& call, const ActiveRules& before, const std::vector<RulesText>& texts,
                 const std::string& rule, const std::string& file) {
  const ActiveRules now = call.parts.rules.active();
  if (*now.texts == texts) return finish(call, before, now, rule, file, Outcome::kPushed);
  answer(call.response, {409,
                         "the change is in Redis, but this server has got other rules at the same "
                         "time; look at its active rules"});
}

}  // namespace

void change_rule(const Call& call, std::string_view path) {
  const std::string name = decoded(path);
  const auto changes = read_rule_changes(call.request.body);
  if (!changes) return answer(call.response, {400, changes.error()});
  for (;;) {  // again, if the rules change meanwhile
    const ActiveRules now = call.parts.rules.active();
    if (!meets_condition(call, now)) return answer_other_version(call);
    if (now.rules.find(name) == nullptr) return answer_no_rule(call, name, now.rules);
    std::vector<RuleText> files;
    for (const RulesText& text : *now.texts) files.push_back({text.name, text.text});
    auto edit = rules::edit_rule(files, name, *changes);
    if (!edit) {
      return answer(call.response, {edit.error().is_unknown ? 400 : 409, edit.error().message});
    }
    std::vector<RulesText> texts = *now.texts;
    texts[edit->file].text = std::move(edit->text);
    const std::string file = texts[edit->file].name;
    const auto outcome = push(call, now, texts, name);
    if (!outcome) return;
    if (*outcome == Outcome::kPushed) return finish_push(call, now, texts, name, file);
    const auto revised = call.parts.rules.revise(std::move(texts), now.version);
    if (!revised && revised.error().empty()) continue;
    if (!revised) return answer_errors(400, revised.error(), call.response);
    return finish(call, now, *revised, name, file, *outcome);
  }
}

}  // namespace sluice::server::pages
