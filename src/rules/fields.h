#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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
  // of each value. Sets the valid ones in `object`, unless it is null: it has the type that the
  // rows of the map name (Key::set).
  static Fields read(const Node& node, const schema::Map& map, Diagnostics& diagnostics,
                     void* object = nullptr);

  // The names below must be keys of the map's schema; any other name aborts the program.
  const schema::Key& key(std::string_view name) const { return map_->keys[index(name)]; }
  const Node* node(std::string_view name) const;
  // The map under a key with Key::part, which is read with this one. Null: there is none.
  const Fields* map(std::string_view name) const { return values_[index(name)].map.get(); }
  // Whether there is a value, valid or not.
  bool has(std::string_view name) const { return values_[index(name)].given != nullptr; }
  // Returns the position of the value, valid or not; without a value, the position of the map.
  std::size_t at(std::string_view name) const;
  std::string_view text(std::string_view name) const;  // empty if absent
  // The value as a number (schema::number_of), and what it means by the type of the key.
  std::optional<std::uint64_t> integer(std::string_view name) const;
  std::optional<bool> flag(std::string_view name) const { return as<bool>(name); }
  // Absent also for a word, such as `day`.
  std::optional<Duration> period(std::string_view name) const;
  // Returns the enumerator with the same index as the value in the schema's list of choices.
  template <typename Enum>
  std::optional<Enum> choice(std::string_view name) const {
    return as<Enum>(name);
  }

 private:
  struct Value {
    const Node* given = nullptr;
    bool valid = false;
    std::unique_ptr<const Fields> map = {};
  };

  Fields(const Node& node, const schema::Map& map)
      : map_(&map), at_(node.at), values_(map.keys.size()) {}
  std::size_t index(std::string_view name) const;
  template <typename Value>
  std::optional<Value> as(std::string_view name) const {
    const auto given = integer(name);
    return given ? std::optional(static_cast<Value>(*given)) : std::nullopt;
  }
  void take(const Node& key, const Node& value, Diagnostics& diagnostics, void* object);

  const schema::Map* map_;
  std::size_t at_;
  std::vector<Value> values_;
};

// Returns the position of an offset of a scalar in its file. If the text is not written there as it
// is, returns that of its begin.
std::size_t position_in(const Node& scalar, std::size_t offset, const Diagnostics& diagnostics);

// Returns a map with the keys of its schema, and with those of `inherited` that only the other has.
Node inheriting(const Node& map, const schema::Map& keys, const Node& from,
                std::span<const std::string_view> inherited);

// Describes a value for a message: "the text '10'", "a list", "nothing".
std::string describe(const Node& node);

// The texts of a valid value of kTexts: one text, or a list.
std::vector<const Node*> texts_of(const Node& node);

// Parses a whole number without sign or leading zeros. Returns nothing for any other text and for
// numbers over 2^64 - 1.
std::optional<std::uint64_t> whole_number(std::string_view text) noexcept;

// Parses a whole number of a file, whose digits may be in groups: 500_000_000.
std::optional<std::uint64_t> grouped_number(std::string_view text);

// Parses a number from 0 to 1, such as 0.01.
std::optional<double> share_of(std::string_view text) noexcept;

namespace schema {

// Returns a valid value as a number: that of kInteger and kPercent, the nanoseconds of a kPeriod,
// the index of a kChoice among its words, and 1 for `true`.
std::uint64_t number_of(const Key& key, const Node& value);

template <typename Member>
void assign(Member& member, const Key& key, const Node& value) {
  if constexpr (std::is_same_v<Member, std::string>) {
    member = value.text;
  } else if constexpr (std::is_floating_point_v<Member>) {
    member = *share_of(value.text);
  } else if constexpr (requires { typename Member::period; }) {
    member = std::chrono::duration_cast<Member>(
        Duration(static_cast<std::int64_t>(number_of(key, value))));
  } else {
    member = static_cast<Member>(number_of(key, value));
  }
}

template <typename Object, typename Member>
Object& object_of(Member Object::*, void* object) {
  return *static_cast<Object*>(object);
}

// Sets a member, or a member of members: kSet<&Rule::mode>, kSet<&Rule::reject, &Reject::body>.
template <auto First, auto... Rest>
inline constexpr Set kSet = [](void* object, const Key& key, const Node& value, Diagnostics&) {
  assign(((object_of(First, object).*First).*....*Rest), key, value);
};

// The map is read into that member, or into the same object.
template <auto Member>
inline constexpr Part kPart = [](void* object) -> void* {
  return object == nullptr ? nullptr : &(object_of(Member, object).*Member);
};
inline constexpr Part kSameObject = [](void* object) { return object; };

}  // namespace schema

}  // namespace sluice::rules
