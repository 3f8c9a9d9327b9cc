#include "envoy/go_yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::envoy {
namespace {

using rules::Document;
using rules::Node;

constexpr std::array<std::string_view, 6> kFlags{"unlimited",       "shadow_mode",
                                                 "quota_mode",      "detailed_metric",
                                                 "value_to_metric", "share_threshold"};
constexpr std::array<std::string_view, 3> kNumbers{"requests_per_unit", "burst", "slices"};
constexpr std::array<std::string_view, 11> kTrue{"true", "True", "TRUE", "yes", "Yes", "YES",
                                                 "on",   "On",   "ON",   "y",   "Y"};
constexpr std::array<std::string_view, 11> kFalse{"false", "False", "FALSE", "no", "No", "NO",
                                                  "off",   "Off",   "OFF",   "n",  "N"};

template <std::size_t N>
bool is_one(const std::array<std::string_view, N>& of, std::string_view text) {
  return std::find(of.begin(), of.end(), text) != of.end();
}

// Returns the number in plain digits, or nothing if it is not a number or already has that form.
std::optional<std::string> plain_number(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::string digits;
  std::remove_copy(text.begin(), text.end(), std::back_inserter(digits), '_');
  const bool hexadecimal =
      digits.size() > 2 && (digits.starts_with("0x") || digits.starts_with("0X"));
  if (!hexadecimal && digits.size() == text.size()) return std::nullopt;
  const char* const begin = digits.data() + (hexadecimal ? 2 : 0);
  const char* const end = digits.data() + digits.size();
  std::uint64_t value = 0;
  const auto [last, error] = std::from_chars(begin, end, value, hexadecimal ? 16 : 10);
  if (error != std::errc() || last != end || (!hexadecimal && digits.front() == '0')) {
    return std::nullopt;
  }
  return std::to_string(value);
}

class Rewriter {
 public:
  Rewriter(Document& document, rules::Diagnostics& diagnostics)
      : document_(document), diagnostics_(diagnostics) {}

  void run() {
    // Nodes that are created here need no rewriting.
    const std::size_t count = document_.nodes.size();
    for (std::size_t i = 0; i < count; ++i) {
      Node& node = document_.nodes[i];
      if (!node.is_map()) continue;
      by_address_.emplace(&node, &node);
      for (auto& [key, value] : node.pairs) value = rewritten(*key, *value);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (document_.nodes[i].is_map()) merge(document_.nodes[i]);
    }
  }

 private:
  // Returns the value, or an equivalent value in the form that rules accept.
  const Node* rewritten(const Node& key, const Node& value) {
    if (!value.is_scalar() || value.quoted) return &value;
    if (is_one(kFlags, key.text)) {
      if (is_one(kTrue, value.text)) return with_text(value, "true");
      if (is_one(kFalse, value.text)) return with_text(value, "false");
    } else if (is_one(kNumbers, key.text)) {
      if (auto number = plain_number(value.text)) return with_text(value, std::move(*number));
    }
    return &value;
  }
  const Node* with_text(const Node& value, std::string text) {
    if (value.text == text) return &value;
    Node& copy = document_.nodes.emplace_back(value);
    copy.text = std::move(text);
    return &copy;
  }

  // This terminates because an alias refers to a node that ended before it. With each alias counted
  // as its target, the file has at most kMaxNodes members, so that is also the most to merge.
  void merge(Node& map) {
    if (!merged_.insert(&map).second) return;
    const auto found = std::find_if(map.pairs.begin(), map.pairs.end(),
                                    [](const auto& pair) { return pair.first->is_plain("<<"); });
    if (found == map.pairs.end()) return;
    const Node& from = *found->second;
    map.pairs.erase(found);
    if (from.is_map()) {
      take(map, from);
    } else if (from.is_sequence()) {
      for (const Node* one : from.items) take(map, *one);
    } else {
      refuse(from);
    }
  }
  void take(Node& into, const Node& from) {
    const auto known = by_address_.find(&from);
    if (known == by_address_.end()) return refuse(from);
    merge(*known->second);
    std::unordered_set<std::string_view> there;
    for (const auto& [key, value] : into.pairs) there.insert(key->text);
    for (const auto& pair : from.pairs) {
      if (there.insert(pair.first->text).second) into.pairs.push_back(pair);
    }
  }
  void refuse(const Node& node) {
    diagnostics_.add(node.at, "'<<' merges a value that is not a map",
                     "expected a map, or a list of maps");
  }

  Document& document_;
  rules::Diagnostics& diagnostics_;
  std::unordered_map<const Node*, Node*> by_address_;
  std::unordered_set<const Node*> merged_;
};

}  // namespace

void read_as_yaml_1_1(Document& document, rules::Diagnostics& diagnostics) {
  Rewriter(document, diagnostics).run();
}

}  // namespace sluice::envoy
