#include "rules/fields.h"

#include <algorithm>
#include <cstdlib>

#include "base/quoted.h"
#include "core/period.h"

namespace sluice::rules {
namespace {

using schema::Key;
using schema::Type;

// Parses a whole percentage from 1% to 100%.
std::optional<std::uint8_t> whole_percent(std::string_view text) noexcept {
  if (!text.ends_with('%')) return std::nullopt;
  const auto value = whole_number(text.substr(0, text.size() - 1));
  if (!value || *value < 1 || *value > 100) return std::nullopt;
  return static_cast<std::uint8_t>(*value);
}

// Each check_* returns whether the value is valid, and reports the error if it is not.

bool wrong(const Key& key, const Node& node, Diagnostics& diagnostics, std::string_view hint = {}) {
  const std::string found = key.is_secret && node.is_scalar() ? "not valid" : describe(node);
  diagnostics.add(node.at, "'" + std::string(key.name) + "' is " + found,
                  "expected " + schema::expectation(key).append(hint));
  return false;
}

bool check_text(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_scalar()) return wrong(key, node, diagnostics, node.flow ? ", in quotes" : "");
  if (node.text.size() < key.least || node.text.size() > key.most)
    return wrong(key, node, diagnostics);
  if (key.name != "body" && has_control(node.text)) {
    return wrong(key, node, diagnostics, " without control characters");
  }
  return true;
}

bool check_texts(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_sequence()) return check_text(key, node, diagnostics);
  bool right = true;
  for (const Node* item : node.items) right = check_text(key, *item, diagnostics) && right;
  return right;
}

bool check_template(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_scalar()) return wrong(key, node, diagnostics);
  if (node.text.size() <= key.most) return true;
  return wrong(key, node, diagnostics, " of at most " + std::to_string(key.most) + " bytes");
}

bool check_integer(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_scalar()) return wrong(key, node, diagnostics);
  if (node.quoted) return wrong(key, node, diagnostics, " without quotes");
  const auto value = grouped_number(node.text);
  if (value && *value >= key.least && *value <= key.most) return true;
  const bool is_fraction = key.name == "limit" && node.text.find('.') != node.text.npos &&
                           node.text.find_first_not_of("0123456789.") == node.text.npos;
  return wrong(key, node, diagnostics,
               value         ? ""
               : is_fraction ? ", in plain digits; 0.5 per second is 'limit: 1, per: 2s'"
                             : ", in plain digits");
}

// The loader compiles attributes.
bool check_cost(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_scalar()) return wrong(key, node, diagnostics, node.is_map() ? ", in quotes" : "");
  const auto value = whole_number(node.text);
  if (value && node.quoted) return wrong(key, node, diagnostics, "; a number is without quotes");
  if (value ? *value <= key.most : node.text == "request") return true;
  const bool is_computed =
      node.text.find_first_of("{*+") != node.text.npos || node.text.starts_with("price.");
  if (is_computed && node.text.size() <= 1024) return true;
  return wrong(key, node, diagnostics);
}

bool check_choice(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (node.is_scalar() && std::ranges::count(key.values, node.text) > 0) {
    return true;
  }
  return wrong(
      key, node, diagnostics,
      node.is_scalar() ? did_you_mean(node.text, {key.values.begin(), key.values.end()}) : "");
}

bool check_period(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_scalar()) return wrong(key, node, diagnostics);
  if (std::ranges::count(key.values, node.text) > 0) return true;
  // A number that lacks a unit is one of the default's size.
  const auto period = core::parse_period(node.text, key.otherwise.ends_with("ms") ? "ms" : "s");
  if (!period) {
    const bool is_word =
        !key.values.empty() && (node.text.empty() || !base::is_digit(node.text[0]));
    const std::string words = is_word ? ", or " + base::joined(key.values, " or ") : std::string();
    diagnostics.add_message(node.at,
                            "'" + std::string(key.name) + "': " + period.error() + words +
                                did_you_mean(node.text, {key.values.begin(), key.values.end()}));
  }
  if (!period || key.most == 0) return period.has_value();
  return (*period >= schema::milliseconds(key.least) &&
          *period <= schema::milliseconds(key.most)) ||
         wrong(key, node, diagnostics);
}

bool check_list(const Key& key, const Node& node, Diagnostics& diagnostics) {
  if (!node.is_sequence()) return wrong(key, node, diagnostics);
  const std::size_t size = node.items.size();
  if (size >= key.least && size <= key.most) return true;
  diagnostics.add(node.at, "'" + std::string(key.name) + "' has " + std::to_string(size) + " items",
                  "expected " + std::to_string(key.least) + " to " + std::to_string(key.most));
  return size > 0;
}

bool check(const Key& key, const Node& node, Diagnostics& diagnostics) {
  switch (key.type) {
    case Type::kText: return check_text(key, node, diagnostics);
    case Type::kTexts: return check_texts(key, node, diagnostics);
    case Type::kTemplate: return check_template(key, node, diagnostics);
    case Type::kInteger: return check_integer(key, node, diagnostics);
    case Type::kCost: return check_cost(key, node, diagnostics);
    case Type::kFlag:
      return node.is_plain("true") || node.is_plain("false") || wrong(key, node, diagnostics);
    case Type::kChoice: return check_choice(key, node, diagnostics);
    case Type::kPeriod: return check_period(key, node, diagnostics);
    case Type::kPercent:
      return (node.is_scalar() && whole_percent(node.text)) || wrong(key, node, diagnostics);
    case Type::kShare:
      return (node.is_scalar() && !node.quoted && share_of(node.text)) ||
             wrong(key, node, diagnostics);
    case Type::kDay: return node.is_scalar() || wrong(key, node, diagnostics);
    case Type::kCount:
    case Type::kMatch:
    case Type::kHeaders:
    case Type::kPlans:
    case Type::kPrices: return node.is_map() || wrong(key, node, diagnostics);
    case Type::kMap:
      return node.is_map() || (node.is_scalar() && key.map->is_short) ||
             wrong(key, node, diagnostics);
    case Type::kList: return check_list(key, node, diagnostics);
  }
  return false;
}

std::vector<std::string_view> names_of(const schema::Map& map) {
  std::vector<std::string_view> names;
  for (const Key& key : map.keys) names.push_back(key.name);
  return names;
}

}  // namespace

std::size_t position_in(const Node& scalar, std::size_t offset, const Diagnostics& diagnostics) {
  const std::string_view text = diagnostics.text();
  const std::size_t begin = std::min(scalar.at + (scalar.quoted ? 1 : 0), text.size());
  return text.substr(begin).starts_with(scalar.text) ? begin + offset : scalar.at;
}

Node inheriting(const Node& map, const schema::Map& keys, const Node& from,
                std::span<const std::string_view> inherited) {
  Node out = map;
  const std::vector<std::string_view> known = names_of(keys);
  const auto has = [](const auto& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  std::erase_if(out.pairs, [&](const auto& pair) { return !has(known, pair.first->text); });
  for (const auto& pair : from.pairs) {
    const bool is_own = std::ranges::any_of(
        out.pairs, [&](const auto& own) { return own.first->text == pair.first->text; });
    if (!is_own && has(inherited, pair.first->text)) out.pairs.push_back(pair);
  }
  return out;
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull: return "nothing";
    case Node::Kind::kScalar:
      return node.text.empty() ? "empty" : (node.quoted ? "the text " : "") + in_quotes(node.text);
    case Node::Kind::kSequence: return node.items.empty() ? "an empty list" : "a list";
    case Node::Kind::kMap: return node.pairs.empty() ? "an empty map" : "a map";
  }
  return {};
}

std::vector<const Node*> texts_of(const Node& node) {
  return node.is_sequence() ? node.items : std::vector<const Node*>{&node};
}

std::optional<std::uint64_t> grouped_number(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i + 1] == '_') {
      return std::nullopt;
    }
  }
  return whole_number(digits);
}

std::optional<std::uint64_t> whole_number(std::string_view text) noexcept {
  const bool has_zeros = text.size() > 1 && text[0] == '0';
  return has_zeros ? std::nullopt : base::read_number<std::uint64_t>(text);
}

std::optional<double> share_of(std::string_view text) noexcept {
  const auto value = base::read_number<double>(text);
  return value && *value >= 0 && *value <= 1 ? value : std::nullopt;
}

std::uint64_t schema::number_of(const Key& key, const Node& value) {
  switch (key.type) {
    case Type::kFlag: return value.text == "true" ? 1 : 0;
    case Type::kChoice: {
      const auto word = std::ranges::find(key.values, value.text);
      return static_cast<std::uint64_t>(word - key.values.begin());
    }
    case Type::kPercent: return *whole_percent(value.text);
    case Type::kPeriod:
      return static_cast<std::uint64_t>(core::parse_period(value.text).value().count());
    default: return *grouped_number(value.text);
  }
}

Fields Fields::read(const Node& node, const schema::Map& map, Diagnostics& diagnostics,
                    void* object) {
  Fields fields(node, map);
  if (node.is_scalar() && map.is_short) {
    Node name;
    name.text = map.keys.front().name;
    fields.take(name, node, diagnostics, object);
    return fields;
  }
  if (!node.is_map()) {
    diagnostics.add(node.at, std::string(map.name) + " is " + describe(node),
                    "expected a map; its keys are one of: " + base::joined(names_of(map)));
    return fields;
  }
  for (const auto& [key, value] : node.pairs) fields.take(*key, *value, diagnostics, object);
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const Key& key = map.keys[i];
    if (!key.required || fields.values_[i].given != nullptr) continue;
    diagnostics.add(node.at, std::string(map.name) + " lacks '" + std::string(key.name) + "'",
                    "expected '" + std::string(key.name) + ":' with " + schema::expectation(key));
  }
  return fields;
}

void Fields::take(const Node& key, const Node& value, Diagnostics& diagnostics, void* object) {
  for (std::size_t i = 0; i < map_->keys.size(); ++i) {
    const Key& row = map_->keys[i];
    if (row.name != key.text) continue;
    values_[i].given = &value;
    values_[i].valid = check(row, value, diagnostics);
    if (!values_[i].valid) return;
    if (row.part != nullptr) {
      values_[i].map =
          std::make_unique<const Fields>(read(value, *row.map, diagnostics, row.part(object)));
    } else if (row.set != nullptr && object != nullptr) {
      row.set(object, row, value, diagnostics);
    }
    return;
  }
  const std::vector<std::string_view> names = names_of(*map_);
  diagnostics.add(key.at, "unknown key " + in_quotes(key.text),
                  "expected one of: " + base::joined(names) + did_you_mean(key.text, names) +
                      full_width_hint(key.text));
}

std::size_t Fields::index(std::string_view name) const {
  for (std::size_t i = 0; i < map_->keys.size(); ++i) {
    if (map_->keys[i].name == name) return i;
  }
  std::abort();
}

const Node* Fields::node(std::string_view name) const {
  const Value& value = values_[index(name)];
  return value.valid ? value.given : nullptr;
}

std::size_t Fields::at(std::string_view name) const {
  const Node* given = values_[index(name)].given;
  return given != nullptr ? given->at : at_;
}

std::optional<Duration> Fields::period(std::string_view name) const {
  const Node* value = node(name);
  if (value == nullptr) return std::nullopt;
  const auto period = core::parse_period(value->text);
  return period ? std::optional(*period) : std::nullopt;
}

std::string_view Fields::text(std::string_view name) const {
  const Node* value = node(name);
  return value != nullptr ? std::string_view(value->text) : std::string_view();
}

std::optional<std::uint64_t> Fields::integer(std::string_view name) const {
  const Node* value = node(name);
  return value != nullptr ? std::optional(schema::number_of(key(name), *value)) : std::nullopt;
}

}  // namespace sluice::rules
