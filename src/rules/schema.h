#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::rules::schema {

enum class Type : std::uint8_t {
  kText,      // of least..most bytes
  kInteger,   // from least to most
  kFlag,      // true or false
  kChoice,    // one of `values`
  kPeriod,    // core::parse_period
  kTemplate,  // a key template
  kMatch,     // a map of attributes to patterns
  kMap,       // of `map`
  kList,      // least..most of `map`
};

struct Map;

// One key of a rules file: what checks it, documents it and completes it in editors.
struct Key {
  std::string_view name;
  Type type = Type::kText;
  bool required = false;
  std::string_view otherwise = {};  // the default, as a person reads it
  std::span<const std::string_view> values = {};
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  const Map* map = nullptr;
  std::string_view only_for = {};  // the algorithms that it applies to, where not all
  std::string_view help = {};
};

// The keys that one kind of map may have.
struct Map {
  std::string_view name;   // "limit", for messages and headings
  std::string_view where;  // "each of `limits`"
  std::span<const Key> keys;
};

// The whole file. Its parts are reached through it, depth first in the order of the reference.
const Map& file() noexcept;

// What would be right for that key: "a whole number from 1 to 1000".
std::string expectation(const Key& key);

// A JSON Schema (draft 2020-12) of the file, for editors. Ends with a line feed.
std::string json_schema();
// The reference as Markdown: a heading and a table for each kind of map.
std::string reference();
// docs/rules.md as a whole.
std::string guide();

}  // namespace sluice::rules::schema
