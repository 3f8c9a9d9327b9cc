// What differs between two files of rules, and the change of one rule in the text of its file. A
// change writes only the values that it is about; comments and the order of keys stay.

#include "rules/rule_changes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/json_writer.h"
#include "base/quoted.h"
#include "core/limit.h"
#include "core/period.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "rules/plans.h"
#include "rules/rule_set.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {
namespace {

using schema::Key;
using schema::Type;
using Pair = std::pair<const Node*, const Node*>;
using Values = std::map<std::string, std::string>;  // by key

// What a rule or a limit means, in texts.
struct Meaning {
  std::string name;
  Values values;
  Values defaults = {};              // of the options of a limit, whether it has them or not
  std::vector<Meaning> limits = {};  // of a rule
};

// The members of a map and the items of a list: none if it is null.
std::span<const Pair> pairs_of(const Node* map) {
  return map == nullptr ? std::span<const Pair>() : std::span(map->pairs);
}
std::span<const Node* const> items_of(const Node* list) {
  return list == nullptr ? std::span<const Node* const>() : std::span(list->items);
}

const Pair* find(const Node* map, std::string_view key) {
  for (const Pair& pair : pairs_of(map)) {
    if (pair.first->text == key) return &pair;
  }
  return nullptr;
}

const Node* value_of(const Node* map, std::string_view key) {
  const Pair* const pair = find(map, key);
  return pair == nullptr ? nullptr : pair->second;
}
const Node* value_of(const Node& map, std::string_view key) { return value_of(&map, key); }

// Returns the row of a key. Null: there is none, or no schema.
const Key* row_of(const schema::Map* map, std::string_view key) {
  if (map == nullptr) return nullptr;
  const auto found = std::ranges::find(map->keys, key, &Key::name);
  return found == map->keys.end() ? nullptr : &*found;
}

std::string limit_name(const Node& limit, std::string_view rule, std::size_t index) {
  const Node* const name = value_of(limit, "name");
  return name != nullptr ? name->text : std::string(rule) + "/" + std::to_string(index);
}

// The names of a limit and of the budgets after it in its row.
std::vector<std::string> names_in_row(const Node& limit, std::string name) {
  std::vector<std::string> names{std::move(name)};
  for (const Node* at = value_of(limit, "overflow"); at != nullptr;
       at = value_of(*at, "overflow")) {
    names.push_back(limit_name(*at, {}, 0));
  }
  return names;
}

// Writes the names of headers, which follow "header.", in lower case.
std::string with_lower_headers(std::string text) {
  constexpr std::string_view kHeader = "header.";
  for (std::size_t at = text.find(kHeader); at != text.npos; at = text.find(kHeader, at + 1)) {
    constexpr std::string_view kOfName =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const std::size_t begin = at + kHeader.size();
    const std::size_t end = std::min(text.find_first_not_of(kOfName, begin), text.size());
    text.replace(begin, end - begin, lower_case(text.substr(begin, end - begin)));
  }
  return text;
}

// Returns a value as people compare it: a period in its largest unit. `row` may be null.
std::string shown(const Key* row, const std::string& text) {
  if (row == nullptr) return text;
  if (row->type == Type::kTemplate || row->type == Type::kCost) return with_lower_headers(text);
  const bool is_number = row->type == Type::kInteger || row->type == Type::kPrices;
  const auto number = is_number ? grouped_number(text) : std::nullopt;
  if (number) return std::to_string(*number);
  const auto period = core::parse_period(text);
  return row->type == Type::kPeriod && period ? core::format_period(*period) : text;
}

std::string text_of(const Node& value);

// Returns the values of a list in order, because they are alternatives: "/a, /b".
std::string joined(const Node& list) {
  std::vector<std::string> texts;
  for (const Node* item : list.items) texts.push_back(text_of(*item));
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return base::joined(texts);
}

// Returns a condition as a text that no other condition has. A list of one value is that value.
std::string text_of(const Node& value) {
  if (value.is_sequence()) {
    return value.items.size() == 1 ? text_of(*value.items[0]) : "[" + joined(value) + "]";
  }
  if (value.is_map()) {
    std::vector<std::string> texts;
    for (const auto& [name, of] : value.pairs) texts.push_back(name->text + ": " + text_of(*of));
    return "{ " + base::joined(texts) + " }";
  }
  const bool is_plain = value.text.find_first_of(",\"") == std::string::npos &&
                        !value.text.starts_with('{') && !value.text.starts_with('[');
  return is_plain ? value.text : base::json_string(value.text);
}

// Adds the values under a node. Keys without a row, such as attributes, are their own names.
void collect(const Node& node, const Key* row, const std::string& key, Values& values) {
  const bool is_condition = row != nullptr && row->type == Type::kMatch;
  switch (node.kind) {
    case Node::Kind::kNull: break;
    case Node::Kind::kScalar:
      values[key] = is_condition ? text_of(node) : shown(row, node.text);
      break;
    case Node::Kind::kSequence: values[key] = joined(node); break;
    case Node::Kind::kMap:
      for (const auto& [name, value] : node.pairs) {
        const bool has_row = is_condition || (row != nullptr && row->type == Type::kPrices);
        collect(*value, has_row ? row : row_of(row == nullptr ? nullptr : row->map, name->text),
                with_lower_headers(key + "." + name->text), values);
      }
      break;
  }
}

// Returns the default of a key: that of its row, or of the file.
std::string default_of(const Node& file, const Key& row) {
  if (row.otherwise.starts_with('`')) {
    return std::string(row.otherwise.substr(1, row.otherwise.size() - 2));
  }
  const Node* const given = value_of(value_of(file, "defaults"), row.name);
  if (given != nullptr) return given->text;
  return default_of(file, *row_of(row_of(&schema::file(), "defaults")->map, row.name));
}

// Reads a rule or a limit, with the defaults of the keys that every one has.
Meaning read_map(const Node& file, const Node& node, const schema::Map& map) {
  Meaning out;
  for (const Key& row : map.keys) {
    const bool has_words = row.type == Type::kFlag || row.type == Type::kChoice;
    const bool has_default = row.otherwise.starts_with('`') || row.otherwise == "from `defaults`";
    if (has_words && has_default && !row.only_for) {
      out.values.emplace(row.name, default_of(file, row));
    }
  }
  for (const auto& [name, value] : node.pairs) {
    const Key* const row = row_of(&map, name->text);
    if (row != nullptr && row->type == Type::kList) continue;
    collect(*value, row, with_lower_headers(name->text), out.values);
  }
  return out;
}

// Adds the defaults of options; `prefix` is "" or "plans.NAME.".
void add_defaults(const std::string& prefix, Meaning& limit) {
  const auto name = limit.values.find("algorithm");
  const auto algorithm = name == limit.values.end() ? std::nullopt : algorithm_from(name->second);
  if (!algorithm) return;
  LimitSpec spec{.algorithm = *algorithm, .limit = 1, .per = std::chrono::seconds{1}};
  const auto number = limit.values.find(prefix + "limit");
  const bool has_number = number != limit.values.end();
  if (has_number) {
    const std::string& text = number->second;
    std::from_chars(text.data(), text.data() + text.size(), spec.limit);
  }
  const auto made = Limit::make(spec);
  if (!made) return;
  const LimitSpec whole = core::spec_of(*made);
  for (const core::OptionInfo& one : core::kLimitOptions) {
    const auto value = core::value_of(whole, one.option);
    const bool is_burst = one.option == LimitOption::kBurst;  // only it depends on the number
    if (!value || (is_burst ? !has_number : !prefix.empty())) continue;
    limit.defaults[prefix + std::string(one.name)] =
        one.is_time         ? core::format_period(std::chrono::milliseconds{*value})
        : one.words.empty() ? std::to_string(*value)
                            : std::string(one.words[*value]);
  }
}

Meaning read_limit(const Node& file, const Node& node, std::string name, bool has_plan) {
  const schema::Map& rules = *row_of(&schema::file(), "rules")->map;
  Meaning limit = read_map(file, node, *row_of(&rules, "limits")->map);
  limit.values["name"] = name;
  limit.name = std::move(name);
  const auto plans = pairs_of(value_of(file, "plans"));
  const Key* const row = row_of(&schema::file(), "plans");
  for (const auto& [plan, limits] : has_plan ? plans : std::span<const Pair>()) {
    std::string prefix;  // of the budgets after it in its row, which have names
    for (const std::string& in_row : names_in_row(node, limit.name)) {
      const Node* const numbers = value_of(*limits, in_row);
      if (numbers != nullptr) collect(*numbers, row, prefix + "plans." + plan->text, limit.values);
      prefix += "overflow.";
    }
  }
  const Node* const prices = value_of(file, "prices");
  if (prices != nullptr && value_of(node, "price") != nullptr) {
    collect(*prices, row_of(&schema::file(), "prices"), "prices", limit.values);
  }
  add_defaults("", limit);
  for (const auto& [plan, limits] : plans) add_defaults("plans." + plan->text + ".", limit);
  return limit;
}

Meaning read_rule(const Node& file, const Node& node) {
  Meaning rule = read_map(file, node, *row_of(&schema::file(), "rules")->map);
  rule.name = rule.values["name"];
  const Node* const domain = value_of(file, "domain");
  rule.values["domain"] =
      domain != nullptr ? domain->text : default_of(file, *row_of(&schema::file(), "domain"));
  const bool has_plan = value_of(node, "plan") != nullptr;
  for (const Node* limit : items_of(value_of(node, "limits"))) {
    std::string name = limit_name(*limit, rule.name, rule.limits.size());
    rule.limits.push_back(read_limit(file, *limit, std::move(name), has_plan));
  }
  return rule;
}

std::vector<Meaning> read(std::span<const RuleText> files) {
  std::vector<Meaning> out;
  for (const RuleText& file : files) {
    Diagnostics diagnostics(file.yaml, file.file);
    const Document document = read_yaml(diagnostics);
    for (const Node* rule : items_of(value_of(document.root, "rules"))) {
      out.push_back(read_rule(*document.root, *rule));
    }
  }
  return out;
}

using Differences = std::vector<RuleDifference>;

// A default counts where the other side has the key.
void compare_values(const Meaning& before, const Meaning& after, RuleDifference one,
                    Differences& out) {
  const auto value_in = [](const Meaning& meaning, const std::string& key) {
    const auto own = meaning.values.find(key);
    if (own != meaning.values.end()) return own->second;
    const auto otherwise = meaning.defaults.find(key);
    return otherwise == meaning.defaults.end() ? std::string() : otherwise->second;
  };
  Values all = before.values;
  all.insert(after.values.begin(), after.values.end());
  for (const auto& [key, any] : all) {
    one.key = key;
    one.before = value_in(before, key);
    one.after = value_in(after, key);
    if (one.before != one.after) out.push_back(one);
  }
}

// Compares the rules, or the limits of that rule, by their names. Returns whether those on both
// sides have the same order.
bool compare_lists(const std::vector<Meaning>& before, const std::vector<Meaning>& after,
                   const std::string& of_rule, Differences& out) {
  const auto named = [&](const std::string& name, RuleDifference::Kind kind) {
    RuleDifference one;
    one.kind = kind;
    one.rule = of_rule.empty() ? name : of_rule;
    if (!of_rule.empty()) one.limit = name;
    return one;
  };
  std::unordered_map<std::string_view, std::size_t> old;
  for (std::size_t i = 0; i < before.size(); ++i) old.emplace(before[i].name, i);
  std::size_t last = 0;
  bool is_ordered = true;
  for (const Meaning& one : after) {
    const auto found = old.find(one.name);
    if (found == old.end()) {
      out.push_back(named(one.name, RuleDifference::Kind::kAdded));
      continue;
    }
    is_ordered = is_ordered && found->second >= last;
    last = found->second;
    compare_values(before[last], one, named(one.name, RuleDifference::Kind::kChanged), out);
    if (of_rule.empty()) compare_lists(before[last].limits, one.limits, one.name, out);
    old.erase(found);
  }
  for (const Meaning& one : before) {
    if (old.contains(one.name)) out.push_back(named(one.name, RuleDifference::Kind::kRemoved));
  }
  return is_ordered;
}

}  // namespace

void write_json(const RuleDifference& one, base::JsonWriter& json) {
  static constexpr std::array<std::string_view, 3> kKinds{"added", "removed", "changed"};
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

std::vector<RuleDifference> compare_rules(std::span<const RuleText> before,
                                          std::span<const RuleText> after) {
  Differences out;
  if (!compare_lists(read(before), read(after), {}, out)) out.emplace_back().key = "order";
  return out;
}

namespace {

bool has_name(const Node& map, std::string_view name) {
  const Node* const given = value_of(map, "name");
  return given != nullptr && given->is_scalar() && given->text == name;
}

bool equal(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.quoted != b.quoted || a.text != b.text) return false;
  const auto same = [](const Node* x, const Node* y) { return equal(*x, *y); };
  const auto same_pair = [](const Pair& x, const Pair& y) {
    return equal(*x.first, *y.first) && equal(*x.second, *y.second);
  };
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same) &&
         std::equal(a.pairs.begin(), a.pairs.end(), b.pairs.begin(), b.pairs.end(), same_pair);
}

// Other text instead of some bytes of a file.
struct Edit {
  std::size_t at;
  std::size_t removed;
  std::string text = {};
  // Of a scalar, whose bytes are those within its quotes:
  bool is_quoted = false;
  const Node* changed = nullptr;  // its copy in the tree

  // The place after the scalar.
  std::size_t behind() const noexcept { return at + removed + (is_quoted ? 1 : 0); }
};

// Returns an edit that removes the text of a scalar; nothing if it is written with escapes or on
// several lines.
std::optional<Edit> edit_of(std::string_view text, const Node& scalar) {
  std::size_t at = scalar.at;
  if (!scalar.is_scalar() || at >= text.size()) return std::nullopt;
  if (text[at] == '&') {  // an anchor precedes the value
    at = text.find_first_of(" \t\r\n", at);
    at = text.find_first_not_of(" \t", std::min(at, text.size()));
    if (at == text.npos) return std::nullopt;
  }
  const bool quoted = text[at] == '"' || text[at] == '\'';
  const char quote = text[at];
  if (quoted) ++at;
  const std::size_t end = at + scalar.text.size();
  if (text.substr(at, scalar.text.size()) != scalar.text) return std::nullopt;
  if (quoted && (end >= text.size() || text[end] != quote)) return std::nullopt;
  return Edit{.at = at, .removed = scalar.text.size(), .is_quoted = quoted};
}

// Changes values in the text of a file, and in a copy of its tree: what the new text must mean.
// Borrows the text.
class Editor {
 public:
  explicit Editor(const RuleText& file)
      : bytes_(file.yaml), diagnostics_(file.yaml, file.file), document_(read_yaml(diagnostics_)) {}

  const Node* root() const noexcept { return document_.root; }
  // Return a copy of a value, in its place, whose members may be changed.
  Node& own_root() { return own(document_.root); }
  Node& own(Node& map, std::string_view key) {
    for (Pair& pair : map.pairs) {
      if (pair.first->text == key) return own(pair.second);
    }
    return map;
  }
  Node& own(Node& list, std::size_t index) { return own(list.items[index]); }
  // Sets a key of a map that own() returned. A new one gets its place after `neighbour`. Returns
  // whether the text has such a place.
  bool set(Node& map, std::string_view key, const std::string& value, std::string_view neighbour) {
    const Node* const old = value_of(map, key);
    if (old == nullptr) return insert(map, key, value, neighbour);
    auto edit = edit_of(text_, *old);
    if (!edit) return false;
    Node& changed = own(map, key);
    edit->text = changed.text = value;
    edit->changed = &changed;
    edits_.push_back(*std::move(edit));
    return true;
  }

  // Two insertions at one place: the later one comes first, as in the tree.
  std::string text() const {
    std::vector<Edit> edits(edits_.rbegin(), edits_.rend());
    std::ranges::stable_sort(edits, {}, &Edit::at);
    std::string out;
    std::size_t done = 0;
    for (const Edit& edit : edits) {
      if (edit.at < done) continue;  // an alias: the tree will differ
      out.append(text_.substr(done, edit.at - done)).append(edit.text);
      done = edit.at + edit.removed;
    }
    return out.append(text_.substr(done));
  }

  RuleEdit done(std::size_t index) const {
    const std::string_view mark = bytes_.substr(0, bytes_.size() - text_.size());
    return {index, std::string(mark) + text()};
  }

 private:
  Node& own(const Node*& place) {
    Node& copy = document_.nodes.emplace_back(*place);
    place = &copy;
    return copy;
  }
  const Node* make_scalar(std::string_view text) {
    Node& node = document_.nodes.emplace_back();
    node.kind = Node::Kind::kScalar;
    node.text = text;
    return &node;
  }

  bool insert(Node& map, std::string_view key, const std::string& value,
              std::string_view neighbour) {
    const Pair* const before = find(&map, neighbour);
    const auto place = before == nullptr ? std::nullopt : place_after(*before->second);
    if (!place) return false;
    const std::string added = std::string(key) + ": " + value;
    if (map.flow) {
      edits_.push_back({*place, 0, ", " + added});
    } else {
      const std::size_t line = text_.rfind('\n', before->first->at) + 1;  // 0 if there is none
      std::size_t end = std::min(text_.find('\n', *place), text_.size());
      const bool has_return = end > 0 && text_[end - 1] == '\r';
      if (has_return) --end;
      edits_.push_back(
          {end, 0,
           (has_return ? "\r\n" : "\n") + std::string(before->first->at - line, ' ') + added});
    }
    const Pair pair{make_scalar(key), make_scalar(value)};
    map.pairs.insert(map.pairs.begin() + (before - map.pairs.data()) + 1, pair);
    return true;
  }

  // Returns the place after a scalar, which may have another value than the text.
  std::optional<std::size_t> place_after(const Node& scalar) const {
    const auto changed = std::ranges::find(edits_, &scalar, &Edit::changed);
    if (changed != edits_.end()) return changed->behind();
    const auto found = edit_of(text_, scalar);
    return found ? std::optional(found->behind()) : std::nullopt;
  }

  const std::string_view bytes_;
  Diagnostics diagnostics_;
  Document document_;  // and the copies
  const std::string_view text_ = diagnostics_.text();
  std::vector<Edit> edits_;
};

EditError unknown_limit(const Node* limits, std::string_view rule, const std::string& name) {
  std::vector<std::string> names;
  std::size_t index = 0;
  for (const Node* limit : items_of(limits)) {
    for (std::string& one : names_in_row(*limit, limit_name(*limit, rule, index++))) {
      names.push_back(std::move(one));
    }
  }
  const std::string what = "rule " + in_quotes(rule) + " has no limit " + in_quotes(name);
  return {
      EditError::Unknown::kPart,
      what + "; expected " + (names.empty() ? "no 'limits', the rule has none" : either(names))};
}

EditError no_place(std::string_view key, std::string_view of) {
  return {{},
          in_quotes(key) + " of " + std::string(of) +
              " cannot be changed alone: its text is shared by an anchor, or on several "
              "lines; expected a change of the rules file, or PUT /v1/rules"};
}

EditError no_own_numbers(const Node& file, std::string_view of, const RuleChanges::Number& change) {
  std::string plan = "PLAN";
  for (const auto& [name, limits] : pairs_of(value_of(file, "plans"))) {
    if (value_of(*limits, change.limit) == nullptr) continue;
    plan = name->text;
    break;
  }
  return {{},
          std::string(of) +
              " has no 'limit' of its own, its numbers come from plans, which limits of other "
              "rules share; expected a change of a plan, such as sluice rules set plans/" +
              plan + "/" + change.limit + " " + change.key + "=" + change.value +
              " (PATCH /v1/plans/" + plan + ")"};
}

// The key of a price that a plan has for a limit: "prices.MODEL.NAME".
constexpr std::string_view kPricesOf = "prices.";

// Changes such a price, which the plan must have. Returns the error, if there is one.
std::optional<EditError> change_plan_price(Editor& editor, Node& numbers, std::string_view of,
                                           const RuleChanges::Number& change) {
  const std::string_view name = std::string_view(change.key).substr(kPricesOf.size());
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  const std::string_view model = name.substr(0, dot);
  const std::string_view price = name.substr(std::min(dot + 1, name.size()));
  const Node* const models = value_of(numbers, "prices");
  if (value_of(value_of(models, model), price) == nullptr) {
    std::vector<std::string> known;
    for (const auto& [one, its] : pairs_of(models)) {
      for (const Pair& pair : its->pairs) known.push_back(one->text + "." + pair.first->text);
    }
    known.push_back("sluice rules set prices/" + std::string(model) + " " + std::string(price) +
                    "=" + change.value + " for the price of the file");
    return EditError{EditError::Unknown::kPart, std::string(of) + " has no price " +
                                                    in_quotes(name) + " of its own; expected " +
                                                    either(known)};
  }
  Node& own = editor.own(editor.own(numbers, "prices"), model);
  if (editor.set(own, price, change.value, price)) return std::nullopt;
  return no_place(change.key, of);
}

// Changes a number. Returns the error, if there is one.
std::optional<EditError> change_number(Editor& editor, Node& rule, std::string_view rule_name,
                                       const RuleChanges::Number& change) {
  const Node* const limits = value_of(rule, "limits");
  std::size_t index = 0;
  std::size_t in_row = 0;
  const std::size_t count = items_of(limits).size();
  for (; index < count; ++index) {
    const Node& first = *limits->items[index];
    const auto names = names_in_row(first, limit_name(first, rule_name, index));
    in_row = static_cast<std::size_t>(std::ranges::find(names, change.limit) - names.begin());
    if (in_row < names.size()) break;
  }
  if (index == count) return unknown_limit(limits, rule_name, change.limit);
  const std::string of = "limit " + in_quotes(change.limit) + " of rule " + in_quotes(rule_name);
  if (change.key.starts_with(kPricesOf)) {
    return EditError{{},
                     of +
                         " has no prices of its own; expected sluice rules set "
                         "prices/MODEL NAME=NUMBER for those of the file, or "
                         "plans/PLAN/" +
                         change.limit + " " + change.key + "=" + change.value +
                         " for those of a plan"};
  }
  Node* limit = &editor.own(editor.own(rule, "limits"), index);
  for (; in_row > 0; --in_row) limit = &editor.own(*limit, "overflow");
  if (value_of(*limit, "limit") == nullptr) return no_own_numbers(*editor.root(), of, change);
  if (editor.set(*limit, change.key, change.value, "limit")) return std::nullopt;
  return no_place(change.key, of);
}

// Returns the error if the new text means something else than its tree.
std::optional<EditError> check_text(const Editor& editor, std::string_view key,
                                    std::string_view of) {
  const std::string text = editor.text();
  Diagnostics diagnostics(text, "");
  const Document written = read_yaml(diagnostics);
  if (written.root != nullptr && equal(*written.root, *editor.root())) return std::nullopt;
  return no_place(key, of);
}

std::optional<EditError> change(Editor& editor, std::size_t index, std::string_view name,
                                const RuleChanges& changes) {
  Node& rule = editor.own(editor.own(editor.own_root(), "rules"), index);
  for (const RuleChanges::Number& number : changes.numbers) {
    if (auto error = change_number(editor, rule, name, number)) return error;
  }
  const std::string of = "rule " + in_quotes(name);
  if (changes.mode && !editor.set(rule, "mode", *changes.mode, "name")) return no_place("mode", of);
  if (changes.on_store_error &&
      !editor.set(rule, "on_store_error", *changes.on_store_error, "name")) {
    return no_place("on_store_error", of);
  }
  const std::string_view changed = !changes.numbers.empty() ? "limits"
                                   : changes.mode           ? "mode"
                                                            : "on_store_error";
  return check_text(editor, changed, of);
}

std::optional<EditError> change_shared(Editor& editor, const Shared& kind, std::string_view name,
                                       const RuleChanges& changes) {
  Node& whole = editor.own(editor.own(editor.own_root(), kind.key), name);
  const std::string of_whole = std::string(kind.whole) + " " + in_quotes(name);
  for (const RuleChanges::Number& number : changes.numbers) {
    const bool is_price = number.limit.empty();
    Node& numbers = is_price ? whole : editor.own(whole, number.limit);
    const std::string of_limit =
        is_price ? of_whole : "limit " + in_quotes(number.limit) + " of " + of_whole;
    if (number.key.starts_with(kPricesOf) && !is_price) {
      if (auto error = change_plan_price(editor, numbers, of_limit, number)) return error;
    } else if (!editor.set(numbers, number.key, number.value, "limit")) {
      return no_place(number.key, of_limit);
    }
  }
  return check_text(editor, std::string(kind.part) + "s", of_whole);
}

// Returns the index of the rule in a file.
std::optional<std::size_t> find_rule(const Node* file, std::string_view name) {
  const auto rules = items_of(value_of(file, "rules"));
  const auto found =
      std::ranges::find_if(rules, [&](const Node* rule) { return has_name(*rule, name); });
  if (found == rules.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules.begin());
}

// Returns the first limit, or price, that the plan or the model does not have, or an empty text.
std::string_view lacking_part(const Node& whole, const RuleChanges& changes) {
  for (const RuleChanges::Number& number : changes.numbers) {
    const std::string& part = number.limit.empty() ? number.key : number.limit;
    if (value_of(whole, part) == nullptr) return part;
  }
  return {};
}

// For how long an id can be known: by a hold, and after it.
constexpr Duration kLongestKnown = 2 * kMaxHold;
constexpr std::size_t kMostRemoved = 12;  // of a row: those of four changes of three

// Reads a limit of other rules, with the attributes of these.
CompiledLimit compiled_again(const RuleLimit& limit, const CompiledLimit& from,
                             const AttributeTable& its_attributes, AttributeTable& attributes) {
  CompiledLimit out = from;
  const std::vector<std::string> none;
  const auto& prices = from.price.table ? from.price.table->names : none;
  if (const auto key = KeyTemplate::compile(limit.key, attributes)) out.key = *key;
  if (const auto cost = CostTemplate::compile(limit.cost, attributes, prices)) out.cost = *cost;
  out.price.by_plan.clear();
  for (const auto& part : from.price.of.needs()) {
    std::string text;
    for (const std::uint32_t one : part) {
      text.append(text.empty() ? "{" : "|").append(its_attributes.names()[one]);
    }
    if (const auto of = KeyTemplate::compile(text + "}", attributes)) out.price.of = *of;
  }
  return out;
}

// The limits of a row, of which one is at an index.
std::pair<std::size_t, std::size_t> row_around(const Rule& rule, std::size_t index) {
  std::size_t first = index, last = index + 1;
  while (rule.limits[first].alternative) --first;
  while (last < rule.limits.size() && rule.limits[last].alternative) ++last;
  return {first, last};
}

std::optional<std::size_t> find_limit(const Rule& rule, std::string_view name) {
  const auto found = std::ranges::find(rule.limits, name, &RuleLimit::name);
  if (found == rule.limits.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rule.limits.begin());
}

// Returns the numbers of a limit of the rule `was` for the plans of `rule`: a plan that is new has
// those of the limit.
std::vector<Limit> numbers_of_plans(const Rule& was, const RuleLimit& limit, const Rule& rule) {
  std::vector<Limit> by_plan;
  if (limit.by_plan.empty()) return by_plan;
  for (const std::string& name : rule.plans) {
    const auto plan = find_plan(was, name);
    by_plan.push_back(plan ? limit.by_plan[*plan] : limit.limit);
  }
  return by_plan;
}

// Returns a budget that stays in the row of the one at an index, which has left it. Null: that one
// stays too or is no budget, or there is none.
const RuleLimit* find_stay(const Rule& before, std::size_t index, const Rule& after) {
  const RuleLimit& left = before.limits[index];
  if (!holds_amounts(left.limit.algorithm()) || find_limit(after, left.name)) return nullptr;
  const auto [first, last] = row_around(before, index);
  for (std::size_t other = first; other < last; ++other) {
    const auto stays = find_limit(after, before.limits[other].name);
    if (stays && holds_amounts(after.limits[*stays].limit.algorithm())) {
      return &before.limits[other];
    }
  }
  return nullptr;
}

}  // namespace

RuleSet change_rules(const RuleSet& rules, const std::function<void(Rule& rule)>& change) {
  auto changed = std::make_shared<RuleSet::Impl>(rules.impl());
  for (Rule& rule : changed->rules) change(rule);
  changed->index_names();
  return RuleSet(std::move(changed));
}

RuleSet keep_removed(const RuleSet& before, const RuleSet& after, Instant now) {
  const RuleSet::Impl& old = before.impl();
  std::shared_ptr<RuleSet::Impl> kept;
  for (std::size_t i = 0; i < after.rules().size(); ++i) {
    const Rule* const was = before.find(after.rules()[i].name);
    if (was == nullptr || was->domain != after.rules()[i].domain) continue;
    const CompiledRule& its = old.compiled_of(*was);
    for (std::size_t left = 0; left < was->limits.size(); ++left) {
      const RuleLimit* const stays = find_stay(*was, left, after.rules()[i]);
      if (stays == nullptr) continue;
      const Instant since = its.limits[left].removed.value_or(now);
      if (now - since >= kLongestKnown) continue;
      if (!kept) kept = std::make_shared<RuleSet::Impl>(after.impl());
      Rule& rule = kept->rules[i];
      std::vector<CompiledLimit>& compiled = kept->compiled[i].limits;
      const auto [first, last] = row_around(rule, *find_limit(rule, stays->name));
      const auto in_row =
          std::count_if(compiled.begin() + static_cast<std::ptrdiff_t>(first),
                        compiled.begin() + static_cast<std::ptrdiff_t>(last),
                        [](const CompiledLimit& limit) { return limit.removed.has_value(); });
      if (in_row >= static_cast<std::ptrdiff_t>(kMostRemoved) || compiled.size() >= kMaxCharges) {
        continue;
      }
      const auto at = static_cast<std::ptrdiff_t>(last);
      RuleLimit limit = was->limits[left];
      limit.alternative = true;
      limit.by_plan = numbers_of_plans(*was, limit, rule);
      compiled
          .insert(compiled.begin() + at,
                  compiled_again(limit, its.limits[left], old.attributes, kept->attributes))
          ->removed = since;
      rule.limits.insert(rule.limits.begin() + at, std::move(limit));
    }
  }
  if (!kept) return after;
  kept->index_names();
  return RuleSet(std::move(kept));
}

Rule without_removed(const RuleSet& rules, const Rule& rule) {
  Rule out = rule;
  out.limits.clear();
  for (const RuleLimit& limit : rule.limits) {
    if (!rules.impl().compiled_of(rule, limit).removed) out.limits.push_back(limit);
  }
  return out;
}

Expected<RuleEdit, EditError> edit_rule(std::span<const RuleText> files, std::string_view rule,
                                        const RuleChanges& changes) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    Editor editor(files[i]);
    const auto index = find_rule(editor.root(), rule);
    if (!index) continue;
    if (auto error = change(editor, *index, rule, changes)) return Unexpected{std::move(*error)};
    return editor.done(i);
  }
  return Unexpected{EditError{EditError::Unknown::kWhole, "there is no rule " + in_quotes(rule)}};
}

Expected<RuleEdit, EditError> edit_shared(std::span<const RuleText> files, const Shared& kind,
                                          std::string_view name, const RuleChanges& changes) {
  const std::string of_name = std::string(kind.whole) + " " + in_quotes(name);
  std::optional<RuleEdit> done;
  std::string_view lacking;
  std::vector<std::string> known;  // parts, or while no file has the whole, the wholes
  bool is_known = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    Editor editor(files[i]);
    const Node* const all = value_of(editor.root(), kind.key);
    const Node* const whole = value_of(all, name);
    if (whole != nullptr && !std::exchange(is_known, true)) known.clear();
    for (const Pair& pair : pairs_of(is_known ? whole : all)) known.push_back(pair.first->text);
    if (whole == nullptr) continue;
    if (const std::string_view part = lacking_part(*whole, changes); !part.empty()) {
      lacking = part;
      continue;
    }
    if (done) {
      return Unexpected{EditError{{},
                                  "the " + of_name + " of " + in_quotes(files[done->file].file) +
                                      " and of " + in_quotes(files[i].file) + " has these " +
                                      std::string(kind.part) +
                                      "s; expected a change of the files"}};
    }
    if (auto wrong = change_shared(editor, kind, name, changes)) {
      return Unexpected{std::move(*wrong)};
    }
    done = editor.done(i);
  }
  if (done) return *std::move(done);
  const std::string expected =
      "; expected " +
      (known.empty() ? "'" + std::string(kind.key) + "' in the rules" : either(known));
  using Unknown = EditError::Unknown;
  const std::string of_rule = kind.key == kSharedPrices.key
                                  ? ""
                                  : ", or sluice rules set RULE/" + std::string(lacking) +
                                        " for numbers that the limit has in its rule";
  return Unexpected{
      is_known ? EditError{Unknown::kPart, "the " + of_name + " has no " + std::string(kind.part) +
                                               " " + in_quotes(lacking) + expected + of_rule}
               : EditError{Unknown::kWhole, "there is no " + of_name + expected}};
}

}  // namespace sluice::rules
