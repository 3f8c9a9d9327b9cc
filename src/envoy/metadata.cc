#include "envoy/metadata.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace sluice::envoy {
namespace {

using rules::Diagnostics;
using rules::Node;

std::optional<bool> flag_of(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// Parses a finite decimal number. It must begin with a digit, which excludes "inf" and "nan".
std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || digits[0] < '0' || digits[0] > '9') return std::nullopt;
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

Value scalar(const Node& node) {
  Value value;
  if (!node.quoted) {
    if (node.text.empty() || node.text == "null") return value;
    if (const auto flag = flag_of(node.text)) {
      value.kind = Value::Kind::kFlag;
      value.flag = *flag;
      return value;
    }
    if (const auto number = number_of(node.text)) {
      value.kind = Value::Kind::kNumber;
      value.number = *number;
      return value;
    }
  }
  value.kind = Value::Kind::kText;
  value.text = node.text;
  return value;
}

Value read(const Node& node, Diagnostics& diagnostics, std::size_t depth) {
  Value value;
  if (node.kind == Node::Kind::kNull) return value;
  if (node.is_scalar()) return scalar(node);
  if (depth == 0) {
    diagnostics.add(node.at, "'metadata' is nested too deeply",
                    "expected at most " + std::to_string(kMaxMetadataDepth) + " levels");
    return value;
  }
  value.kind = node.is_map() ? Value::Kind::kMap : Value::Kind::kList;
  for (const Node* item : node.items) value.items.push_back(read(*item, diagnostics, depth - 1));
  for (const auto& [key, member] : node.pairs) {
    if (!is_plain_text(*key)) {
      diagnostics.add(key->at, "the key " + rules::in_quotes(key->text) + " is not text",
                      "expected it in quotes");
    }
    value.members.push_back({key->text, read(*member, diagnostics, depth - 1)});
  }
  return value;
}

}  // namespace

bool is_plain_text(const Node& node) { return scalar(node).kind == Value::Kind::kText; }

Value read_metadata(const Node& node, Diagnostics& diagnostics) {
  return read(node, diagnostics, kMaxMetadataDepth);
}

}  // namespace sluice::envoy
