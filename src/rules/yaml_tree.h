#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/diagnostics.h"

namespace sluice::rules {

// A value of a YAML file, and its position.
struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;     // a scalar in quotes, or a block scalar
  bool flow = false;       // a list or a map in brackets
  bool complete = true;    // false while its members are read
  std::size_t at = 0;      // offset of its first byte in the text
  std::size_t weight = 1;  // its nodes, with each alias counted as its target
  std::string text;        // of a scalar
  std::vector<const Node*> items;
  std::vector<std::pair<const Node*, const Node*>> pairs;  // keys are scalars without repetition

  bool is_map() const noexcept { return kind == Kind::kMap; }
  bool is_scalar() const noexcept { return kind == Kind::kScalar; }
  bool is_sequence() const noexcept { return kind == Kind::kSequence; }
  // Returns whether this is the unquoted scalar `wanted`.
  bool is_plain(std::string_view wanted) const noexcept {
    return is_scalar() && !quoted && text == wanted;
  }
};

// The values of a file. The addresses of nodes are stable; an alias is another pointer to its node.
struct Document {
  std::deque<Node> nodes;
  const Node* root = nullptr;
};

inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxDepth = 32;
inline constexpr std::size_t kMaxNodes = 1000000;

// Returns the bytes of a file, at most kMaxFileBytes + 1. Errors: one, the reason it cannot be
// read.
Expected<std::string, std::vector<RuleError>> read_file(const std::string& path);

// Reads one YAML document. Reports errors of text, syntax and structure (a repeated key, a tag, too
// much nesting, too many aliases) to the diagnostics. `root` is null if nothing could be read. Does
// not throw. `max_depth` is that of nested lists and maps, at most 480; `begins_with` is the usual
// first line, for messages.
Document read_yaml(Diagnostics& diagnostics, std::size_t max_depth = kMaxDepth,
                   std::string_view begins_with = "version: 1");

}  // namespace sluice::rules
