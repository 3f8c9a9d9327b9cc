// What differs between two files of rules, and the change of one rule in the text of its file. A
// change writes only the values that it is about; comments and the order of keys stay.

#include "rules/rule_changes.h"

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

namespace {

using Pair = std::pair<const Node*, const Node*>;

const Pair* find(const Node& map, std::string_view key) {
  const auto has_key = [&](const Pair& pair) { return pair.first->text == key; };
  const auto found = std::find_if(map.pairs.begin(), map.pairs.end(), has_key);
  return found == map.pairs.end() ? nullptr : &*found;
}

const Node* value_of(const Node& map, std::string_view key) {
  const Pair* const pair = find(map, key);
  return pair == nullptr ? nullptr : pair->second;
}

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

// The bytes of a scalar in the text, without quotes.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool quoted = false;

  std::size_t behind() const noexcept { return end + (quoted ? 1 : 0); }
};

// Returns nothing if the scalar is written with escapes or on several lines.
std::optional<Span> find_span(std::string_view text, const Node& scalar) {
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
  return Span{at, end, quoted};
}

// Changes values in a text, and in a copy of its tree: what the new text must mean.
class Editor {
 public:
  Editor(std::string_view text, const Node* root) : text_(text), root_(root) {}

  const Node* root() const noexcept { return root_; }
  // Return a copy of a value, in its place, whose members may be changed.
  Node& own_root() { return own(root_); }
  Node& own(Node& map, std::string_view key) {
    for (Pair& pair : map.pairs) {
      if (pair.first->text == key) return own(pair.second);
    }
    return map;
  }
  Node& own(Node& list, std::size_t index) { return own(list.items[index]); }
  // Sets a key of a map that own() returned. A new one gets its place after `neighbour`. Returns
  // whether the text has such a place.
  bool set(Node& map, std::string_view key, const std::string& value, std::string_view neighbour);
  std::string text() const;

 private:
  struct Edit {
    std::size_t at;
    std::size_t removed;
    std::string text;
  };

  Node& own(const Node*& place) {
    copies_.nodes.push_back(*place);
    place = &copies_.nodes.back();
    return copies_.nodes.back();
  }
  const Node* make_scalar(std::string_view text) {
    Node& node = copies_.nodes.emplace_back();
    node.kind = Node::Kind::kScalar;
    node.text = text;
    return &node;
  }
  bool insert(Node& map, std::string_view key, const std::string& value,
              std::string_view neighbour);
  std::optional<Span> span_of(const Node& scalar) const;

  std::string_view text_;
  const Node* root_;
  Document copies_;
  std::vector<Edit> edits_;
  std::vector<std::pair<const Node*, Span>> changed_;  // scalars with another value than the text
};

bool Editor::set(Node& map, std::string_view key, const std::string& value,
                 std::string_view neighbour) {
  const Node* const old = value_of(map, key);
  if (old == nullptr) return insert(map, key, value, neighbour);
  const auto span = find_span(text_, *old);
  if (!span) return false;
  edits_.push_back({span->begin, span->end - span->begin, value});
  Node& changed = own(map, key);
  changed.text = value;
  changed_.emplace_back(&changed, *span);
  return true;
}

std::optional<Span> Editor::span_of(const Node& scalar) const {
  for (const auto& [changed, span] : changed_) {
    if (changed == &scalar) return span;
  }
  return find_span(text_, scalar);
}

bool Editor::insert(Node& map, std::string_view key, const std::string& value,
                    std::string_view neighbour) {
  const Pair* const before = find(map, neighbour);
  const auto span = before == nullptr ? std::nullopt : span_of(*before->second);
  if (!span) return false;
  const std::string added = std::string(key) + ": " + value;
  if (map.flow) {
    edits_.push_back({span->behind(), 0, ", " + added});
  } else {
    const std::size_t line = text_.rfind('\n', before->first->at) + 1;  // 0 if there is none
    std::size_t end = std::min(text_.find('\n', span->behind()), text_.size());
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

// Two insertions at one place: the later one comes first, as in the tree.
std::string Editor::text() const {
  std::vector<Edit> edits(edits_.rbegin(), edits_.rend());
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.at < b.at; });
  std::string out;
  std::size_t done = 0;
  for (const Edit& edit : edits) {
    if (edit.at < done) continue;  // an alias: the tree will differ
    out.append(text_.substr(done, edit.at - done)).append(edit.text);
    done = edit.at + edit.removed;
  }
  return out.append(text_.substr(done));
}

std::string limit_name(const Node& limit, std::string_view rule, std::size_t index) {
  const Node* const name = value_of(limit, "name");
  return name != nullptr ? name->text : std::string(rule) + "/" + std::to_string(index);
}

EditError unknown_limit(const Node* limits, std::string_view rule, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; limits != nullptr && i < limits->items.size(); ++i) {
    names.push_back(limit_name(*limits->items[i], rule, i));
  }
  const std::string what = "rule " + in_quotes(rule) + " has no limit " + in_quotes(name);
  if (names.empty()) return {true, what + "; expected no 'limits', the rule has none"};
  return {true, what + "; expected " + either({names.begin(), names.end()})};
}

EditError no_place(std::string_view key, std::string_view of) {
  return {false, in_quotes(key) + " of " + std::string(of) +
                     " cannot be changed alone: its text is shared by an anchor, or on several "
                     "lines; expected a change of the rules file, or PUT /v1/rules"};
}

EditError no_own_numbers(std::string_view of) {
  return {false, std::string(of) +
                     " has no 'limit' of its own, its numbers come from plans, which limits of "
                     "other rules share; expected a change of the plans in the rules file, or PUT "
                     "/v1/rules"};
}

// Changes a number. Returns the error, if there is one.
std::optional<EditError> change_number(Editor& editor, Node& rule, std::string_view rule_name,
                                       const RuleChanges::Number& change) {
  const Node* const limits = value_of(rule, "limits");
  std::size_t index = 0;
  const std::size_t count = limits == nullptr ? 0 : limits->items.size();
  while (index < count && limit_name(*limits->items[index], rule_name, index) != change.limit) {
    ++index;
  }
  if (index == count) return unknown_limit(limits, rule_name, change.limit);
  const std::string of = "limit " + in_quotes(change.limit) + " of rule " + in_quotes(rule_name);
  Node& limit = editor.own(editor.own(rule, "limits"), index);
  if (value_of(limit, "limit") == nullptr) return no_own_numbers(of);
  if (editor.set(limit, change.key, change.value, "limit")) return std::nullopt;
  return no_place(change.key, of);
}

std::optional<EditError> change(Editor& editor, std::size_t index, std::string_view name,
                                const RuleChanges& changes) {
  Node& rule = editor.own(editor.own(editor.own_root(), "rules"), index);
  for (const RuleChanges::Number& number : changes.numbers) {
    if (auto error = change_number(editor, rule, name, number)) return error;
  }
  const std::string of = "rule " + in_quotes(name);
  if (changes.mode && !editor.set(rule, "mode", *changes.mode, "name")) return no_place("mode", of);
  Document written;
  const std::string text = editor.text();
  const SourceText source(text);
  Diagnostics diagnostics(source, "");
  read_yaml(diagnostics, written);
  if (written.root != nullptr && equal(*written.root, *editor.root())) return std::nullopt;
  return no_place(changes.mode && changes.numbers.empty() ? "mode" : "limits", of);
}

// Returns the index of the rule in a file.
std::optional<std::size_t> find_rule(const Document& document, std::string_view name) {
  if (document.root == nullptr) return std::nullopt;
  const Node* const rules = value_of(*document.root, "rules");
  if (rules == nullptr) return std::nullopt;
  const auto found = std::find_if(rules->items.begin(), rules->items.end(),
                                  [&](const Node* rule) { return has_name(*rule, name); });
  if (found == rules->items.end()) return std::nullopt;
  return static_cast<std::size_t>(found - rules->items.begin());
}

}  // namespace

Expected<RuleEdit, EditError> edit_rule(std::span<const RuleText> files, std::string_view rule,
                                        const RuleChanges& changes) {
  for (std::size_t file = 0; file < files.size(); ++file) {
    const std::string_view bytes = files[file].yaml;
    const SourceText source(bytes);
    Diagnostics diagnostics(source, files[file].file);
    Document document;
    read_yaml(diagnostics, document);
    const auto index = find_rule(document, rule);
    if (!index) continue;
    Editor editor(source.text(), document.root);
    if (auto error = change(editor, *index, rule, changes)) return Unexpected{std::move(*error)};
    const std::string_view mark = bytes.substr(0, bytes.size() - source.text().size());
    return RuleEdit{file, std::string(mark) + editor.text()};
  }
  return Unexpected{EditError{true, "there is no rule " + in_quotes(rule)}};
}

}  // namespace sluice::rules
