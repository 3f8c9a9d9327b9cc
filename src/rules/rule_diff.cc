#include "rules/rule_diff.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/limit.h"
#include "core/period.h"
#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {
namespace {

using Values = std::map<std::string, std::string>;  // by key

// What a limit means, in texts.
struct LimitValues {
  std::string name;
  Values values;
  Values defaults;  // of its options, whether it has them or not
};

// What a rule means, in texts.
struct RuleValues {
  std::string name;
  Values values;
  std::vector<LimitValues> limits;
};

const Node* find_value(const Node& map, std::string_view key) {
  for (const auto& [name, value] : map.pairs) {
    if (name->text == key) return value;
  }
  return nullptr;
}

std::string text_of(const Node& map, std::string_view key, std::string_view otherwise) {
  const Node* const value = find_value(map, key);
  return std::string(value == nullptr ? otherwise : std::string_view(value->text));
}

// Writes the names of headers, which follow "header.", in lower case.
std::string with_lower_headers(std::string text) {
  constexpr std::string_view kHeader = "header.";
  for (std::size_t at = text.find(kHeader); at != text.npos; at = text.find(kHeader, at + 1)) {
    for (std::size_t i = at + kHeader.size(); i < text.size(); ++i) {
      const char c = text[i];
      const bool is_upper = c >= 'A' && c <= 'Z';
      const bool is_lower = c >= 'a' && c <= 'z';
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_upper && !is_lower && !is_digit && c != '-' && c != '_') break;
      if (is_upper) text[i] = static_cast<char>(c - 'A' + 'a');
    }
  }
  return text;
}

// Returns a value as people compare it: a period in its largest unit.
std::string shown(const std::string& key, const std::string& text) {
  constexpr std::array<std::string_view, 5> kPeriods{"per", "lease", "within", "for", "at_most"};
  constexpr std::array<std::string_view, 3> kTemplates{"key", "cost", "from"};
  const std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
  const auto is_one_of = [&](const auto& keys) {
    return std::find(keys.begin(), keys.end(), last) != keys.end();
  };
  if (is_one_of(kTemplates)) return with_lower_headers(text);
  if (!is_one_of(kPeriods)) return text;
  const auto period = core::parse_period(text);
  return period ? core::format_period(*period) : text;
}

// Returns the scalars of a list in order, because they are alternatives: "/a, /b".
std::string joined(const Node& list, const std::string& key) {
  std::vector<std::string> texts;
  texts.reserve(list.items.size());
  for (const Node* item : list.items) texts.push_back(shown(key, item->text));
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  std::string out;
  for (const std::string& text : texts) out.append(out.empty() ? "" : ", ").append(text);
  return out;
}

// Adds the values under a node.
void collect(const Node& node, const std::string& key, Values& values) {
  switch (node.kind) {
    case Node::Kind::kNull: break;
    case Node::Kind::kScalar: values[key] = shown(key, node.text); break;
    case Node::Kind::kSequence: values[key] = joined(node, key); break;
    case Node::Kind::kMap:
      for (const auto& [name, value] : node.pairs) {
        const std::string full = key.empty() ? name->text : key + "." + name->text;
        collect(*value, with_lower_headers(full), values);
      }
      break;
  }
}

// Adds the defaults of options; `prefix` is "" or "plans.NAME.".
void add_defaults(Algorithm algorithm, const std::string& prefix, const Values& values,
                  Values& defaults) {
  LimitSpec spec{.algorithm = algorithm, .limit = 1, .per = std::chrono::seconds{1}};
  const auto number = values.find(prefix + "limit");
  if (number != values.end()) {
    const std::string& text = number->second;
    std::from_chars(text.data(), text.data() + text.size(), spec.limit);
  }
  const auto limit = Limit::make(spec);
  if (!limit) return;
  const LimitSpec whole = core::spec_of(*limit);
  for (const core::OptionInfo& one : core::kLimitOptions) {
    const auto value = core::value_of(whole, one.option);
    const bool is_burst = one.option == LimitOption::kBurst;  // only it depends on the number
    if (!value || (is_burst ? number == values.end() : !prefix.empty())) continue;
    defaults[prefix + std::string(one.name)] =
        one.words.empty() ? std::to_string(*value) : std::string(one.words[*value]);
  }
}

// Reads the rules of one file.
class FileReader {
 public:
  explicit FileReader(const Node& file)
      : domain_(text_of(file, "domain", "default")), plans_(find_value(file, "plans")) {
    rule_defaults_ = {{"mode", "enforce"},
                      {"continue", "false"},
                      {"on_store_error", "allow"},
                      {"headers", "both"},
                      {"domain", domain_}};
    const Node* const defaults = find_value(file, "defaults");
    if (defaults == nullptr) return;
    collect(*defaults, "", rule_defaults_);
    on_missing_ = text_of(*defaults, "on_missing", on_missing_);
    rule_defaults_.erase("on_missing");
  }

  RuleValues read(const Node& rule) const {
    RuleValues out{.name = text_of(rule, "name", ""), .values = rule_defaults_, .limits = {}};
    for (const auto& [key, value] : rule.pairs) {
      if (key->text != "limits") collect(*value, key->text, out.values);
    }
    const Node* const limits = find_value(rule, "limits");
    for (std::size_t i = 0; limits != nullptr && i < limits->items.size(); ++i) {
      const Node& limit = *limits->items[i];
      const std::string name = text_of(limit, "name", out.name + "/" + std::to_string(i));
      Values values{{"on_missing", on_missing_}};
      collect(limit, "", values);
      values["name"] = name;
      if (find_value(rule, "plan") != nullptr) collect_plans(name, values);
      Values defaults = defaults_of(values);
      out.limits.push_back({name, std::move(values), std::move(defaults)});
    }
    return out;
  }

 private:
  Values defaults_of(const Values& values) const {
    Values defaults;
    const auto name = values.find("algorithm");
    const auto algorithm = name == values.end() ? std::nullopt : algorithm_from(name->second);
    if (!algorithm) return defaults;
    add_defaults(*algorithm, "", values, defaults);
    if (plans_ == nullptr) return defaults;
    for (const auto& [plan, limits] : plans_->pairs) {
      add_defaults(*algorithm, "plans." + plan->text + ".", values, defaults);
    }
    return defaults;
  }
  void collect_plans(const std::string& limit, Values& values) const {
    if (plans_ == nullptr) return;
    for (const auto& [plan, limits] : plans_->pairs) {
      const Node* const numbers = find_value(*limits, limit);
      if (numbers != nullptr) collect(*numbers, "plans." + plan->text, values);
    }
  }

  std::string domain_;
  std::string on_missing_ = "skip";
  const Node* plans_;
  Values rule_defaults_;
};

std::vector<RuleValues> read(std::span<const RuleText> files) {
  std::vector<RuleValues> out;
  for (const RuleText& file : files) {
    const SourceText source(file.yaml);
    Diagnostics diagnostics(source, file.file);
    Document document;
    read_yaml(diagnostics, document);
    const Node* const rules =
        document.root == nullptr ? nullptr : find_value(*document.root, "rules");
    if (rules == nullptr) continue;
    const FileReader reader(*document.root);
    for (const Node* rule : rules->items) out.push_back(reader.read(*rule));
  }
  return out;
}

class Comparison {
 public:
  void compare(const std::vector<RuleValues>& before, const std::vector<RuleValues>& after);
  std::vector<RuleDifference> take() { return std::move(found_); }

 private:
  void compare_rule(const RuleValues& before, const RuleValues& after);
  void compare_values(const LimitValues& before, const LimitValues& after, const std::string& rule);
  void add(RuleDifference::Kind kind, const std::string& rule, const std::string& limit = {}) {
    found_.push_back(
        {.kind = kind, .rule = rule, .limit = limit, .key = {}, .before = {}, .after = {}});
  }

  std::vector<RuleDifference> found_;
};

void Comparison::compare(const std::vector<RuleValues>& before,
                         const std::vector<RuleValues>& after) {
  std::unordered_map<std::string_view, std::size_t> old;
  for (std::size_t i = 0; i < before.size(); ++i) old.emplace(before[i].name, i);
  std::size_t last = 0;
  bool is_ordered = true;
  for (const RuleValues& rule : after) {
    const auto found = old.find(rule.name);
    if (found == old.end()) {
      add(RuleDifference::Kind::kAdded, rule.name);
      continue;
    }
    is_ordered = is_ordered && found->second >= last;
    last = found->second;
    compare_rule(before[found->second], rule);
    old.erase(found);
  }
  for (const RuleValues& rule : before) {
    if (old.contains(rule.name)) add(RuleDifference::Kind::kRemoved, rule.name);
  }
  if (is_ordered) return;
  add(RuleDifference::Kind::kChanged, {});
  found_.back().key = "order";
}

void Comparison::compare_rule(const RuleValues& before, const RuleValues& after) {
  compare_values({{}, before.values, {}}, {{}, after.values, {}}, after.name);
  std::map<std::string_view, const LimitValues*> old;
  for (const LimitValues& limit : before.limits) old.emplace(limit.name, &limit);
  for (const LimitValues& limit : after.limits) {
    const auto found = old.find(limit.name);
    if (found == old.end()) {
      add(RuleDifference::Kind::kAdded, after.name, limit.name);
      continue;
    }
    compare_values(*found->second, limit, after.name);
    old.erase(found);
  }
  for (const LimitValues& limit : before.limits) {
    if (old.contains(limit.name)) add(RuleDifference::Kind::kRemoved, after.name, limit.name);
  }
}

// A default counts where the other side has the key.
void Comparison::compare_values(const LimitValues& before, const LimitValues& after,
                                const std::string& rule) {
  const auto value_in = [](const LimitValues& limit, const std::string& key) {
    const auto own = limit.values.find(key);
    if (own != limit.values.end()) return own->second;
    const auto otherwise = limit.defaults.find(key);
    return otherwise == limit.defaults.end() ? std::string() : otherwise->second;
  };
  Values all = before.values;
  all.insert(after.values.begin(), after.values.end());
  for (const auto& [key, any] : all) {
    RuleDifference one;
    one.rule = rule;
    one.limit = after.name;
    one.key = key;
    one.before = value_in(before, key);
    one.after = value_in(after, key);
    if (one.before != one.after) found_.push_back(std::move(one));
  }
}

}  // namespace

std::vector<RuleDifference> compare_rules(std::span<const RuleText> before,
                                          std::span<const RuleText> after) {
  Comparison comparison;
  comparison.compare(read(before), read(after));
  return comparison.take();
}

}  // namespace sluice::rules
