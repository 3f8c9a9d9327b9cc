#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/diagnostics.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {

// The values of one map that stood the test of its schema. What is wrong with the others went to
// the diagnostics; they are absent here. Borrows the document.
class Fields {
 public:
  // Checks that `node` is a map, for unknown and missing keys, and the type and range of each
  // value.
  static Fields read(const Node& node, const schema::Map& map, Diagnostics& diagnostics);

  // The names below are of the map's schema; another name ends the program.
  const Node* node(std::string_view name) const;
  // Where the value stands that was given, right or wrong; else where the map does.
  std::size_t at(std::string_view name) const;
  std::optional<std::uint64_t> integer(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<Duration> period(std::string_view name) const;
  std::string_view text(std::string_view name) const;           // empty where absent
  std::vector<const Node*> texts(std::string_view name) const;  // of kTexts: one, or the list
  // The enumerator whose place is that of the value in the schema's list.
  template <typename Enum>
  std::optional<Enum> choice(std::string_view name) const {
    const auto index = choice_index(name);
    return index ? std::optional<Enum>(static_cast<Enum>(*index)) : std::nullopt;
  }

 private:
  struct Value {
    const Node* given = nullptr;
    bool valid = false;
  };

  Fields(const Node& node, const schema::Map& map)
      : map_(&map), at_(node.at), values_(map.keys.size()) {}
  std::size_t index(std::string_view name) const;
  std::optional<std::size_t> choice_index(std::string_view name) const;
  void take(const Node& key, const Node& value, Diagnostics& diagnostics);

  const schema::Map* map_;
  std::size_t at_;
  std::vector<Value> values_;
};

// A value as a message names it: "the text '10'", "a list", "nothing".
std::string describe(const Node& node);

// A whole number without sign, leading zeros, or anything else; absent where it is none or past
// 2^64 - 1.
std::optional<std::uint64_t> whole_number(std::string_view text) noexcept;

}  // namespace sluice::rules
