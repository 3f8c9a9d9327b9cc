#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/civil_time.h"
#include "base/json_reader.h"
#include "base/json_schema.h"
#include "base/quoted.h"
#include "base/request_target.h"
#include "core/calendar.h"
#include "core/period.h"
#include "rules/diagnostics.h"
#include "rules/rule_changes.h"
#include "rules/schema.h"
#include "server/api/admin/pages.h"
#include "server/api/admin/rule_selection.h"
#include "server/protocol/http/fields.h"
#include "server/rules/published_rules.h"
#include "sluice/expected.h"

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
    std::string_view one = trimmed(base::take_until(list, ','));
    if (one.size() > 1 && one.starts_with('"') && one.ends_with('"')) {
      one = one.substr(1, one.size() - 2);
    }
    if (one == "*" || one == tag || one == version) return true;
  }
  return false;
}

}  // namespace

// Adds the version of the rules and their ETag.
void add_version(const ActiveRules& rules, http::Response& response) {
  response.add("ETag", "\"" + tag_of(rules) + "\"");
  response.add("X-Sluice-Rules-Version", std::to_string(rules.version));
}

// Writes how many rules and limits there are, and the warnings about them, except for those that
// are known already.
void write_counts(JsonWriter& json, const RuleSet& rules, std::span<const RuleError> known = {}) {
  json.member("rules", std::uint64_t{rules.rules().size()})
      .member("limits", std::uint64_t{count_limits(rules)});
  std::vector<RuleError> warnings(rules.warnings().begin(), rules.warnings().end());
  std::erase_if(warnings, [&](const RuleError& one) {
    return std::ranges::any_of(known, [&](const RuleError& old) {
      return old.file == one.file && old.what == one.what;  // its line may be another one
    });
  });
  if (!warnings.empty()) write_errors(json.key("warnings"), warnings);
}

void answer_errors(int status, const RulesManager::Errors& errors, http::Response& response) {
  JsonWriter json;
  write_errors(json, errors);
  const std::string detail = errors.front().to_string();
  answer(response, {status, detail}, "\"errors\":" + std::string(json.view()));
}

// Whether the request has If-Match.
bool has_condition(const Call& call) {
  Buffers buffers;
  return find_header(call.request.fields, "if-match", buffers).has_value();
}

// Whether If-Match names these rules: "*", their ETag, or only their version.
bool meets_condition(const Call& call, const ActiveRules& rules) {
  Buffers buffers;
  const auto condition = find_header(call.request.fields, "if-match", buffers);
  return !condition || names_rules(*condition, rules);
}

void answer_other_version(const Call& call) {
  const ActiveRules now = call.admin.rules.active();
  add_version(now, call.response);
  const std::string detail = "If-Match does not name the active rules; expected version " +
                             std::to_string(now.version) + ", or its ETag of GET /v1/rules";
  answer(call.response, {412, detail, "Precondition Failed"});
}

}  // namespace sluice::server::pages

namespace sluice::server {
namespace {

using base::JsonProblem;
using base::JsonValue;

// The body of PATCH /v1/rules/RULE while it is read.
struct Patch {
  rules::RuleChanges changes;
  std::optional<Duration> length;  // how long the changes hold; 0: temporary changes end
  bool dry_run = false;
  std::string limit;               // the one that is read
  std::string model;               // whose prices are read
  std::size_t numbers_before = 0;  // of other limits
};

using Member = base::JsonMember<Patch>;
using Object = base::JsonObject<Patch>;

constexpr std::string_view kExample = R"({"limits":{"LIMIT":{"limit":20,"per":"1s"}}})";
constexpr std::string_view kSuchAs =
    R"(expected an object such as {"limits":{"LIMIT":{"limit":20,"per":"1s"}}})";
constexpr std::string_view kNumber =
    "expected a whole number from 0 to 9007199254740991, without quotes";
constexpr std::string_view kQuotedPeriod = "expected a period in quotes, such as \"1s\"";
constexpr std::string_view kMode = "expected \"enforce\" or \"shadow\"";
constexpr std::string_view kPolicy = "expected \"allow\", \"deny\" or \"local\"";
constexpr std::string_view kFor =
    "expected a period of at most 366d in quotes, such as \"1h\", or \"0s\" to end temporary "
    "changes";
constexpr std::string_view kNumbers = "expected an object with limit, per, lease or burst";
constexpr std::string_view kPlanPrices =
    R"(expected prices by model and name, such as {"large":{"input":4}})";

bool add_number(Patch& patch, const JsonValue& value, JsonProblem&) {
  patch.changes.numbers.push_back(
      {patch.limit, std::string(value.name),
       value.kind == base::kJsonWhole ? std::to_string(value.number) : std::string(value.text)});
  return true;
}

bool add_period(Patch& patch, const JsonValue& value, JsonProblem& problem) {
  if (!core::calendar_unit_from(value.text)) {
    const auto period = core::parse_period(value.text);
    const std::string member = "limits." + patch.limit + "." + std::string(value.name);
    if (!period) return problem.is(base::in_quotes(member) + ": " + period.error(), {});
  }
  return add_number(patch, value, problem);
}

bool begin_model(Patch& patch, const JsonValue& value, JsonProblem&) {
  patch.model = value.name;
  return true;
}

bool add_plan_price(Patch& patch, const JsonValue& value, JsonProblem& problem) {
  const std::string key = "prices." + patch.model + "." + std::string(value.name);
  std::vector<rules::RuleChanges::Number>& numbers = patch.changes.numbers;
  const auto is_same = [&](const auto& known) {
    return known.limit == patch.limit && known.key == key;
  };
  if (std::any_of(numbers.begin(), numbers.end(), is_same)) return problem.is_twice(value.name);
  numbers.push_back({patch.limit, key, std::to_string(value.number)});
  return true;
}

constexpr Member kOfModel[] = {
    {.kinds = base::kJsonWhole, .expected = kNumber, .set = add_plan_price, .most = kMaxAmount}};
constexpr Object kModel(kOfModel, nullptr, true);
constexpr Member kOfModels[] = {
    {.kinds = base::kJsonObject, .expected = kPlanPrices, .set = begin_model, .object = &kModel}};
constexpr Object kModels(kOfModels, nullptr, true);

constexpr Member kOfLimit[] = {
    {"limit", base::kJsonWhole, kNumber, add_number, kMaxAmount},
    {"per", base::kJsonText, kQuotedPeriod, add_period},
    {"lease", base::kJsonText, kQuotedPeriod, add_period},
    {"burst", base::kJsonWhole, kNumber, add_number, kMaxAmount},
    {.name = "prices", .kinds = base::kJsonObject, .expected = kPlanPrices, .object = &kModels}};
constexpr Object kLimit(
    kOfLimit,
    [](Patch& patch, JsonProblem& problem) {
      return patch.changes.numbers.size() > patch.numbers_before ||
             problem.is_value("empty", kNumbers);
    },
    false,
    "expected limit, per, lease or burst, or prices of a plan; other keys are changed by PUT "
    "/v1/rules");

bool begin_limit(Patch& patch, const JsonValue& value, JsonProblem& problem) {
  const auto is_same = [&](const auto& known) { return known.limit == value.name; };
  std::vector<rules::RuleChanges::Number>& numbers = patch.changes.numbers;
  if (std::any_of(numbers.begin(), numbers.end(), is_same)) return problem.is_twice(value.name);
  patch.limit = value.name;
  patch.numbers_before = numbers.size();
  return true;
}

constexpr auto kModes = std::to_array<std::string_view>({"enforce", "shadow"});

bool set_for(Patch& patch, const JsonValue& value, JsonProblem& problem) {
  constexpr Duration kLongest = std::chrono::hours(24 * 366);
  const auto period = core::parse_period(value.text);
  if (!period || *period > kLongest) return problem.is_value(base::in_quotes(value.text), kFor);
  patch.length = *period;
  return true;
}

constexpr Member kOfLimits[] = {
    {.kinds = base::kJsonObject, .expected = kNumbers, .set = begin_limit, .object = &kLimit}};
constexpr Object kLimits(kOfLimits, nullptr, true);

constexpr Member kOfPatch[] = {
    {.name = "limits", .kinds = base::kJsonObject, .expected = kSuchAs, .object = &kLimits},
    {.name = "mode",
     .kinds = base::kJsonText,
     .expected = kMode,
     .set = base::json_into<&Patch::changes, &rules::RuleChanges::mode>,
     .one_of = kModes},
    {.name = "on_store_error",
     .kinds = base::kJsonText,
     .expected = kPolicy,
     .set = base::json_into<&Patch::changes, &rules::RuleChanges::on_store_error>,
     .one_of = rules::schema::kOnStoreError},
    {"for", base::kJsonText, kFor, set_for},
    // Not a parameter of the query: an older server would ignore that, and change the rules.
    {"dry_run", base::kJsonTrue | base::kJsonFalse, "expected true or false",
     base::json_into<&Patch::dry_run>}};
constexpr Object kPatch(kOfPatch, nullptr, false,
                        "expected limits, mode, on_store_error, for or dry_run");
constexpr Member kPatchBody{.kinds = base::kJsonObject, .object = &kPatch};

// Errors: "'limits.user.per' is true; expected ...".
Expected<Patch> read_patch(std::string_view json) {
  Patch patch;
  JsonProblem problem;
  if (!base::JsonReader<Patch>().read(json, kPatchBody, patch, problem)) {
    return Unexpected{problem.message_by_path("the body is not a JSON object; expected " +
                                              std::string(kExample))};
  }
  const rules::RuleChanges& changes = patch.changes;
  const bool has_settings = changes.mode || changes.on_store_error;
  const bool ends = patch.length == Duration{0};
  if (ends && (has_settings || patch.dry_run || !changes.numbers.empty())) {
    return Unexpected{
        "'for' is \"0s\", which ends the temporary changes of the rule; expected it "
        "alone, or another period"};
  }
  if (changes.numbers.empty() && !has_settings && !ends) {
    return Unexpected{"the body changes nothing; expected " + std::string(kExample)};
  }
  return patch;
}

bool add_price(Patch& patch, const JsonValue& value, JsonProblem& problem) {
  const auto is_same = [&](const auto& known) { return known.key == value.name; };
  const std::vector<rules::RuleChanges::Number>& prices = patch.changes.numbers;
  if (std::any_of(prices.begin(), prices.end(), is_same)) return problem.is_twice(value.name);
  return add_number(patch, value, problem);
}

constexpr Member kOfPrices[] = {
    {.kinds = base::kJsonWhole, .expected = kNumber, .set = add_price, .most = kMaxAmount}};
constexpr Object kPrices(kOfPrices, nullptr, true);
constexpr Member kPricesBody{.kinds = base::kJsonObject, .object = &kPrices};

// Reads the body of PATCH /v1/prices/MODEL. Errors: as read_patch().
Expected<Patch> read_prices(std::string_view json) {
  constexpr std::string_view kSuch = R"(expected prices by name, such as {"input":4})";
  Patch patch;
  JsonProblem problem;
  if (!base::JsonReader<Patch>().read(json, kPricesBody, patch, problem)) {
    return Unexpected{
        problem.message_by_path("the body is not a JSON object; " + std::string(kSuch))};
  }
  if (patch.changes.numbers.empty()) {
    return Unexpected{"the body changes nothing; " + std::string(kSuch)};
  }
  return patch;
}

}  // namespace
}  // namespace sluice::server

namespace sluice::server::pages {

void write_patch_schema(JsonWriter& json) { base::write_json_schema(json, kPatchBody); }
void write_prices_schema(JsonWriter& json) { base::write_json_schema(json, kPricesBody); }

namespace {

constexpr std::size_t kMostDifferences = 1000;

// Writes the differences between two sets of rules, as `sluice rules diff --json` does.
void write_differences(JsonWriter& json, const std::vector<RulesText>& before,
                       std::span<const RuleText> after) {
  const auto found = rules::compare_rules(views_of(before), after);
  json.key("differences").begin_array();
  for (std::size_t i = 0; i < std::min(found.size(), kMostDifferences); ++i) {
    rules::write_json(found[i], json);
  }
  json.end_array().member("more_differences", found.size() > kMostDifferences);
}

using Outcome = PushedRules::Outcome;
using Pushed = PushedRules::Pushed;

// What a request changes: "PATCH /v1/rules/api", and who asked for it, if the request says so.
struct Subject {
  std::string kind;  // "rule", "plan", "prices of" or "version"
  std::string name;
  std::string request;
  std::string who = {};

  std::string by(const Call& call) const {
    std::string what = request;
    if (!call.request.peer.empty()) what.append(" from ").append(call.request.peer);
    return who.empty() ? what : who + " (" + what + ")";
  }
};

// Reads who asked: `by` of the query. Returns false after answering that it is no name.
bool read_who(const Call& call, Subject& subject) {
  const auto name = call.parameter("by");
  if (!name) return true;
  subject.who = *name;
  const std::string wrong = find_wrong_by(subject.who);
  if (wrong.empty()) return true;
  answer(call, 400, "'by' is no name; " + wrong);
  return false;
}

// What a change of rules makes of them, for the answer.
struct Effect {
  std::vector<RulesText> texts;
  std::string file;        // the one that changes
  std::string until = {};  // "other rules are pushed", or an instant
  std::string_view where = "this server";
  std::string note = {};           // why the rules in Redis are not changed
  std::uint64_t pushed = 0;        // their version in Redis; 0: they are not there
  const RuleSet* tried = nullptr;  // the rules whose warnings and numbers count instead
};

std::string end_of_change(const RulesManager& rules, Outcome outcome) {
  if (outcome == Outcome::kPushed) return "other rules are pushed";
  if (rules.built_in()) return "the server stops";
  if (rules.from_source()) return "other rules are pushed, or the server reloads or stops";
  return "the rules files or their lists change, or the server reloads or stops";
}

void answer_changed(const Call& call, const ActiveRules& before, const Effect& effect) {
  const ActiveRules now = call.admin.rules.active();
  add_version(now, call.response);
  JsonWriter json;
  json.begin_object().member("version", now.version);
  json.member("changed", now.version != before.version);
  write_counts(json, effect.tried != nullptr ? *effect.tried : now.rules, before.rules.warnings());
  if (effect.pushed > 0) json.member("pushed_version", effect.pushed);
  if (!effect.file.empty()) json.member("file", effect.file);
  json.member("active_until", effect.until).member("where", effect.where);
  if (!effect.note.empty()) json.member("note", effect.note);
  write_differences(json, *before.texts, views_of(effect.texts));
  answer(call.response, 200, json.end_object());
}

// Sets `why` instead, if there is one and Redis does not have the change.
void answer_not_pushed(const Call& call, const PushFailure& failure, std::string* why) {
  if (!failure.may_be_done && why != nullptr) {
    *why = failure.why;
    return;
  }
  std::string detail = "the rules in Redis could not be changed: " + failure.why;
  if (failure.may_be_done) {
    detail = "it is not known whether the rules in Redis are changed: " + failure.why +
             "; expected a look at GET /v1/rules/history, which has the change if they are, before "
             "the same request again";
    if (why != nullptr) detail += ", or 'for' with it, which changes this server only";
  }
  answer(call, 503, detail);
}

void answer_others(const Call& call, Outcome outcome, std::uint64_t active) {
  const RulesStatus rules = call.admin.rules.status();
  std::string detail =
      "other rules were pushed at the same time; expected the same request again, after a look at "
      "those rules";
  if (rules.lost_since) {
    detail = "the rules in Redis cannot be read: " + rules.why_lost +
             "; expected rules there, as sluice rules push FILE publishes them";
  } else if (outcome == Outcome::kOthersInRedis) {
    detail =
        "the rules in Redis are not the active ones; expected POST /v1/rules/reload, which takes "
        "them or says why it cannot, or POST /v1/rules/rollback?version=" +
        std::to_string(active) + ", which replaces them by the active ones";
  }
  answer(call, 409, detail);
}

// Pushes checked rules, if the active rules are in Redis. Returns nothing after answering why they
// were not pushed; if Redis was the reason and there is a `why`, sets that instead.
std::optional<Pushed> push(const Call& call, const ActiveRules& before,
                           const std::vector<RulesText>& texts, const Subject& subject,
                           std::string* why) {
  const bool replaces = subject.kind == "version";
  if (!call.admin.push || (*before.texts == texts && !replaces)) return Pushed{};
  if (const auto checked = call.admin.rules.check(texts); !checked) {
    answer_errors(400, checked.error(), call.response);
    return std::nullopt;
  }
  const auto pushed = call.admin.push(*before.texts, texts, subject.by(call), replaces);
  if (!pushed) {
    answer_not_pushed(call, pushed.error(), why);
    return std::nullopt;
  }
  if (pushed->outcome == Outcome::kOthersPushed || pushed->outcome == Outcome::kOthersInRedis) {
    answer_others(call, pushed->outcome, before.version);
    return std::nullopt;
  }
  return *pushed;
}

void finish(const Call& call, const ActiveRules& before, const Subject& subject, Effect effect) {
  const ActiveRules now = call.admin.rules.active();
  if (now.version != before.version) {
    const std::string what = subject.kind == "version"
                                 ? "rules rolled back to version " + subject.name
                                 : subject.kind + " " + subject.name + " changed";
    call.done(what + ": version " + std::to_string(now.version));
  }
  effect.texts = *now.texts;
  answer_changed(call, before, effect);
}

// A push has activated the rules, unless others came at the same time.
void finish_push(const Call& call, const ActiveRules& before, const Subject& subject,
                 Effect effect) {
  const ActiveRules now = call.admin.rules.active();
  // Those of a PUT have another name in Redis.
  if (std::ranges::equal(*now.texts, effect.texts, {}, &RulesText::text, &RulesText::text)) {
    return finish(call, before, subject, std::move(effect));
  }
  answer(call, 409,
         "the change is in Redis, but this server has got other rules at the same "
         "time; look at its active rules");
}

bool is_of(const TemporaryChange& change, const Subject& subject) {
  return change.rule == subject.name && change.of_plan == (subject.kind == "plan");
}

// Whether these changes replace a temporary one.
bool replaces(const rules::RuleChanges& by, const Subject& subject, const TemporaryChange& one) {
  if (!is_of(one, subject)) return false;
  if (one.limit.empty()) return (one.key == "mode" ? by.mode : by.on_store_error).has_value();
  return std::ranges::any_of(by.numbers, [&](const rules::RuleChanges::Number& number) {
    return number.limit == one.limit && number.key == one.key;
  });
}

// A later change of the rules themselves counts, not an earlier temporary one. Returns which of
// these it has ended, or an empty text.
std::string forget_changes(const Call& call, const Subject& subject, const rules::RuleChanges& by) {
  const auto ended = call.admin.rules.end_changes(
      [&](const TemporaryChange& one) { return replaces(by, subject, one); });
  std::string note;
  for (const TemporaryChange& one : ended) {
    note.append(note.empty() ? "on this server, this ends the change for a time of " : ", ");
    note.append(one.place()).append(": ").append(one.name()).append(" ").append(one.value);
  }
  return note;
}

// Returns the texts with these changes, except those that have no effect.
std::vector<RulesText> with_changes(std::vector<RulesText> texts,
                                    std::span<const TemporaryChange> changes) {
  for (const TemporaryChange& one : changes) {
    if (one.has_effect) write_change(texts, one);
  }
  return texts;
}

// Adds the changes for a time to the texts of the active rules, and their warnings.
ActiveRules with_temporary(const Call& call, ActiveRules rules,
                           std::span<const TemporaryChange> changes) {
  if (changes.empty()) return rules;
  rules.texts = std::make_shared<const std::vector<RulesText>>(with_changes(*rules.texts, changes));
  if (auto checked = call.admin.rules.check(*rules.texts)) rules.rules = *std::move(checked);
  return rules;
}

// Answers what a change would do, and the warnings that it would cause.
void try_change(const Call& call, ActiveRules now, const Subject& subject, const Patch& patch,
                Effect effect) {
  auto temporary = call.admin.rules.status().temporary;
  now = with_temporary(call, std::move(now), temporary);
  std::erase_if(temporary,
                [&](const TemporaryChange& one) { return replaces(patch.changes, subject, one); });
  effect.texts = with_changes(std::move(effect.texts), temporary);
  const auto checked = call.admin.rules.check(effect.texts);
  if (!checked) return answer_errors(400, checked.error(), call.response);
  effect.until = "nothing is changed";
  effect.tried = &*checked;
  answer_changed(call, now, effect);
}

// Puts the changes of a rule or a plan on top of the active rules of this server. Without
// an end, a value that the rules have themselves ends the temporary one instead.
void change_for_now(const Call& call, const ActiveRules& before, const Subject& subject,
                    const Patch& patch, Effect effect) {
  std::optional<Instant> until;
  if (patch.length) until = SystemClock().now() + *patch.length;
  std::vector<TemporaryChange> changes;
  const auto add = [&](std::string_view key, const std::optional<std::string>& value) {
    if (value) changes.push_back({subject.name, std::string(key), *value, until});
  };
  add("mode", patch.changes.mode);
  add("on_store_error", patch.changes.on_store_error);
  for (const rules::RuleChanges::Number& number : patch.changes.numbers) {
    changes.push_back({.rule = subject.name,
                       .key = number.key,
                       .value = number.value,
                       .until = until,
                       .limit = number.limit,
                       .of_plan = subject.kind == "plan"});
  }
  const Rule* const rule = before.rules.find(subject.name);
  const bool may_lack_value = rule != nullptr && rule->action != RuleAction::kLimit;
  if (may_lack_value || !patch.changes.numbers.empty()) {
    const auto checked = call.admin.rules.check(effect.texts);
    if (!checked) return answer_errors(400, checked.error(), call.response);
  }
  const ActiveRules was = with_temporary(call, before, call.admin.rules.status().temporary);
  effect.texts = with_changes(*was.texts, changes);
  const auto tried = call.admin.rules.check(effect.texts);  // for its warnings
  if (tried) effect.tried = &*tried;
  rules::RuleChanges ended;
  std::erase_if(changes, [&](const TemporaryChange& one) {
    const auto texts = with_changes(*before.texts, {&one, 1});
    if (until || !rules::compare_rules(views_of(*before.texts), views_of(texts)).empty()) {
      return false;
    }
    (one.key == "mode" ? ended.mode : ended.on_store_error) = one.value;
    return true;
  });
  if (changes.empty()) {
    effect.until = "its next change";
    effect.note.clear();
  } else {
    effect.until = until ? base::to_rfc3339(*until) : "other rules are active, or the server stops";
    const auto done = call.admin.rules.change_for_now(
        changes, subject.by(call) + (until ? ", for a time" : ", on this server only"));
    if (!done) return answer_errors(409, done.error(), call.response);
  }
  static_cast<void>(forget_changes(call, subject, ended));
  if (const std::uint64_t now = call.admin.rules.version(); now != before.version) {
    call.done(subject.kind + " " + subject.name + " changed on this server: version " +
              std::to_string(now) + ", until " + effect.until);
  }
  answer_changed(call, was, effect);
}

// Ends the changes for a time of a rule or a plan, which may be gone. If there are none, ends those
// without an end.
void end_changes(const Call& call, const ActiveRules& before, const Subject& subject) {
  auto ended = call.admin.rules.end_changes(
      [&](const TemporaryChange& one) { return one.until && is_of(one, subject); });
  if (ended.empty()) {
    ended = call.admin.rules.end_changes(
        [&](const TemporaryChange& one) { return is_of(one, subject); });
  }
  if (ended.empty() && subject.kind == "rule" && !find_rule(call, before.rules, subject.name)) {
    return;
  }
  if (ended.empty()) {
    return answer(call, 409,
                  subject.kind + " " + base::in_quotes(subject.name) +
                      " has no temporary change; expected a " + subject.kind +
                      " of 'temporary' in GET /v1/status");
  }
  const ActiveRules now = call.admin.rules.active();
  call.done("temporary changes of " + subject.kind + " " + subject.name + " ended: version " +
            std::to_string(now.version));
  std::string note;
  for (const TemporaryChange& one : call.admin.rules.status().temporary) {
    if (!is_of(one, subject)) continue;
    note.append(note.empty() ? "this server still has " : ", ")
        .append(one.name() + " " + one.value);
  }
  if (!note.empty()) note += " until other rules are active; the same request again ends that";
  answer_changed(call, before,
                 {.texts = *before.texts, .file = {}, .until = "its next change", .note = note});
}

// Why the rules in Redis cannot be changed now. Empty: nothing is known, or they are not there.
std::string why_not_in_redis(const Call& call) {
  if (!call.admin.rules.from_source()) return {};
  const RulesStatus rules = call.admin.rules.status();
  return rules.lost_since ? rules.why_lost : call.admin.status().store.why_failing;
}

// Replaces the active rules by what `change` makes of them. `change` returns nothing after
// answering why it cannot, or that it has. With a `patch` it may be for a time, and then for this
// server only; without numbers that works while Redis fails too.
template <typename Change>
void change_texts(const Call& call, Subject subject, const Change& change,
                  const Patch* patch = nullptr) {
  if (!read_who(call, subject)) return;
  const bool fits_here = patch != nullptr && (patch->changes.numbers.empty() || patch->length);
  for (;;) {  // again, if the rules change meanwhile
    const ActiveRules now = call.admin.rules.active();
    if (!meets_condition(call, now)) return answer_other_version(call);
    std::optional<Effect> changed = change(now);
    if (!changed) return;
    Effect& effect = *changed;
    if (patch != nullptr && patch->dry_run) {
      return try_change(call, now, subject, *patch, std::move(effect));
    }
    std::string why = fits_here ? why_not_in_redis(call) : std::string();
    std::optional<Pushed> pushed;
    if (why.empty() && !(fits_here && patch->length)) {
      pushed = push(call, now, effect.texts, subject, fits_here ? &why : nullptr);
      if (!pushed && why.empty()) return;
    }
    if (!pushed) {
      if (!patch->length) effect.note = "the rules in Redis are not changed: " + why;
      return change_for_now(call, now, subject, *patch, std::move(effect));
    }
    effect.until = end_of_change(call.admin.rules, pushed->outcome);
    if (pushed->outcome == Outcome::kPushed) {
      effect.pushed = pushed->version;
      if (patch != nullptr) effect.note = forget_changes(call, subject, patch->changes);
      effect.where = "all servers";
      return finish_push(call, now, subject, std::move(effect));
    }
    const auto revised =
        call.admin.rules.revise(std::move(effect.texts), now.version, subject.by(call));
    if (!revised && revised.error().empty()) continue;
    if (!revised) return answer_errors(400, revised.error(), call.response);
    if (patch != nullptr) effect.note = forget_changes(call, subject, patch->changes);
    return finish(call, now, subject, std::move(effect));
  }
}

// Changes a rule or a plan, or ends its temporary changes.
template <typename Change>
void change_or_end(const Call& call, const Subject& subject, const Patch& patch,
                   const Change& change) {
  const auto change_if_meant = [&](const ActiveRules& now) -> std::optional<Effect> {
    if (patch.length != Duration{0}) return change(now);
    end_changes(call, now, subject);
    return std::nullopt;
  };
  change_texts(call, subject, change_if_meant, &patch);
}

// Returns the texts with the edit of one of them, or nothing after answering why it failed.
std::optional<Effect> edited(const Call& call, const ActiveRules& now,
                             Expected<rules::RuleEdit, rules::EditError> edit) {
  if (!edit) {
    using Unknown = rules::EditError::Unknown;
    const Unknown unknown = edit.error().unknown;
    const int status = unknown == Unknown::kWhole ? 404 : unknown == Unknown::kPart ? 400 : 409;
    return refuse(call, status, edit.error().message);
  }
  Effect changed{*now.texts, (*now.texts)[edit->file].name};
  changed.texts[edit->file].text = std::move(edit->text);
  return changed;
}

}  // namespace

void change_rule(const Call& call) {
  const std::string name = base::decoded(call.name);
  const auto patch = read_patch(call.request.body);
  if (!patch) return answer(call, 400, patch.error());
  change_or_end(call, {"rule", name, "PATCH /v1/rules/" + name}, *patch, [&](const auto& now) {
    if (find_rule(call, now.rules, name) == nullptr) return std::optional<Effect>();
    return edited(call, now, rules::edit_rule(views_of(*now.texts), name, patch->changes));
  });
}

void change_plan(const Call& call) {
  const std::string name = base::decoded(call.name);
  const auto patch = read_patch(call.request.body);
  if (!patch) return answer(call, 400, patch.error());
  const std::string_view other = patch->changes.mode             ? "mode"
                                 : patch->changes.on_store_error ? "on_store_error"
                                                                 : "";
  if (!other.empty()) {
    return answer(call, 400,
                  base::in_quotes(other) + " is of a rule, not of a plan; expected limits");
  }
  change_or_end(call, {"plan", name, "PATCH /v1/plans/" + name}, *patch, [&](const auto& now) {
    return edited(
        call, now,
        rules::edit_shared(views_of(*now.texts), rules::kSharedPlans, name, patch->changes));
  });
}

void change_prices(const Call& call) {
  const std::string model = base::decoded(call.name);
  const auto patch = read_prices(call.request.body);
  if (!patch) return answer(call, 400, patch.error());
  const auto change = [&](const ActiveRules& now) {
    return edited(
        call, now,
        rules::edit_shared(views_of(*now.texts), rules::kSharedPrices, model, patch->changes));
  };
  change_texts(call, {"prices of", model, "PATCH /v1/prices/" + model}, change);
}

namespace {

// Returns the rules that the query names by `version`, or nothing after answering which there are.
std::optional<PastRules> find_past(const Call& call, std::string_view version) {
  const std::vector<PastRules> past = call.admin.rules.history();
  for (const PastRules& one : past) {
    if (std::to_string(one.version) == version) return one;
  }
  return refuse(call, 404,
                "this server has no rules of version " + base::in_quotes(version) + "; expected " +
                    std::to_string(past.back().version) + " to " +
                    std::to_string(past.front().version) + ", the versions that it keeps");
}

void write_past(JsonWriter& json, const PastRules& past) {
  json.member("version", past.version).member("at", past.at).member("by", past.by);
  json.member("files", std::uint64_t{past.texts->size()})
      .member("bytes", std::uint64_t{past.bytes()});
  write_temporary(json, past.temporary);
}

}  // namespace

void show_rules_history(const Call& call) {
  JsonWriter json;
  json.begin_object();
  if (const auto version = call.parameter("version")) {
    const auto past = find_past(call, *version);
    if (!past) return;
    write_past(json, *past);
    json.key("texts").begin_array();
    for (const RulesText& text : *past->texts) {
      json.begin_object().member("name", text.name).member("text", text.text).end_object();
    }
    return answer(call.response, 200, json.end_array().end_object());
  }
  json.key("versions").begin_array();
  for (const PastRules& one : call.admin.rules.history()) {
    json.begin_object();
    write_past(json, one);
    json.end_object();
  }
  answer(call.response, 200, json.end_array().end_object());
}

void roll_back_rules(const Call& call) {
  const auto version = call.parameter("version");
  if (!version) {
    return answer(call, 400,
                  "'version' is missing; expected ?version=N with a version of GET "
                  "/v1/rules/history");
  }
  const auto past = find_past(call, *version);
  if (!past) return;
  const auto change = [&](const ActiveRules&) -> std::optional<Effect> {
    return Effect{*past->texts, past->texts->front().name};
  };
  // Each server counts its versions for itself, so the history in Redis needs the push.
  const std::size_t push = past->by.find("push ");
  const std::string of =
      call.admin.push && push != past->by.npos
          ? " of a server, " + past->by.substr(push, past->by.find(' ', push + 5) - push)
          : "";
  change_texts(call, {"version", *version, "rollback to version " + *version + of}, change);
}

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
  answer(call, 415,
         "rules are YAML; expected Content-Type: application/yaml, or none "
         "(curl -T FILE sends none)");
  return true;
}

// A PUT replaces all rules. If they are in several files, the request must say so.
bool refuses_file(const Call& call) {
  const auto file = call.parameter("file");
  if (file == "*") return false;
  if (file) {
    answer(call, 400,
           "rules are replaced as a whole, not file by file; expected file=* or no file=");
    return true;
  }
  const std::size_t files = call.admin.rules.active().texts->size();
  if (files == 1) return false;
  answer(call, 409,
         "the active rules are from " + std::to_string(files) +
             " files, and the new rules would replace them all; expected ?file=* to confirm");
  return true;
}

}  // namespace

void show_rules(const Call& call) {
  const ActiveRules rules = call.admin.rules.active();
  const auto name = call.parameter("file");
  const RulesText* const text = name                       ? find_text(*rules.texts, *name)
                                : rules.texts->size() == 1 ? &rules.texts->front()
                                                           : nullptr;
  if (name && text == nullptr) {
    return answer(call, 404,
                  "the active rules have no single file '" + *name +
                      "'; GET /v1/status lists their files as sources");
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
    const ActiveRules now = call.admin.rules.active();
    if (!meets_condition(call, now)) return answer_other_version(call);
    expected = now.version;
  }
  if (call.parameter("strict") == "true") {
    const auto rules = call.admin.rules.validate(std::string(call.request.body), "PUT /v1/rules");
    if (rules && !rules->warnings().empty()) {
      const auto warnings = rules->warnings();
      return answer_errors(400, {warnings.begin(), warnings.end()}, call.response);
    }
  }
  const auto replaced =
      call.admin.rules.replace(std::string(call.request.body), "PUT /v1/rules", expected,
                               Subject{"rules", "", "PUT /v1/rules"}.by(call));
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
  const auto rules =
      call.admin.rules.validate(std::string(call.request.body), "POST /v1/rules/validate");
  if (!rules) return answer_errors(400, rules.error(), call.response);
  const ActiveRules active = call.admin.rules.active();
  JsonWriter json;
  json.begin_object().member("version", active.version);
  write_counts(json, *rules);
  const RuleText after{"", call.request.body};
  write_differences(json, *active.texts, {&after, 1});
  write_replay(json, call, active.rules, *rules);
  answer(call.response, 200, json.end_object());
}

void reload_rules(const Call& call) {
  if (call.admin.rules.built_in()) {
    return answer(call, 409,
                  "the server was started without rules files, so there is nothing "
                  "to reload; expected --rules FILE at the start");
  }
  const auto changed = call.admin.reload ? call.admin.reload() : call.admin.rules.reload();
  if (!changed) return answer_errors(409, changed.error(), call.response);
  const ActiveRules now = call.admin.rules.active();
  call.done("rules reloaded: version " + std::to_string(now.version));
  add_version(now, call.response);
  JsonWriter json;
  json.begin_object().member("version", now.version).member("changed", *changed);
  write_counts(json, now.rules);
  answer(call.response, 200, json.end_object());
}

}  // namespace sluice::server::pages
