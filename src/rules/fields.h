#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/diagnostics.h"
#include "rules/schema.h"
#include "rules/yaml_tree.h"

namespace sluice::rules {

// The valid values of one map, checked by its schema. Errors of the other values are in the
// diagnostics; the getters report those values as absent. Borrows the document.
class Fields {
 public:
  // Checks that `node` is a map without unknown or missing keys, and checks the type and the range
  // of each value.
  static Fields read(const Node& node, const schema::Map& map, Diagnostics& diagnostics);

  // The names below must be keys of the map's schema; any other name aborts the program.
  const Node* node(std::string_view name) const;
  // Whether there is a value, valid or not.
  bool has(std::string_view name) const { return values_[index(name)].given != nullptr; }
  // Returns the position of the value, valid or not; without a value, the position of the map.
  std::size_t at(std::string_view name) const;
  std::optional<std::uint64_t> integer(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const;
  std::optional<Duration> period(std::string_view name) const;
  std::optional<std::uint8_t> percent(std::string_view name) const;
  std::string_view text(std::string_view name) const;           // empty if absent
  std::vector<const Node*> texts(std::string_view name) const;  // of kTexts: one text, or a list
  // Returns the enumerator with the same index as the value in the schema's list of choices.
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

// Describes a value for a message: "the text '10'", "a list", "nothing".
std::string describe(const Node& node);

// Parses a whole number without sign or leading zeros. Returns nothing for any other text and for
// numbers over 2^64 - 1.
std::optional<std::uint64_t> whole_number(std::string_view text) noexcept;

// Parses a whole percentage from 1% to 100%.
std::optional<std::uint8_t> whole_percent(std::string_view text) noexcept;

}  // namespace sluice::rules
