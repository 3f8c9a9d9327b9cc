#include "rules/rule_edit.h"

#include <algorithm>
#include <utility>

#include "rules/diagnostics.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {
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
