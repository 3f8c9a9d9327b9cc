// Reads rules from YAML into a RuleSet. It reads every file to the end and collects each error with
// its place, so that one run reports all of them. Nothing of a file with an error is used.

#include "rules/rule_set.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/quoted.h"
#include "core/calendar.h"
#include "core/limit.h"
#include "core/period.h"
#include "limiter/answer.h"
#include "limiter/without_scripts.h"
#include "rules/attributes.h"
#include "rules/counter_key.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/list_files.h"
#include "rules/plans.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"
#include "sluice/block.h"
#include "sluice/limit_builder.h"
#include "sluice/rule_set.h"

namespace sluice::rules {
namespace {

// Reads the calendar of a limit: `per` of its numbers, `zone` and `starts` of the limit itself.
// Returns null if `per` is a period, or if something is wrong, which is reported.
const Calendar* read_calendar(const Fields& numbers, const Fields& limit,
                              Diagnostics& diagnostics) {
  const auto unit = core::calendar_unit_from(numbers.text("per"));
  if (!unit) {
    for (const char* name : {"zone", "starts"}) {
      if (!limit.has(name)) continue;
      diagnostics.add_message(limit.at(name),
                              std::string("'") + name + "' " + std::string(core::kNeedsCalendar));
    }
    return nullptr;
  }
  CalendarSpec spec{.unit = *unit};
  if (limit.node("starts") != nullptr) {
    const auto started = core::starting(spec, limit.text("starts"));
    if (!started) diagnostics.add_message(limit.at("starts"), started.error());
    spec = started ? *started : spec;
  }
  if (limit.node("zone") != nullptr) spec.zone = limit.text("zone");
  const auto calendar = Calendar::make(spec);
  if (calendar) return *calendar;
  diagnostics.add_message(limit.at("zone"), calendar.error());
  return nullptr;
}

// What an `overflow` has from the first budget of its row if it does not say it.
constexpr std::array<std::string_view, 8> kInherited{
    "algorithm", "cost", "price", "on_expiry", "holds", "remember", "warn", "on_missing"};
// Keys that count, or name counters.
constexpr std::array<std::string_view, 5> kOfCounters{"limits", "plan", "tag", "max_new_keys",
                                                      "degrade"};

void refuse(const Fields& rule, std::string_view key, std::string_view action,
            Diagnostics& diagnostics) {
  if (!rule.has(key)) return;
  diagnostics.add(rule.at(key),
                  "'" + std::string(key) + "' with 'action: " + std::string(action) + "'",
                  "expected a rule without '" + std::string(key) + "'");
}

// Reads `action` of a rule, and reports keys of the rule that contradict it: `limits` is missing
// without an action, and most keys mean nothing with one.
RuleAction read_action(const Fields& rule, Diagnostics& diagnostics) {
  if (rule.node("action") == nullptr) {
    if (!rule.has("limits") && !rule.has("action")) {
      diagnostics.add(
          rule.at("limits"), "rule lacks 'limits'",
          "expected 'limits:' with " + schema::expectation(rule.key("limits")) + ", or 'action:'");
    }
    return RuleAction::kLimit;
  }
  const std::string_view name = rule.text("action");
  for (const std::string_view key : kOfCounters) refuse(rule, key, name, diagnostics);
  if (name == "deny") return RuleAction::kDeny;
  refuse(rule, "reject", name, diagnostics);
  if (rule.flag("continue") == true) refuse(rule, "continue", name, diagnostics);
  if (rule.choice<RuleMode>("mode") == RuleMode::kShadow) {
    diagnostics.add(rule.at("mode"), "'mode: shadow' with 'action: allow'",
                    "expected 'mode: enforce', or no 'mode'");
  }
  return RuleAction::kAllow;
}

// Appends the patterns of a condition for people: at most about a line.
void append_written(const Node& node, std::string& out) {
  constexpr std::size_t kMost = 80;
  if (out.size() > kMost) return;
  if (node.is_scalar()) {
    out.append(in_quotes(node.text));
  } else if (node.is_map()) {
    for (const auto& [key, value] : node.pairs) append_written(*value, out += key->text + " ");
  } else {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (out.size() > kMost) return static_cast<void>(out += " …");
      if (i > 0) out += i + 1 == node.items.size() ? " or " : ", ";
      append_written(*node.items[i], out);
    }
  }
}

constexpr std::array<std::string_view, 9> kMethods{"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                   "CONNECT", "OPTIONS", "TRACE", "PATCH"};

// An expression takes kilobytes and microseconds, and aliases create many of them from few bytes.
constexpr std::size_t kMaxExpressions = 10000;
// A request may run all expressions of a file, each over every byte of a value.
constexpr std::size_t kMaxInstructions = 200'000;
constexpr std::size_t kLongestPattern = 4096;
// Steps to find rules that no request reaches: three for each pair of rules with one pattern.
constexpr std::size_t kMostReachSteps = 1'000'000;

// Returns an expression that matches only this text.
std::string as_expression(std::string_view text) {
  std::string out = "~";
  for (const char c : text) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out;
}

// Reads the `match` of rules:
//
//   path: /api/**                          one pattern
//   ip: [10.0.0.0/8, "2001:db8::/32"]      one of several
//   header.x-user: { in: users.txt }       one of the entries of a file
//   header.x-client: { network: VALUE }    the same for networks of an attribute other than `ip`
//   not: { ... }                           none of these conditions
class MatchReader {
 public:
  // Borrows its arguments.
  MatchReader(AttributeTable& attributes, const RuleTerms& terms, ListFiles& lists, Warn warn)
      : attributes_(attributes), terms_(terms), lists_(lists), warn_(std::move(warn)) {}

  // Begins the next file.
  void begin(Diagnostics& diagnostics) {
    diagnostics_ = &diagnostics;
    expressions_ = 0;
    instructions_ = 0;
  }

  std::vector<Condition> read(const Node& match) {
    std::vector<Condition> out;
    read_conditions(match, false, out);
    return out;
  }

 private:
  void read_conditions(const Node& map, bool negated, std::vector<Condition>& out) {
    std::unordered_map<std::uint32_t, std::size_t> seen;
    for (const auto& [key, value] : map.pairs) {
      if (key->text == "not" && !negated) {
        if (value->is_map() && !value->pairs.empty()) {
          read_conditions(*value, true, out);
        } else {
          diagnostics_->add(value->at, "'not' is " + describe(*value),
                            "expected a map of attributes and patterns, such as { path: /health }");
        }
        continue;
      }
      if (auto wrong = find_name_error(key->text)) {
        diagnostics_->add_message(key->at, *wrong);
        continue;
      }
      warn_of_attribute(key->text, key->at, warn_);
      if (key->text == "status") {
        warn_(key->at, "no front end sends the attribute 'status' with a request",
              "expected 'count: { on: ... }' of a limit, for the status of a response");
      }
      condition_ = {};
      condition_.attribute = attributes_.number(key->text);
      condition_.negated = negated;
      append_written(*value, condition_.written);
      const auto [first, is_new] = seen.try_emplace(condition_.attribute, key->at);
      if (!is_new) {
        diagnostics_->add(
            key->at, "duplicate attribute " + in_quotes(attributes_.names()[condition_.attribute]),
            "expected a name other than that of " + diagnostics_->place(first->second));
      }
      attribute_ = key->text;
      read_value(*value, false);
      condition_.own_networks.build();
      condition_.has_networks = !condition_.own_networks.empty() || !condition_.networks.empty();
      out.push_back(std::move(condition_));
    }
  }

  // `of_networks`: values below `network`, which are compared as networks only. Those of `ip` are
  // if they are some, and all others as text.
  void read_value(const Node& node, bool of_networks) {
    if (node.is_map()) return read_map(node, of_networks);
    if (!node.is_sequence()) return read_scalar(node, of_networks);
    if (node.items.empty()) {
      diagnostics_->add(node.at, in_quotes(attribute_) + " has no patterns",
                        "expected a pattern, or a list of patterns");
    }
    for (const Node* item : node.items) {
      item->is_map() ? read_map(*item, of_networks) : read_scalar(*item, of_networks);
    }
  }

  void read_map(const Node& node, bool of_networks) {
    const std::string expected = of_networks
                                     ? "expected 'in: FILE'"
                                     : "expected a pattern, a list of patterns, 'in: FILE' or "
                                       "'network: [...]'";
    if (node.pairs.size() != 1) {
      const std::string what =
          node.pairs.empty() ? " is an empty map" : " is a map of several keys";
      return diagnostics_->add(node.at, in_quotes(attribute_) + what, expected);
    }
    const auto& [key, value] = node.pairs.front();
    if (key->text == "in") return read_file(*value, of_networks);
    if (key->text == "network" && !of_networks) return read_value(*value, true);
    diagnostics_->add(key->at, "unknown key " + in_quotes(key->text),
                      expected + (of_networks ? "" : did_you_mean(key->text, {"in", "network"})));
  }

  void read_file(const Node& node, bool of_networks) {
    if (!node.is_scalar() || node.text.empty() || node.text.find('\0') != node.text.npos) {
      return diagnostics_->add(node.at, "'in' is " + describe(node), "expected the path of a file");
    }
    if (!terms_.reads_lists) {
      return diagnostics_->add(node.at,
                               "'in' names a file, and these rules were not read from a file",
                               "expected the entries themselves, as a list");
    }
    namespace fs = std::filesystem;
    const std::string path = (fs::path(diagnostics_->file()).parent_path() / node.text).string();
    const auto add = [&](auto& sets, const auto& list) {
      if (list) sets.push_back(*list);
      return list ? std::string() : list.error();
    };
    const std::string problem = is_text(of_networks)
                                    ? add(condition_.texts, lists_.texts(path))
                                    : add(condition_.networks, lists_.networks(path));
    if (problem.empty()) return;
    diagnostics_->add(node.at, "the list " + in_quotes(path) + " cannot be read: " + problem,
                      "expected the path of a file, relative to the folder of the rules file");
  }

  void read_scalar(const Node& node, bool of_networks) {
    if (!node.is_scalar() || node.text.size() > kLongestPattern) {
      return diagnostics_->add(
          node.at, in_quotes(attribute_) + " is " + describe(node),
          (of_networks ? "expected an address or a network, or a list of them"
                       : "expected a pattern of at most 4096 bytes, or a list of patterns") +
              full_width_hint(attribute_));
    }
    if (is_text(of_networks) ? !looks_like_network(node.text) : !read_network(node, of_networks)) {
      return read_pattern(node);
    }
    if (!is_text(of_networks)) return;
    diagnostics_->add(node.at,
                      in_quotes(node.text) + " is a network, and " + in_quotes(attribute_) +
                          " is compared as text",
                      "expected { network: " + node.text + " } if " + in_quotes(attribute_) +
                          " is an address, or '" + as_expression(node.text) + "' for this text");
  }

  // Returns whether the text is an address or a network, right or wrong.
  bool read_network(const Node& node, bool of_networks) {
    const auto network = parse_network(node.text);
    if (!network) {
      diagnostics_->add_message(node.at, network.error());
      return true;
    }
    if (*network) {
      condition_.own_networks.add(**network);
      return true;
    }
    // Such a text would match no address.
    const bool is_wrong =
        of_networks || (node.text.find_first_of("*~") == node.text.npos &&
                        node.text.find_first_of("0123456789") != node.text.npos &&
                        node.text.find_first_not_of("0123456789abcdefABCDEF.:/") == node.text.npos);
    if (is_wrong) {
      diagnostics_->add(node.at, in_quotes(node.text) + " is not an address",
                        "expected an address or a network, such as 192.0.2.0/24");
    }
    return is_wrong;
  }

  void read_pattern(const Node& node) {
    if (expressions_ > kMaxExpressions || instructions_ > kMaxInstructions) return;
    auto pattern = Pattern::compile(node.text);
    if (!pattern) return diagnostics_->add_message(node.at, pattern.error());
    if (pattern->is_expression() && ++expressions_ > kMaxExpressions) {
      return diagnostics_->add(
          node.at, "too many expressions (aliases count as their values)",
          "expected at most " + std::to_string(kMaxExpressions) + " in a file");
    }
    instructions_ += pattern->instructions();
    if (instructions_ > kMaxInstructions) {
      return diagnostics_->add(
          node.at,
          "the expressions up to " + in_quotes(node.text) + " have " +
              std::to_string(instructions_) + " instructions",
          "expected at most " + std::to_string(kMaxInstructions) +
              " in a file, so that no request takes long; repetitions such as {1,1000} cost most");
    }
    if (attribute_ == "method") check_method(node);
    warn_of_pattern(attribute_, node.text, *pattern, node.at, warn_);
    if (pattern->is_expression()) ++condition_.expressions;
    condition_.any_of.push_back(std::move(pattern.value()));
  }

  void check_method(const Node& node) {
    const std::string upper = base::upper_case(node.text);
    for (const std::string_view method : kMethods) {
      if (upper != method || node.text == method) continue;
      diagnostics_->add(node.at, "the method " + in_quotes(node.text) + " would match no request",
                        "expected '" + upper + "': methods are case-sensitive");
    }
  }

  bool is_text(bool of_networks) const { return !of_networks && attribute_ != "ip"; }

  AttributeTable& attributes_;
  const RuleTerms& terms_;
  ListFiles& lists_;
  const Warn warn_;
  Diagnostics* diagnostics_ = nullptr;
  Condition condition_;  // that is read
  std::string_view attribute_;
  std::size_t expressions_ = 0;
  std::size_t instructions_ = 0;  // of the expressions
};

// Returns whether the cost of a limit has an error.
bool has_wrong_cost(const Fields& fields, const CostTemplate& cost) {
  return fields.node("cost") != nullptr && cost.kind() == CostTemplate::Kind::kUnset;
}

class Loader {
 public:
  explicit Loader(const RuleTerms& terms) : terms_(terms) {}

  // Reads the next file.
  void read(const Node& root, Diagnostics& diagnostics) {
    diagnostics_ = &diagnostics;
    file_order_.emplace(diagnostics.file(), file_order_.size());
    settings_ = {};
    plans_ = {};
    plan_numbers_ = 0;
    match_.begin(diagnostics);
    const Fields file = Fields::read(root, schema::file(), *diagnostics_, &settings_);
    trusted_.clear();
    if (const Node* trusted = file.node("trusted")) read_trusted(*trusted);
    if (set_->domain.empty()) set_->domain = settings_.domain;
    const Node* prices = file.node("prices");
    prices_ = std::make_shared<PriceTable>(
        prices == nullptr ? PriceTable{} : PriceTable::read(*prices, diagnostics));
    if (const Node* plans = file.node("plans")) {
      plans_ = FilePlans::read(*plans, *file.key("plans").map, *prices_, *diagnostics_);
    }
    const Node* rules = file.node("rules");
    if (rules == nullptr) return;
    set_->rules.reserve(set_->rules.size() + rules->items.size());
    for (const Node* rule : rules->items) read_rule(*rule, *file.key("rules").map);
    plans_.each_unused([this](std::size_t at, std::string what) {
      warn(at, std::move(what), "expected the name of a limit of a rule with 'plan'");
    });
  }

  // Completes the warnings, after the last file.
  void finish_warnings(bool is_valid) {
    if (!is_valid) avoidable_.clear();  // what wrong rules match is not known
    for (const Avoidable& each : avoidable_) {
      const Condition& condition = set_->compiled[each.rule].conditions[each.condition];
      if (has_rest(*set_, each.rule, condition, reach_steps_) || reach_steps_ == 0) continue;
      diagnostics_ = each.file;
      warn(
          each.at,
          "a client avoids the rule " + in_quotes(set_->rules[each.rule].name) + " by " +
              (condition.negated ? "sending " : "leaving out ") +
              set_->attributes.names()[condition.attribute] +
              ", and no other rule has its requests",
          "expected a rule after it without this condition, or 'trusted' with what a gateway sets");
    }
    const auto place = [&](const RuleError& warning) {
      return std::tuple(file_order_[warning.file], warning.line, warning.column);
    };
    std::ranges::stable_sort(set_->warnings, {}, place);
  }

  std::vector<RuleError> take_list_errors() { return lists_.take_errors(); }

  std::shared_ptr<const RuleSet::Impl> finish() {
    if (set_->domain.empty()) set_->domain = "default";
    set_->index_names();
    return std::move(set_);
  }

 private:
  // Names that must differ, and the place of the first use of each.
  using Names = std::unordered_map<std::string, Place>;

  void read_trusted(const Node& node) {
    for (const Node* name : texts_of(node)) {
      if (auto wrong = find_name_error(name->text)) {
        diagnostics_->add_message(name->at, *wrong);
      } else if (!is_of_client(name->text)) {
        diagnostics_->add(name->at,
                          in_quotes(name->text) + " in 'trusted' is no client's choice anyway",
                          "expected header.NAME, query.NAME, cookie.NAME or body.NAME" +
                              did_you_mean_attribute(name->text));
      }
      trusted_.insert(normalized(name->text));
    }
  }

  void read_rule(const Node& node, const schema::Map& keys) {
    Rule rule{.name = {},
              .limits = {},
              .on_store_error = settings_.on_store_error,
              .reject = {},
              .headers = settings_.headers,
              .domain = settings_.domain};
    CompiledRule compiled;
    const Fields fields = Fields::read(node, keys, *diagnostics_, &rule);
    if (fields.node("name") != nullptr)
      check_name(rule_names_, rule.name, fields.at("name"), "rule");
    if (rule.max_new_keys) {
      compiled.new_keys = std::make_shared<NewKeyLimit>(*rule.max_new_keys);
      if (!terms_.scripting) {
        diagnostics_->add(fields.at("max_new_keys"),
                          "'max_new_keys' needs scripts, and the store has none (scripting: off)",
                          "expected no 'max_new_keys'");
      }
    }
    rule.action = read_action(fields, *diagnostics_);
    read_reject(fields, rule, *diagnostics_, warn_);
    if (const Node* match = fields.node("match")) compiled.conditions = match_.read(*match);
    compiled.tag = read_template<KeyTemplate>(fields.node("tag"));
    if (const Fields* plan = fields.map("plan")) read_plan(*plan, rule, compiled);
    if (rule.action == RuleAction::kLimit) read_limits(fields, rule, compiled);
    set_->rules.push_back(std::move(rule));
    set_->compiled.push_back(std::move(compiled));
    check_reach(fields);
    if (fields.node("match") != nullptr) check_match(fields);
  }

  void read_plan(const Fields& fields, Rule& rule, CompiledRule& compiled) {
    compiled.plan_from = read_template<KeyTemplate>(fields.node("from"));
    plans_.choose(fields, rule, compiled.plan_from, *diagnostics_);
    check_plan(fields, compiled.plan_from);
    compiled.default_plan = find_plan(rule, rule.default_plan).value_or(0);
  }

  void read_limits(const Fields& of_rule, Rule& rule, CompiledRule& compiled) {
    const Node* const node = of_rule.node("limits");
    limit_names_.clear();
    for (std::size_t i = 0; node != nullptr && i < node->items.size(); ++i) {
      read_in_row(*node->items[i], *node->items[i], rule.name + "/" + std::to_string(i),
                  *of_rule.key("limits").map, rule, compiled);
    }
    if (rule.limits.size() > kMaxCharges && node->items.size() <= kMaxCharges) {
      diagnostics_->add(
          of_rule.at("limits"),
          "the rule has " + std::to_string(rule.limits.size()) + " limits with those of 'overflow'",
          "expected at most " + std::to_string(kMaxCharges));
    }
  }

  // Reads a limit, and the budgets after it in the row that begins with `first`. `name`: if the
  // file has none.
  void read_in_row(const Node& node, const Node& first, std::string name, const schema::Map& keys,
                   Rule& rule, CompiledRule& compiled) {
    RuleLimit limit{.name = std::move(name),
                    .key = {},
                    .limit = token_bucket(1).per(std::chrono::seconds{1}),
                    .on_missing = settings_.on_missing};
    limit.alternative = &node != &first;
    const Fields fields = Fields::read(node, keys, *diagnostics_, &limit);
    check_name(limit_names_, limit.name, fields.at("name"), "limit");
    KeyTemplate key = read_template<KeyTemplate>(fields.node("key"));
    warn_of_constant_key(limit.key, fields.at("key"), warn_);
    CostTemplate cost = read_template<CostTemplate>(fields.node("cost"), prices_->names);
    PriceChoice price = read_price(fields, cost);
    const Fields* const share = fields.map("share");
    auto weight = read_template<CostTemplate>(share != nullptr ? share->node("weight") : nullptr);
    if (!node.is_map()) return;
    const auto numbers = read_limit(fields, rule, limit);
    if (!rule.plans.empty() && !has_wrong_cost(fields, cost)) {
      read_plan_prices(rule, limit.name, cost, price);
    }
    if (!numbers) return;
    limit.limit = *numbers;
    plans_.warn_of_zero(fields, rule, limit, warn_);
    auto count = read_count(fields, limit.limit);
    limit.counts_responses = count.has_value();
    std::string prefix = CounterKey{rule.domain, rule.name, limit.name, {}}.text();
    const std::uint32_t id = limit_id_of(prefix);
    check_share(fields, limit, terms_, *diagnostics_);
    compiled.limits.push_back({std::move(prefix), id, std::move(key), std::move(cost),
                               std::move(price), std::move(count), std::move(weight)});
    check_cost(fields, compiled.limits.back(), compiled.default_plan, limit.limit);
    check_skips(fields, compiled, limit, compiled.limits.back());
    rule.limits.push_back(std::move(limit));
    const Node* const overflow = fields.node("overflow");
    if (overflow == nullptr || !check_overflow(fields, rule, terms_, *diagnostics_)) return;
    const schema::Map& own_keys = *fields.key("overflow").map;
    Fields::read(*overflow, own_keys, *diagnostics_);
    merged_.push_back(inheriting(*overflow, own_keys, first, kInherited));
    read_in_row(merged_.back(), first, {}, keys, rule, compiled);
  }

  // Reads the numbers of a limit, those of its plans, and its block.
  std::optional<Limit> read_limit(const Fields& fields, const Rule& rule, RuleLimit& limit) {
    const bool has_own = rule.plans.empty() || has_numbers(fields);
    auto numbers = has_own ? read_numbers(fields, fields) : std::nullopt;
    limit.by_plan = read_plans(fields, rule, limit.name, has_own);
    if (!limit.by_plan.empty()) {
      numbers = limit.by_plan[find_plan(rule, rule.default_plan).value_or(0)];
    }
    if (numbers) limit.block = read_block(fields, terms_, *diagnostics_);
    return numbers;
  }

  // Reads the numbers of a limit in all plans. Returns none if they are wrong, or if no plan has
  // any.
  std::vector<Limit> read_plans(const Fields& fields, const Rule& rule, std::string_view name,
                                bool has_own) {
    std::vector<Limit> by_plan;
    if (rule.plans.empty()) return by_plan;
    if (plan_numbers_ > FilePlans::kMostNumbers) return by_plan;
    plan_numbers_ += rule.plans.size();
    if (plan_numbers_ > FilePlans::kMostNumbers) {
      diagnostics_->add(fields.at("name"), "too many limits with plans",
                        "expected at most " + std::to_string(FilePlans::kMostNumbers) +
                            " in a file, counted once for each plan");
      return by_plan;
    }
    const auto has_numbers = [&](const FilePlans::Plan& plan) {
      return plan.find(name) != nullptr;
    };
    const auto& plans = plans_.all();
    plans_.use(name);
    if (has_own && std::ranges::none_of(plans, has_numbers)) return by_plan;
    for (const FilePlans::Plan& plan : plans) {
      const FilePlans::Numbers* numbers = plan.find(name);
      if (numbers == nullptr && !has_own) {
        FilePlans::explain_lack(plan, rule.name, name, *diagnostics_);
        continue;
      }
      const auto limit = read_numbers(fields, numbers == nullptr ? fields : numbers->fields);
      if (limit) by_plan.push_back(*limit);
    }
    if (by_plan.size() < plans.size()) by_plan.clear();
    return by_plan;
  }

  // `numbers`: the limit itself, or what a plan has for it; a plan without a lease has that of the
  // limit.
  std::optional<Limit> read_numbers(const Fields& fields, const Fields& numbers) {
    const auto of = [&](std::string_view key) -> const Fields& {
      const bool is_inherited = key == "lease" && !numbers.has(key);
      return is_number(key) && !is_inherited ? numbers : fields;
    };
    const auto algorithm = fields.choice<Algorithm>("algorithm");
    const std::uint64_t units = read_units(numbers);
    const Duration period = read_period(numbers, algorithm);
    const Calendar* const calendar = read_calendar(numbers, fields, *diagnostics_);
    if (!algorithm) return std::nullopt;
    LimitSpec spec{.algorithm = *algorithm, .limit = units, .per = period, .calendar = calendar};
    spec.lease = read_lease(of("lease"), *algorithm);
    for (const core::OptionInfo& option : core::kLimitOptions) {
      auto value = option.words.empty() ? of(option.name).integer(option.name)
                                        : fields.choice<std::uint64_t>(option.name);
      if (value && option.is_time) *value /= 1000;  // of microseconds
      core::set_value(spec, option.option, value);
    }
    for (LimitError error = find_error(spec); error != LimitError::kNone;
         error = find_error(spec)) {
      const std::string_view field = field_of(error, spec);
      diagnostics_->add_message(of(field).at(field), explain(error, spec));
      core::drop_wrong_field(spec, error);
    }
    const auto limit = Limit::make(spec);
    if (!limit) return std::nullopt;
    check_terms(fields, *limit);
    warn_of_sizes(*limit, terms_, numbers.at("limit"), warn_);
    return *limit;
  }

  std::uint64_t read_units(const Fields& fields) {
    if (!fields.has("limit")) {
      diagnostics_->add(fields.at("limit"), "limit lacks 'limit'",
                        "expected 'limit:' with " + schema::expectation(fields.key("limit")) +
                            (plans_.all().empty() ? "" : ", or 'plan:' in the rule"));
    }
    return fields.integer("limit").value_or(1);
  }

  // Reads `per`, or `lease` if the algorithm has permits.
  Duration read_period(const Fields& fields, std::optional<Algorithm> algorithm) {
    const bool has_permits = algorithm ? holds_permits(*algorithm) : !fields.has("per");
    const bool is_lease = has_permits && (algorithm || fields.has("lease"));
    const std::string name = is_lease ? "lease" : "per";
    const std::string expected =
        "expected '" + name + ":' with " + schema::expectation(fields.key(name));
    if (algorithm && is_lease && fields.has("per")) {
      diagnostics_->add(fields.at("per"),
                        "'per' does not apply to " + std::string(to_string(*algorithm)), expected);
    } else if (!fields.has(name)) {
      diagnostics_->add(fields.at(name), "limit lacks " + in_quotes(name), expected);
    }
    if (fields.text(name) == core::kNever) return kNeverEnds;
    return fields.period(name).value_or(std::chrono::seconds{1});
  }

  // Reads the quota lease of a limit without permits.
  std::chrono::milliseconds read_lease(const Fields& fields, Algorithm algorithm) {
    if (holds_permits(algorithm) || !fields.has("lease")) return {};
    const auto lease = std::chrono::duration_cast<std::chrono::milliseconds>(
        fields.period("lease").value_or(kMinLease));
    if (!terms_.scripting) {
      diagnostics_->add(fields.at("lease"), "leases need scripts (scripting: off)",
                        "expected no 'lease'");
      return {};
    }
    if (!terms_.leases && !std::exchange(warned_of_leases_, true)) {
      warn(fields.at("lease"), "'lease' has no effect with this store, which asks no server",
           "expected a store in Redis, or no 'lease'");
    }
    return lease;
  }

  void check_terms(const Fields& fields, const Limit& limit) {
    if (holds_permits(limit.algorithm()) && !terms_.no_permits.empty()) {
      diagnostics_->add(fields.at("algorithm"),
                        "'concurrency' needs permits, " + std::string(terms_.no_permits),
                        "expected another algorithm");
      return;
    }
    if (terms_.scripting || works_without_scripts(limit)) return;
    if (limit.calendar() != nullptr) {
      diagnostics_->add(fields.at("per"),
                        "windows of the calendar cannot be stored without scripts (scripting: off)",
                        "expected a period, and 'align: clock'");
      return;
    }
    const bool could_be_aligned = works_without_scripts(limit.state_kind(), Align::kClock);
    const bool has_align = could_be_aligned && fields.node("align") != nullptr;
    diagnostics_->add(
        fields.at(has_align ? "align" : "algorithm"),
        in_quotes(to_string(limit.algorithm())) +
            (could_be_aligned ? " that opens at its first request" : "") +
            " cannot be stored without scripts (scripting: off)",
        "expected " + (could_be_aligned ? std::string("'align: clock'")
                                        : algorithms_without_scripts(" with align: clock")));
  }

  // Reports a constant cost that no request can have. Warns about a limit that denies every request
  // because its cost exceeds its capacity.
  void check_cost(const Fields& fields, const CompiledLimit& compiled, std::size_t plan,
                  const Limit& limit) {
    const CostTemplate& cost = compiled.cost;
    const auto units = cost.units(compiled.price.find(std::nullopt, plan));
    if (cost.kind() == CostTemplate::Kind::kUnits &&
        units.value_or(kMaxAmount + 1) > most_cost(limit)) {
      diagnostics_->add(fields.at("cost"),
                        "the cost is too large for " + std::string(to_string(limit.algorithm())),
                        "expected at most " + std::to_string(most_cost(limit)));
      return;
    }
    const bool fits = !units || *units <= limit.capacity();
    if (fits || limit.limit() == 0 || fields.has("overflow")) return;
    const bool is_default = cost.kind() == CostTemplate::Kind::kComputed;
    warn(fields.at("cost"),
         (is_default ? "the default cost of " : "a cost of ") + std::to_string(*units) +
             " exceeds the capacity of " + std::to_string(limit.capacity()) +
             (is_default ? ", so that requests without the attribute are denied"
                         : ", so that every request is denied"),
         "expected at most " + std::to_string(limit.capacity()));
  }

  // Warns about a limit that a client avoids: it leaves out what the key or the cost is read from.
  void check_skips(const Fields& fields, const CompiledRule& rule, const RuleLimit& limit,
                   const CompiledLimit& compiled) {
    if (limit.on_missing != OnMissing::kSkip || limit.alternative) return;
    const auto is_in_match = [&](std::uint32_t attribute) {
      return std::ranges::any_of(rule.conditions, [&](const Condition& one) {
        return one.attribute == attribute && !one.negated;
      });
    };
    const auto check = [&](const char* key, const std::vector<std::uint32_t>& attributes,
                           const std::string& right) {
      const std::string names = of_client(attributes);
      if (names.empty() || std::ranges::any_of(attributes, is_in_match)) return;
      warn(fields.at(key),
           "a client avoids the limit " + in_quotes(limit.name) + " by leaving out " + names,
           "expected " + right +
               (names.find("body.") == names.npos
                    ? ", 'on_missing: deny', or 'trusted' with what a gateway sets"
                    : ", 'on_missing: deny' if only programs ask (no gateway sends the body), or "
                      "'trusted' with what they set"));
    };
    for (const auto& one_of : compiled.key.needs())
      check("key", one_of, "another choice such as |ip");
    for (const auto& one_of : compiled.cost.needs()) check("cost", one_of, "a default such as |1");
    if (compiled.cost.prices().empty() || !compiled.price.otherwise.empty()) return;
    for (const auto& one_of : compiled.price.of.needs()) check("price", one_of, "a 'default'");
  }

  // Warns about a plan that a client chooses.
  void check_plan(const Fields& fields, const KeyTemplate& from) {
    for (const auto& one_of : from.needs()) {
      const std::string names = of_client(one_of);
      if (names.empty()) continue;
      warn(fields.at("from"), "a client can choose its plan by " + names,
           "expected an attribute that no client chooses, or 'trusted' with what a gateway sets");
    }
  }

  // Warns about the latest rule if no request reaches it, or a shadow rule takes some.
  void check_reach(const Fields& fields) {
    if (!diagnostics_->empty()) return;  // what a wrong rule matches is not known
    const std::size_t index = set_->rules.size() - 1;
    const Rule* const cover = find_cover(*set_, index, reach_steps_);
    const Rule* const other = cover != nullptr ? cover : find_trial(*set_, index, reach_steps_);
    if (other == nullptr) return;
    const std::string name = in_quotes(set_->rules[index].name), first = in_quotes(other->name);
    warn(fields.at("name"),
         cover != nullptr ? "the rule " + name + " is never reached: " + first +
                                " before it decides all of its requests"
                          : "the shadow rule " + first + " ends the search before " + name,
         (cover != nullptr ? "expected the narrower rule first, or " : "expected ") +
             ("'continue: true' in " + first));
  }

  // Warns about the latest rule if it matches nothing, and notes a condition that a client avoids.
  void check_match(const Fields& fields) {
    const std::size_t rule = set_->rules.size() - 1;
    const std::vector<Condition>& conditions = set_->compiled[rule].conditions;
    const auto& names = set_->attributes.names();
    if (const Condition* excluded = find_contradiction(*set_, rule, reach_steps_)) {
      return warn(fields.at("match"),
                  "the rule " + in_quotes(set_->rules[rule].name) + " matches no request: 'not' " +
                      "excludes all that it demands of " + in_quotes(names[excluded->attribute]),
                  "expected other values in 'not'");
    }
    if (set_->rules[rule].limits.empty()) return;
    for (std::size_t i = 0; i < conditions.size(); ++i) {
      const Condition& each = conditions[i];
      if (of_client({each.attribute}).empty() || !(each.negated || each.is_presence())) continue;
      avoidable_.push_back({diagnostics_, fields.at("match"), rule, i});
    }
  }

  // Returns the names of the attributes if a client chooses all of them; else "".
  std::string of_client(const std::vector<std::uint32_t>& attributes) const {
    std::vector<std::string_view> names;
    for (const std::uint32_t attribute : attributes) {
      const std::string& name = set_->attributes.names()[attribute];
      if (!is_of_client(name) || trusted_.contains(name)) return {};
      names.push_back(name);
    }
    return either(names);
  }

  std::optional<ResponseCount> read_count(const Fields& fields, const Limit& limit) {
    const Node* node = fields.node("count");
    if (node == nullptr) return std::nullopt;
    if (holds_permits(limit.algorithm())) {
      diagnostics_->add(node->at, "'count' does not apply to concurrency",
                        "expected another algorithm: permits are taken before the response");
    }
    return ResponseCount::read(*node, *diagnostics_);
  }

  void warn(std::size_t at, std::string what, std::string expected) {
    if (set_->warnings.size() >= Diagnostics::kMost) return;
    RuleError warning = diagnostics_->error(at, std::move(what), std::move(expected));
    warning.is_warning = true;
    set_->warnings.push_back(std::move(warning));
  }

  // Reads which prices the cost of a limit reads.
  PriceChoice read_price(const Fields& fields, const CostTemplate& cost) {
    PriceChoice price{.of = {}, .table = prices_};
    const Fields* const given = fields.map("price");
    if (given == nullptr) {
      if (cost.prices().empty()) return price;
      diagnostics_->add(fields.at("cost"), "the cost reads prices, and the limit lacks 'price'",
                        "expected 'price:' such as { of: \"{body.model}\", default: MODEL }");
      return price;
    }
    if (!has_wrong_cost(fields, cost) && cost.prices().empty()) {
      warn(fields.at("price"), "the cost reads no price", "expected price.NAME in 'cost'");
    }
    price.of = read_template<KeyTemplate>(given->node("of"));
    if (given->node("of") != nullptr && !price.of.is_one_value() && !price.of.is_empty()) {
      diagnostics_->add(given->at("of"), "'of' is " + describe(*given->node("of")),
                        "expected one attribute, such as \"{body.model}\"");
    }
    price.otherwise = given->text("default");
    if (!price.otherwise.empty() && prices_->find(price.otherwise) == nullptr) {
      diagnostics_->add(given->at("default"),
                        "there are no prices of " + in_quotes(price.otherwise),
                        PriceTable::expected(prices_->models, price.otherwise));
    }
    check_prices(fields.at("cost"), *prices_, {}, cost);
    return price;
  }

  // Reads which prices the plans of a rule have for a limit.
  void read_plan_prices(const Rule& rule, std::string_view limit, const CostTemplate& cost,
                        PriceChoice& price) {
    if (plan_numbers_ > FilePlans::kMostNumbers) return;
    for (std::size_t i = 0; i < rule.plans.size(); ++i) {
      const FilePlans::Plan& plan = plans_.all()[i];
      const FilePlans::Numbers* const numbers = plan.find(limit);
      if (numbers == nullptr || numbers->prices == nullptr) continue;
      const std::size_t at = numbers->fields.at("prices");
      if (cost.prices().empty()) {
        warn(at,
             "the cost of the limit " + in_quotes(limit) + " of the rule " + in_quotes(rule.name) +
                 " reads no price",
             "expected price.NAME in its 'cost'");
      }
      price.by_plan.resize(rule.plans.size());
      price.by_plan[i] = numbers->prices;
      check_prices(at, *numbers->prices, plan.name, cost);
    }
  }

  // Reports models that lack a price that the cost reads.
  void check_prices(std::size_t at, const PriceTable& table, std::string_view plan,
                    const CostTemplate& cost) {
    const std::size_t width = table.names.size();
    for (std::size_t model = 0; model < table.models.size(); ++model) {
      for (const std::size_t price : cost.prices()) {
        if (price >= width || table.numbers[model * width + price]) continue;
        const std::string name = in_quotes(table.names[price]);
        diagnostics_->add(at,
                          "the model " + in_quotes(table.models[model]) +
                              (plan.empty() ? "" : " of the plan " + in_quotes(plan)) +
                              " has no price " + name,
                          "expected " + name + " among its 'prices'");
      }
    }
  }

  template <typename Template>
  Template read_template(const Node* node, const auto&... names) {
    if (node == nullptr) return {};
    const std::size_t known = set_->attributes.names().size();
    auto key = Template::compile(node->text, set_->attributes, names...);
    for (std::size_t i = known; i < set_->attributes.names().size(); ++i) {
      warn_of_attribute(set_->attributes.names()[i], node->at, warn_);
    }
    if (key) return std::move(key.value());
    diagnostics_->add_message(position_in(*node, key.error().at, *diagnostics_),
                              key.error().message);
    return {};
  }

  void check_name(Names& names, std::string_view name, std::size_t at, std::string_view of) {
    const auto [first, is_new] = names.try_emplace(std::string(name), Place{diagnostics_, at});
    if (is_new) return;
    const auto [file, seen_at] = first->second;
    const RuleError seen = file->error(seen_at);
    diagnostics_->add(at, "duplicate " + std::string(of) + " " + in_quotes(name),
                      "expected a name other than that of " +
                          (file == diagnostics_ ? file->place(seen_at)
                                                : seen.file + ":" + std::to_string(seen.line) +
                                                      ":" + std::to_string(seen.column)));
  }

  const RuleTerms terms_;
  std::shared_ptr<RuleSet::Impl> set_ = std::make_shared<RuleSet::Impl>();
  Names rule_names_, limit_names_;
  std::deque<Node> merged_;  // limits with what they inherit
  // The state of the file that is being read.
  Diagnostics* diagnostics_ = nullptr;
  schema::FileSettings settings_;
  FilePlans plans_;
  std::shared_ptr<const PriceTable> prices_;
  std::size_t plan_numbers_ = 0;  // of all limits with a plan
  bool warned_of_leases_ = false;
  const Warn warn_ = [this](std::size_t at, std::string what, std::string expected) {
    warn(at, std::move(what), std::move(expected));
  };
  std::unordered_set<std::string> trusted_;  // attributes that no client chooses
  std::size_t reach_steps_ = kMostReachSteps;
  // Conditions of rules that a client avoids, unless another rule has its requests then.
  struct Avoidable {
    Diagnostics* file;
    std::size_t at, rule, condition;  // by index
  };
  std::vector<Avoidable> avoidable_;
  std::unordered_map<std::string, std::size_t> file_order_;
  ListFiles lists_{terms_.on_list};
  MatchReader match_{set_->attributes, terms_, lists_, warn_};
};

}  // namespace

Expected<std::shared_ptr<const RuleSet::Impl>, std::vector<RuleError>> load_rules(
    std::span<const RuleText> files, const RuleTerms& terms, std::vector<RuleError>* warnings) {
  // Errors of one file refer to names of another, so all live until the end.
  std::deque<Diagnostics> diagnostics;
  Loader loader(terms);
  for (const RuleText& file : files) {
    diagnostics.emplace_back(file.yaml, file.file);
    const Document document = read_yaml(diagnostics.back());
    if (document.root != nullptr) loader.read(*document.root, diagnostics.back());
  }
  loader.finish_warnings(
      std::ranges::all_of(diagnostics, [](const Diagnostics& each) { return each.empty(); }));
  std::vector<RuleError> errors;
  for (Diagnostics& of_file : diagnostics) {
    if (of_file.empty()) continue;
    for (RuleError& error : of_file.take()) errors.push_back(std::move(error));
  }
  for (RuleError& error : loader.take_list_errors()) errors.push_back(std::move(error));
  const auto set = loader.finish();
  if (warnings != nullptr) *warnings = set->warnings;
  if (!errors.empty()) return Unexpected{std::move(errors)};
  return set;
}

}  // namespace sluice::rules
