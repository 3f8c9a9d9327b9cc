#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rules/diagnostics.h"

namespace sluice::rules {

// A value of a YAML file, and where it stands.
struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  bool quoted = false;     // a scalar in quotes, or a block scalar
  bool flow = false;       // a list or map in brackets
  bool complete = true;    // false while its members are being read
  std::size_t at = 0;      // its first byte in the text
  std::size_t weight = 1;  // it and all within it, aliases counted as what they stand for
  std::string text;        // of a scalar
  std::vector<const Node*> items;
  std::vector<std::pair<const Node*, const Node*>> pairs;  // keys are scalars, each once

  bool is_map() const noexcept { return kind == Kind::kMap; }
  bool is_scalar() const noexcept { return kind == Kind::kScalar; }
  bool is_sequence() const noexcept { return kind == Kind::kSequence; }
  // Text, not a number: in quotes, or the plain scalar of that text.
  bool is_plain(std::string_view wanted) const noexcept {
    return is_scalar() && !quoted && text == wanted;
  }
};

// The values of a file. Nodes stay where they are; an alias is a second pointer to its node.
struct Document {
  std::deque<Node> nodes;
  const Node* root = nullptr;
};

inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20;
inline constexpr std::size_t kMaxDepth = 32;
inline constexpr std::size_t kMaxNodes = 1000000;

// The bytes of a file, at most one more than kMaxFileBytes. Errors: one, why it cannot be read.
Expected<std::string, std::vector<RuleError>> read_file(const std::string& path);

// What differs between kinds of files.
struct YamlKind {
  std::size_t max_depth = kMaxDepth;            // of lists and maps in one another; at most 480
  std::string_view begins_with = "version: 1";  // how a file begins, for messages
};

// Reads one YAML document. What is wrong with its text, its syntax, or its structure (a key twice
// in one map, a tag, too deep, too many aliases) goes to the diagnostics; `root` is null where
// nothing could be read. Does not throw.
void read_yaml(Diagnostics& diagnostics, Document& document, const YamlKind& kind = {});

}  // namespace sluice::rules
