#include "rules/schema.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/calendar.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/cost_template.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "sluice/block.h"
#include "sluice/limit.h"
#include "sluice/rule.h"
#include "sluice/store.h"

namespace sluice::rules::schema {
namespace {

using base::JsonWriter;

// Names the algorithms that a key applies to; empty if it applies to all.
std::string only_for(const Key& key) {
  if (!key.only_for) return {};
  return " Only for " + base::joined(core::algorithms_with(*key.only_for), " and ") + ".";
}

// The maps around a value, and where each is in the schema, for "$ref".
using Maps = std::vector<std::pair<const Map*, std::string>>;

JsonWriter& write_map(JsonWriter& json, const Map& map, const std::string& at, Maps maps);

// Removes backquotes, which readers of JSON do not format.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '`') out += c;
  }
  return out;
}

std::string description(const Key& key) {
  std::string out = plain(key.help);
  out += only_for(key);
  if (!key.otherwise.empty()) out += " Default: " + plain(key.otherwise) + ".";
  return out;
}

JsonWriter& write_names(JsonWriter& json, std::string_view name,
                        const std::vector<std::string_view>& values) {
  return json.array(name, values);
}

// Attribute values are text, but YAML allows a pattern to be written as a number or a flag.
JsonWriter& write_match(JsonWriter& json) {
  json.member("type", "object").key("additionalProperties").begin_object();
  write_names(json, "type", {"string", "number", "boolean", "array", "object"});
  write_names(json.key("items").begin_object(), "type", {"string", "number", "boolean", "object"});
  return json.end_object().member("minItems", std::uint64_t{1}).end_object();
}

// Values are text, but YAML allows them to be written as a number or a flag.
JsonWriter& write_headers(JsonWriter& json, const Key& key) {
  json.member("type", "object").member("maxProperties", std::uint64_t{16});
  json.key("additionalProperties").begin_object();
  write_names(json, "type", {"string", "number", "boolean"});
  return json.member("maxLength", key.most).end_object();
}

JsonWriter& write_count(JsonWriter& json) {
  json.member("type", "object").member("minProperties", std::uint64_t{1});
  json.key("properties").begin_object().key("on").begin_object();
  write_names(json, "type", {"integer", "string", "array"});
  json.member("minimum", std::uint64_t{100}).member("maximum", std::uint64_t{599});
  write_names(json.key("items").begin_object(), "type", {"integer", "string"});
  json.end_object().end_object().end_object();
  return json.key("additionalProperties").begin_object().member("const", "add").end_object();
}

JsonWriter& write_range(JsonWriter& json, const Key& key) {
  return json.member("minimum", key.least).member("maximum", key.most);
}

JsonWriter& write_cost(JsonWriter& json, const Key& key) {
  write_range(write_names(json, "type", {"integer", "string"}), key);
  return json.member("pattern", R"(^request$|\{[^{}]+\}|^[0-9 ]+[*+]|price\.)");
}

JsonWriter& write_list(JsonWriter& json, const Key& key, const std::string& at, const Maps& maps) {
  json.member("type", "array");
  if (key.least > 0) json.member("minItems", key.least);
  json.member("maxItems", key.most).key("items").begin_object();
  return write_map(json, *key.map, at + "/items", maps).end_object();
}

JsonWriter& write_plans(JsonWriter& json, const Key& key, std::string at, const Maps& maps) {
  for (int depth = 0; depth < 2; ++depth) {
    json.member("type", "object").key("additionalProperties").begin_object();
    at += "/additionalProperties";
  }
  return write_map(json, *key.map, at, maps).end_object().end_object();
}

JsonWriter& write_prices(JsonWriter& json, const Key& key) {
  for (int depth = 0; depth < 2; ++depth) {
    json.member("type", "object").member("minProperties", std::uint64_t{1});
    json.key("additionalProperties").begin_object();
  }
  return write_range(json.member("type", "integer"), key).end_object().end_object();
}

std::string period_pattern(const Key& key) {
  std::string words;
  for (const std::string_view word : key.values) words.append("|").append(word);
  return words.empty() ? "^[0-9]+(ms|s|m|h|d)$" : "^([0-9]+(ms|s|m|h|d)" + words + ")$";
}

// `at`: the place of the key in the schema.
JsonWriter& write_type(JsonWriter& json, const Key& key, const std::string& at, const Maps& maps) {
  switch (key.type) {
    case Type::kText:
    case Type::kTemplate:
      json.member("type", "string");
      if (key.least > 0) json.member("minLength", key.least);
      return json.member("maxLength", key.most);
    case Type::kTexts:
      write_names(json, "type", {"string", "array"});
      return json.key("items").begin_object().member("type", "string").end_object();
    case Type::kInteger: return write_range(json.member("type", "integer"), key);
    case Type::kFlag: return json.member("type", "boolean");
    case Type::kChoice: return write_names(json, "enum", {key.values.begin(), key.values.end()});
    case Type::kPeriod: return json.member("type", "string").member("pattern", period_pattern(key));
    case Type::kPercent:
      return json.member("type", "string").member("pattern", "^([1-9][0-9]?|100)%$");
    case Type::kShare:
      json.member("type", "number").member("minimum", std::uint64_t{0});
      return json.member("maximum", std::uint64_t{1});
    case Type::kDay: return write_names(json, "type", {"integer", "string"});
    case Type::kCost: return write_cost(json, key);
    case Type::kCount: return write_count(json);
    case Type::kMatch: return write_match(json);
    case Type::kHeaders: return write_headers(json, key);
    case Type::kPlans: return write_plans(json, key, at, maps);
    case Type::kPrices: return write_prices(json, key);
    case Type::kMap: return write_map(json, *key.map, at, maps);
    case Type::kList: return write_list(json, key, at, maps);
  }
  return json;
}

JsonWriter& write_map(JsonWriter& json, const Map& map, const std::string& at, Maps maps) {
  for (const auto& [around, place] : maps) {
    if (around == &map) return json.member("$ref", place);
  }
  maps.emplace_back(&map, at);
  if (map.is_short) {
    write_names(json, "type", {"object", "string"});
  } else {
    json.member("type", "object");
  }
  json.member("additionalProperties", false);
  std::vector<std::string_view> required;
  for (const Key& key : map.keys) {
    if (key.required) required.push_back(key.name);
  }
  if (!required.empty()) write_names(json, "required", required);
  if (!map.one_of.empty()) json.key("oneOf").begin_array();
  for (const std::string_view name : map.one_of) {
    write_names(json.begin_object(), "required", {name}).end_object();
  }
  if (!map.one_of.empty()) json.end_array();
  json.key("properties").begin_object();
  for (const Key& key : map.keys) {
    json.key(key.name).begin_object().member("description", description(key));
    write_type(json, key, at + "/properties/" + std::string(key.name), maps).end_object();
  }
  return json.end_object();
}

std::string value_column(const Key& key) {
  switch (key.type) {
    case Type::kChoice: {
      std::string out;
      for (const std::string_view value : key.values) {
        out.append(out.empty() ? "`" : ", `").append(value).append("`");
      }
      return out;
    }
    case Type::kInteger:
      if (key.least == key.most) return "`" + std::to_string(key.least) + "`";
      return "whole number, " + std::to_string(key.least) + " to " + std::to_string(key.most);
    case Type::kText:
      return key.least == 0 ? "text, at most " + std::to_string(key.most) + " bytes"
                            : "text, " + std::to_string(key.least) + " to " +
                                  std::to_string(key.most) + " bytes";
    case Type::kFlag: return "`true`, `false`";
    case Type::kPeriod:
      if (!key.values.empty()) return "period, such as `60s`, or a word";
      return key.most == 0 ? "period, such as `60s`"
                           : "period, " + core::format_period(milliseconds(key.least)) + " to " +
                                 core::format_period(milliseconds(key.most));
    case Type::kPercent: return "percentage, such as `80%`";
    case Type::kShare: return "number from 0 to 1, such as `0.01`";
    case Type::kDay: return "day, such as `15`";
    case Type::kTexts: return "text, or list of texts";
    case Type::kTemplate: return "template, at most " + std::to_string(key.most) + " bytes";
    case Type::kCost:
      return "whole number, " + std::to_string(key.least) + " to " + std::to_string(key.most) +
             ", `request`, or sum of products";
    case Type::kCount: return "map of `on` to statuses, and of attributes to `add`";
    case Type::kMatch: return "map of attribute to pattern, or list of patterns; `not`";
    case Type::kHeaders: return "map of header to text";
    case Type::kPlans: return "map of plan to map of limit to numbers";
    case Type::kPrices: return "map of model to map of price to number";
    case Type::kMap: return key.map->is_short ? "text, or map" : "map";
    case Type::kList:
      return "list of " + std::to_string(key.least) + " to " + std::to_string(key.most);
  }
  return {};
}

// Writes the table of a map and of those below it, each map once.
void write_table(std::string& out, const Map& map, std::vector<const Map*>& written) {
  if (std::ranges::find(written, &map) != written.end()) return;
  written.push_back(&map);
  out.append("### ").append(map.name).append("\n\nThe keys of ").append(map.where).append(".\n\n");
  out += "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const Key& key : map.keys) {
    out.append("| `").append(key.name).append("` | ").append(value_column(key)).append(" | ");
    out.append(key.required ? "**required**" : key.otherwise).append(" | ").append(key.help);
    out.append(only_for(key)).append(" |\n");
  }
  out += "\n";
  for (const Key& key : map.keys) {
    if (key.map != nullptr) write_table(out, *key.map, written);
  }
}

}  // namespace

std::string json_schema(const Map& file, std::string_view title) {
  JsonWriter json;
  json.begin_object().member("$schema", "https://json-schema.org/draft/2020-12/schema");
  write_map(json.member("title", title), file, "#", {}).end_object();
  return base::indented(json.view());
}

std::string json_schema() { return json_schema(file(), "Rules of Sluice"); }

std::string reference(const Map& file) {
  std::string out;
  std::vector<const Map*> written;
  write_table(out, file, written);
  out.pop_back();
  return out;
}

namespace {

// In the order of their enumerators, on which kSet relies.
constexpr std::array<std::string_view, 2> kOnMissing{"skip", "deny"};
constexpr std::array<std::string_view, 2> kRuleModes{"enforce", "shadow"};
constexpr std::array<std::string_view, 2> kRuleActions{"allow", "deny"};
constexpr std::array<std::string_view, 4> kHeaderFields{"draft", "legacy", "both", "none"};

constexpr std::uint64_t kLongestTemplate = 1024;

constexpr Key name(Set set, std::string_view otherwise, std::string_view help) {
  return text("name", set, otherwise, 1, 128, help);
}

constexpr Key on_missing(Set set, std::string_view otherwise) {
  return choice("on_missing", set, otherwise, kOnMissing,
                "What happens if an attribute that `key` or `cost` needs is absent or empty. "
                "`skip`: the limit does not apply. `deny`: Sluice denies the request and charges "
                "no limit.");
}

constexpr Key on_store_error(Set set, std::string_view otherwise) {
  return choice("on_store_error", set, otherwise, kOnStoreError,
                "What happens if the store cannot decide: `allow` the request, `deny` it, or limit "
                "it within this process (`local`). If no local limiting is configured, `local` "
                "denies.");
}

constexpr Key headers(Set set, std::string_view otherwise) {
  return choice("headers", set, otherwise, kHeaderFields,
                "The response fields that report limits to clients. `draft`: RateLimit and "
                "RateLimit-Policy. `legacy`: X-RateLimit-Limit, -Remaining and -Reset. `both` or "
                "`none` of these.");
}

// A key of another type.
constexpr Key row(std::string_view name, Type type, Set set, std::string_view otherwise,
                  std::string_view help, std::uint64_t most = 0) {
  return text(name, set, otherwise, 0, most, help).as(type);
}

constexpr Key limit_option(LimitOption which) {
  const core::OptionInfo& option = core::info(which);
  return {.name = option.name,
          .type = option.is_time         ? Type::kPeriod
                  : option.words.empty() ? Type::kInteger
                                         : Type::kChoice,
          .otherwise = option.otherwise,
          .values = option.words,
          .least = option.least,
          .most = option.most,
          .only_for = which,
          .help = option.help};
}

constexpr Key limit_number(std::string_view otherwise) {
  return integer("limit", nullptr, otherwise, 0, kMaxAmount,
                 "Units per period, at most 4294967295; of `concurrency` units in flight, at most "
                 "65535; only of `budget` more. 0 denies every request.");
}
// The words that a period may be.
constexpr auto kPeriodWords = [] {
  std::array<std::string_view, core::kCalendarUnits.size() + 1> words;
  std::copy(core::kCalendarUnits.begin(), core::kCalendarUnits.end(), words.begin());
  words.back() = core::kNever;
  return words;
}();

constexpr Key kPer{
    .name = "per",
    .type = Type::kPeriod,
    .otherwise = "none; required with `limit`, except for `concurrency`",
    .values = kPeriodWords,
    .help =
        "The period, 1ms to 366d: a whole number and `ms`, `s`, `m`, `h` or `d`. For "
        "fixed_window and budget also `day`, `week`, `month` or `year` of the calendar (see "
        "Calendar); for a budget that does not renew `never`.",
};
constexpr Key kLease = row(
    "lease", Type::kPeriod, nullptr, "none; required for `concurrency`, instead of `per`",
    "For `concurrency`: how long a permit lasts if nobody releases or extends it, 1ms to "
    "366d (see Permits). For other algorithms, except `budget`: how long a server may use units "
    "that it takes ahead from Redis, 1ms to 10s (docs/operations.md).");

constexpr std::array<Key, 5> kPlanNumberKeys{
    required(limit_number("")),
    kPer,
    kLease,
    limit_option(LimitOption::kBurst),
    row("prices", Type::kPrices, nullptr, "those of the file",
        "Prices of models for requests of the plan. Other models have those of the file (see "
        "Prices).",
        kMaxAmount),
};
constexpr Map kPlanNumbers{"numbers", "each limit of each of `plans`", kPlanNumberKeys};

constexpr std::array<Key, 2> kPlanKeys{
    row("from", Type::kTemplate, kSet<&Rule::plan_from>, "none; then overrides choose other plans",
        "The attribute with the name of the plan, such as `\"{header.x-plan}\"`.",
        kLongestTemplate),
    required(text("default", kSet<&Rule::default_plan>, "", 1, 128,
                  "The plan of requests without such a name, or with an unknown one.")),
};
constexpr Map kPlan{"plan", "`plan`", kPlanKeys};

constexpr std::array<Key, 2> kPriceKeys{
    required(row("of", Type::kTemplate, nullptr, "",
                 "The attribute with the name of the model, such as `\"{body.model}\"`.",
                 kLongestTemplate)),
    text("default", nullptr,
         "none; then `on_missing` decides a request without a model, and a model without prices is "
         "an error",
         1, 128,
         "The model whose prices count for a request without a model, or with one that has no "
         "prices."),
};
constexpr Map kPrice{"price", "`price`", kPriceKeys};

constexpr Key block_period(std::string_view name, std::string_view otherwise,
                           std::string_view help) {
  constexpr auto kInMs = [](Duration time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  return period(name, nullptr, otherwise, kInMs(kMinPeriod), kInMs(kMaxPeriod), help);
}

constexpr std::array<Key, 5> kBlockKeys{
    required(integer("after", nullptr, "", 1, kMaxBlockDenials, "The denials that start a block.")),
    required(block_period("within", "", "The time within which they count, 1ms to 366d.")),
    required(block_period("for", "", "How long the first block lasts, 1ms to 366d.")),
    integer("grow", nullptr, "1", 1, kMaxBlockGrowth / 100,
            "How many times as long as the one before each further block lasts."),
    block_period("at_most", "24h, or `for` if that is longer",
                 "How long a block lasts at most, and how long a key must be without one until the "
                 "next block is a first one again."),
};
constexpr Map kBlock{"block", "`block`", kBlockKeys};

extern const Map kOverflow;

constexpr Key kLimitKey = row("key", Type::kTemplate, kSet<&RuleLimit::key>, "one counter for all",
                              "The template of the counter's key: requests with the same key share "
                              "a counter (see Keys).",
                              kLongestTemplate);
constexpr Key kZone =
    text("zone", nullptr, "`UTC`", 1, 64,
         "The time zone of windows of the calendar: a name of the IANA database, such as "
         "`Asia/Shanghai`.");
constexpr Key kStarts =
    row("starts", Type::kDay, nullptr, "the first of the month or of January; monday",
        "The first day of windows of the calendar: of a month 1 to 31 (in a shorter month "
        "its last day), of a week `monday` to `sunday`, of a year a date such as `04-06`.");
constexpr Key kCost =
    row("cost", Type::kCost, kSet<&RuleLimit::cost>, "the number that the request gives, else 1",
        "The units that a request takes from the limit: a number, `request` for the number "
        "that the request gives, or a sum of products of attributes, numbers and prices "
        "(see Costs).",
        kMaxAmount);
constexpr Key kPriceOf = map_of("price", kSameObject, "none; required if `cost` reads prices",
                                kPrice, "Which of `prices` the cost reads (see Prices).");
constexpr Key kWarn =
    row("warn", Type::kPercent, kSet<&RuleLimit::warn_percent>, "none",
        "How much of the limit a key uses when Sluice reports that it is near, such as "
        "`80%` (see Near the limit).");
constexpr Key kOverflowOf = map_of(
    "overflow", nullptr, "none", kOverflow,
    "The budget that is charged if this one has no room for the whole cost, only for `budget` (see "
    "Overflow).");

// Without a key's default: the limit before has one.
constexpr Key inherited(Key key) {
  key.otherwise = "that of the first budget";
  return key;
}

constexpr std::array<Key, 2> kShareKeys{
    row("weight", Type::kCost, kSet<&RuleLimit::share_weight>, "1",
        "Of what is left, a bucket gets a part in proportion to this: a number, or an attribute of "
        "the bucket, such as `\"{x-weight}\"` (docs/quota.md). 0: only `at_least`.",
        1'000'000),
    row("at_least", Type::kPercent, kSet<&RuleLimit::share_at_least>, "1%",
        "The part of the limit that a bucket gets even if it asks for less, as long as these fit."),
};
constexpr Map kShare{"share", "`share`", kShareKeys};

constexpr std::array<Key, 25> kLimitKeys{
    name(kSet<&RuleLimit::name>, "RULE/INDEX",
         "The name of the limit in responses and counters, unique within the rule. Name limits "
         "that you may reorder: the name is part of the keys of their counters."),
    kLimitKey,
    required(
        choice("algorithm", nullptr, "", core::kAllAlgorithmNames, "How requests are counted.")),
    limit_number("none; required, except in a rule with a `plan`"),
    kPer,
    kLease,
    kCost,
    kPriceOf,
    row("count", Type::kCount, nullptr, "every request",
        "Counts responses instead of requests: statuses `on` which a response costs the "
        "units of a request, and attributes of the response whose numbers to `add` (see "
        "Counting by the response)."),
    limit_option(LimitOption::kBurst),
    limit_option(LimitOption::kAlign),
    kZone,
    kStarts,
    limit_option(LimitOption::kSlices),
    limit_option(LimitOption::kWeighting),
    limit_option(LimitOption::kMode),
    limit_option(LimitOption::kRefill),
    limit_option(LimitOption::kOnExpiry),
    limit_option(LimitOption::kHolds),
    limit_option(LimitOption::kRemember),
    map_of("block", kSameObject, "none", kBlock,
           "Denies a key everything for a time after repeated denials (see Blocks)."),
    kWarn,
    map_of("share", kSameObject, "none", kShare,
           "How the quota service divides the limit among proxies (docs/quota.md). Not for "
           "`concurrency`, `budget` and limits with `count`."),
    on_missing(kSet<&RuleLimit::on_missing>, "from `defaults`"),
    kOverflowOf,
};
constexpr Map kLimit{"limit", "each of `limits`", kLimitKeys};

constexpr std::array<Key, 14> kOverflowKeys{
    required(name(kSet<&RuleLimit::name>, "",
                  "The name of the limit in responses and counters, unique within the rule.")),
    kLimitKey,
    limit_number("none; required, except in a rule with a `plan`"),
    kPer,
    kZone,
    kStarts,
    inherited(kCost),
    inherited(kPriceOf),
    inherited(limit_option(LimitOption::kOnExpiry)),
    inherited(limit_option(LimitOption::kHolds)),
    inherited(limit_option(LimitOption::kRemember)),
    inherited(kWarn),
    inherited(on_missing(kSet<&RuleLimit::on_missing>, "")),
    kOverflowOf,
};
constexpr Map kOverflow{"overflow", "`overflow`", kOverflowKeys};

constexpr std::array<Key, 4> kRejectKeys{
    integer("status", kSet<&Reject::status>, "429; 403 with `action: deny`", 400, 599,
            "The HTTP status of a denial."),
    text("body", kSet<&Reject::body>, "from the front end", 0, 65536,
         "The body of a denial. Sluice replaces `{retry_after}`, `{limit}`, `{remaining}` and "
         "`{reset_at}` (see Rejections), and changes nothing else."),
    text("content_type", nullptr, "JSON if the body begins with { or [, else text/plain", 1, 128,
         "The media type of `body`, such as `text/html; charset=utf-8`. Requires a `body`. The "
         "defaults are `application/json; charset=utf-8` and `text/plain; charset=utf-8`."),
    row("headers", Type::kHeaders, nullptr, "none",
        "Further headers of a denial, by name, at most 16; their values may have the same "
        "names in braces as `body` (see Rejections).",
        1024),
};
constexpr Map kReject{"reject", "`reject`", kRejectKeys};

constexpr std::array<Key, 2> kDegradeKeys{
    required(row("at", Type::kPercent, kSet<&Degrade::at_percent>, "",
                 "How much of a limit of the rule is used from then on, such as `90%`.")),
    row("headers", Type::kHeaders, nullptr, "none",
        "Headers of an allowed answer, for the upstream, by name, at most 16.", 1024),
};
constexpr Map kDegrade{"degrade", "`degrade`", kDegradeKeys};

constexpr std::array<Key, 13> kRuleKeys{
    required(name(kSet<&Rule::name>, "",
                  "The name of the rule in responses, metrics and counters, unique across all "
                  "files.")),
    row("match", Type::kMatch, nullptr, "every request",
        "Attributes and the patterns that all of them must match (see Matching)."),
    map_of("plan", kSameObject, "none", kPlan,
           "Where limits find their numbers: the plan of the request (see Plans)."),
    Key{.name = "limits",
        .type = Type::kList,
        .otherwise = "none; required without `action`",
        .least = 1,
        .most = kMaxCharges,
        .map = &kLimit,
        .help = "The limits. If one of them denies a request, none is charged."},
    choice("action", nullptr, "none; required without `limits`", kRuleActions,
           "What the rule does instead of limiting (see Allow and deny). `allow`: no limit of this "
           "or a later rule applies. `deny`: Sluice denies the request."),
    map_of("reject", kPart<&Rule::reject>, "429 and the body of the front end", kReject,
           "The response to a denied request."),
    map_of("degrade", kPart<&Rule::degrade>, "none", kDegrade,
           "What allowed answers say once a limit is nearly used up (see Degrade)."),
    choice("mode", kSet<&Rule::mode>, "`enforce`", kRuleModes,
           "`shadow`: the rule is decided and counted, but never denies a request."),
    flag("continue", kSet<&Rule::continues>, "`false`",
         "Whether Sluice also tries the rules after this one if this one matches."),
    row("tag", Type::kTemplate, kSet<&Rule::tag>, "none",
        "The template of a tag: counters with the same tag share a slot of a Redis Cluster "
        "(see Tags).",
        kLongestTemplate),
    integer("max_new_keys", kSet<&Rule::max_new_keys>, "no maximum", 1, kMaxUnits,
            "The most counters that the rule may create in each second (see New keys)."),
    on_store_error(kSet<&Rule::on_store_error>, "from `defaults`"),
    headers(kSet<&Rule::headers>, "from `defaults`"),
};
constexpr std::array<std::string_view, 2> kLimitsOrAction{"limits", "action"};
constexpr Map kRule{"rule", "each of `rules`", kRuleKeys, kLimitsOrAction};

constexpr std::array<Key, 3> kDefaultsKeys{
    on_store_error(kSet<&FileSettings::on_store_error>, "`allow`"),
    on_missing(kSet<&FileSettings::on_missing>, "`skip`"),
    headers(kSet<&FileSettings::headers>, "`both`"),
};
constexpr Map kDefaults{"defaults", "`defaults`", kDefaultsKeys};

constexpr std::array<Key, 7> kFileKeys{
    required(integer("version", nullptr, "", 1, 1, "The version of this format: 1.")),
    text("domain", kSet<&FileSettings::domain>, "`default`", 1, 128,
         "Separates the counters of these rules from those of other rules in the same store."),
    map_of("defaults", kSameObject, "see below", kDefaults,
           "Defaults for rules and limits that do not set these keys."),
    Key{.name = "trusted",
        .type = Type::kTexts,
        .otherwise = "none",
        .least = 1,
        .most = 256,
        .help = "Attributes that a gateway sets in each request, such as `header.x-user-id`, so "
                "that no client chooses them or leaves them out. Only warnings use them (see "
                "Warnings)."},
    Key{.name = "plans",
        .type = Type::kPlans,
        .otherwise = "none",
        .map = &kPlanNumbers,
        .help = "Numbers by plan and by name of the limit (see Plans)."},
    row("prices", Type::kPrices, nullptr, "none",
        "Prices of models or of other things, by model and by name, which costs multiply with "
        "amounts (see Prices).",
        kMaxAmount),
    Key{.name = "rules",
        .type = Type::kList,
        .required = true,
        .most = 100000,
        .map = &kRule,
        .help = "The rules, in the order in which Sluice tries them. May be empty: `[]`."},
};
constexpr Map kFile{"file", "the file", kFileKeys};

std::string text_expectation(const Key& key) {
  if (key.least > 0)
    return "text of " + std::to_string(key.least) + " to " + std::to_string(key.most) + " bytes";
  return "text of at most " + std::to_string(key.most) + " bytes";
}

std::string integer_expectation(const Key& key) {
  if (key.least == key.most) return std::to_string(key.least);
  return "a whole number from " + std::to_string(key.least) + " to " + std::to_string(key.most);
}

std::string period_expectation(const Key& key) {
  const std::string words = key.values.empty() ? "" : ", or " + either(key.values);
  if (key.most == 0) return "a whole number and its unit (ms, s, m, h or d), such as 60s" + words;
  return "a period from " + core::format_period(milliseconds(key.least)) + " to " +
         core::format_period(milliseconds(key.most)) + words;
}

}  // namespace

const Map& file() noexcept { return kFile; }

Duration milliseconds(std::uint64_t count) noexcept {
  return std::chrono::milliseconds{static_cast<std::int64_t>(count)};
}

std::string expectation(const Key& key) {
  switch (key.type) {
    case Type::kText: return text_expectation(key);
    case Type::kTexts: return text_expectation(key) + ", or a list of texts";
    case Type::kInteger: return integer_expectation(key);
    case Type::kFlag: return "true or false";
    case Type::kChoice: return either(key.values);
    case Type::kPeriod: return period_expectation(key);
    case Type::kPercent: return "a whole percentage from 1% to 100%, such as 80%";
    case Type::kShare: return "a number from 0 to 1, such as 0.01";
    case Type::kDay: return "a day such as 15, sunday or 04-06";
    case Type::kTemplate: return "a template in quotes, such as \"{ip}\"";
    case Type::kCost:
      return integer_expectation(key) +
             ", request, or attributes such as \"{body.max_tokens|500}\", also in a sum of "
             "products";
    case Type::kCount: return "a map such as { on: [401, 5xx], header.x-cost: add }";
    case Type::kMatch: return "a map of attributes and patterns, such as { path: /api/** }";
    case Type::kHeaders: return "a map of headers, such as { X-Reason: limited }";
    case Type::kPlans:
      return "a map of plans, such as { free: { requests: { limit: 60, per: 1m } } }";
    case Type::kPrices: return "a map of models, such as { gpt-large: { input: 3, output: 15 } }";
    case Type::kMap:
      return (key.map->is_short ? "a text, or a map of " : "a map of ") + std::string(key.name);
    case Type::kList: return "a list of " + std::string(key.name) + ", each starting with '- '";
  }
  return {};
}

}  // namespace sluice::rules::schema
