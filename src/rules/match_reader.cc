#include "rules/match_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "rules/fields.h"
#include "rules/source_text.h"

namespace sluice::rules {
namespace {

constexpr std::array<std::string_view, 9> kMethods{"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                   "CONNECT", "OPTIONS", "TRACE", "PATCH"};

// An expression takes kilobytes and microseconds, and aliases create many of them from few bytes.
constexpr std::size_t kMaxExpressions = 10000;
// A request may run all expressions of a file, each over every byte of a value.
constexpr std::size_t kMaxInstructions = 200'000;
constexpr std::size_t kLongestPattern = 4096;

// Returns an expression that matches only this text.
std::string as_expression(std::string_view text) {
  std::string out = "~";
  for (const char c : text) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void MatchReader::begin(Diagnostics& diagnostics) {
  diagnostics_ = &diagnostics;
  expressions_ = 0;
  instructions_ = 0;
}

std::vector<Condition> MatchReader::read(const Node& match) {
  std::vector<Condition> out;
  read_conditions(match, false, out);
  return out;
}

void MatchReader::read_conditions(const Node& map, bool negated, std::vector<Condition>& out) {
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
    Condition condition;
    condition.attribute = attributes_.number(key->text);
    condition.negated = negated;
    const auto [first, is_new] = seen.try_emplace(condition.attribute, key->at);
    if (!is_new) {
      const auto [line, column] = diagnostics_->source().place(first->second);
      diagnostics_->add(
          key->at, "duplicate attribute " + in_quotes(attributes_.names()[condition.attribute]),
          "expected a name other than that of line " + std::to_string(line) + ", column " +
              std::to_string(column));
    }
    const Kind kind = key->text == "ip" ? Kind::kAddressOrText : Kind::kText;
    read_value({&condition, key->text, kind}, *value);
    condition.own_networks.build();
    condition.has_networks = !condition.own_networks.empty() || !condition.networks.empty();
    out.push_back(std::move(condition));
  }
}

void MatchReader::read_value(const Place& place, const Node& node) {
  if (node.is_map()) return read_map(place, node);
  if (!node.is_sequence()) return read_scalar(place, node);
  if (node.items.empty()) {
    diagnostics_->add(node.at, in_quotes(place.attribute) + " has no patterns",
                      "expected a pattern, or a list of patterns");
  }
  for (const Node* item : node.items) {
    item->is_map() ? read_map(place, *item) : read_scalar(place, *item);
  }
}

void MatchReader::read_map(const Place& place, const Node& node) {
  const bool is_network = place.kind == Kind::kNetwork;
  const std::string expected = is_network ? "expected 'in: FILE'"
                                          : "expected a pattern, a list of patterns, 'in: FILE' or "
                                            "'network: [...]'";
  if (node.pairs.size() != 1) {
    const std::string what = node.pairs.empty() ? " is an empty map" : " is a map of several keys";
    return diagnostics_->add(node.at, in_quotes(place.attribute) + what, expected);
  }
  const auto& [key, value] = node.pairs.front();
  if (key->text == "in") return read_file(place, *value);
  if (key->text == "network" && !is_network) {
    return read_value({place.condition, place.attribute, Kind::kNetwork}, *value);
  }
  diagnostics_->add(key->at, "unknown key " + in_quotes(key->text),
                    expected + (is_network ? "" : did_you_mean(key->text, {"in", "network"})));
}

void MatchReader::read_file(const Place& place, const Node& node) {
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
  const std::string problem = place.kind == Kind::kText
                                  ? add(place.condition->texts, lists_.texts(path))
                                  : add(place.condition->networks, lists_.networks(path));
  if (problem.empty()) return;
  diagnostics_->add(node.at, "the list " + in_quotes(path) + " cannot be read: " + problem,
                    "expected the path of a file, relative to the folder of the rules file");
}

void MatchReader::read_scalar(const Place& place, const Node& node) {
  if (!node.is_scalar() || node.text.size() > kLongestPattern) {
    const bool is_network = place.kind == Kind::kNetwork;
    return diagnostics_->add(
        node.at, in_quotes(place.attribute) + " is " + describe(node),
        is_network ? "expected an address or a network, or a list of them"
                   : "expected a pattern of at most 4096 bytes, or a list of patterns");
  }
  if (place.kind == Kind::kText ? !looks_like_network(node.text) : !read_network(place, node)) {
    return read_pattern(place, node);
  }
  if (place.kind != Kind::kText) return;
  diagnostics_->add(node.at,
                    in_quotes(node.text) + " is a network, and " + in_quotes(place.attribute) +
                        " is compared as text",
                    "expected { network: " + node.text + " } if " + in_quotes(place.attribute) +
                        " is an address, or '" + as_expression(node.text) + "' for this text");
}

// Returns whether the text is an address or a network, right or wrong.
bool MatchReader::read_network(const Place& place, const Node& node) {
  const auto network = parse_network(node.text);
  if (!network) {
    diagnostics_->add_message(node.at, network.error());
    return true;
  }
  if (*network) {
    place.condition->own_networks.add(**network);
    return true;
  }
  // Such a text would match no address.
  const bool is_wrong =
      place.kind == Kind::kNetwork ||
      (node.text.find_first_of("*~") == node.text.npos &&
       node.text.find_first_of("0123456789") != node.text.npos &&
       node.text.find_first_not_of("0123456789abcdefABCDEF.:/") == node.text.npos);
  if (is_wrong) {
    diagnostics_->add(node.at, in_quotes(node.text) + " is not an address",
                      "expected an address or a network, such as 192.0.2.0/24");
  }
  return is_wrong;
}

void MatchReader::read_pattern(const Place& place, const Node& node) {
  if (expressions_ > kMaxExpressions || instructions_ > kMaxInstructions) return;
  auto pattern = Pattern::compile(node.text);
  if (!pattern) return diagnostics_->add_message(node.at, pattern.error());
  if (pattern->is_expression() && ++expressions_ > kMaxExpressions) {
    return diagnostics_->add(node.at, "too many expressions (aliases count as their values)",
                             "expected at most " + std::to_string(kMaxExpressions) + " in a file");
  }
  instructions_ += pattern->instructions();
  if (instructions_ > kMaxInstructions) {
    return diagnostics_->add(
        node.at,
        "the expressions up to " + in_quotes(node.text) + " have " + std::to_string(instructions_) +
            " instructions",
        "expected at most " + std::to_string(kMaxInstructions) +
            " in a file, so that no request takes long; repetitions such as {1,1000} cost most");
  }
  if (place.attribute == "method") check_method(node);
  if (pattern->is_expression()) ++place.condition->expressions;
  place.condition->any_of.push_back(std::move(pattern.value()));
}

void MatchReader::check_method(const Node& node) {
  std::string upper = node.text;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string_view method : kMethods) {
    if (upper != method || node.text == method) continue;
    diagnostics_->add(node.at, "the method " + in_quotes(node.text) + " would match no request",
                      "expected '" + upper + "': methods are case-sensitive");
  }
}

}  // namespace sluice::rules
