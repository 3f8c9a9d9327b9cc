#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sluice/clock.h"

namespace sluice::rules::schema {

enum class Type : std::uint8_t {
  kText,      // of least..most bytes
  kTexts,     // one such text, or a list of them
  kInteger,   // from least to most
  kFlag,      // true or false
  kChoice,    // one of `values`
  kPeriod,    // core::parse_period, of least..most milliseconds; any where `most` is 0
  kTemplate,  // a key template
  kMatch,     // a map of attributes to patterns
  kMap,       // of `map`
  kList,      // least..most of `map`
};

struct Map;

// One key of a file: what checks it, documents it and completes it in editors.
struct Key {
  std::string_view name;
  Type type = Type::kText;
  bool required = false;
  std::string_view otherwise = {};  // the default, as a person reads it
  std::span<const std::string_view> values = {};
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  const Map* map = nullptr;
  bool is_secret = false;          // the value may hold a password: messages do not repeat it
  std::string_view only_for = {};  // the algorithms that it applies to, where not all
  std::string_view help = {};
};

// The keys that one kind of map may have.
struct Map {
  std::string_view name;   // "limit", for messages and headings
  std::string_view where;  // "each of `limits`"
  std::span<const Key> keys;
};

// A file of rules as a whole. Its parts are reached through it, depth first in the order of the
// reference.
const Map& file() noexcept;

// The map that is the value of `map`'s key of that name, or of its items; another name ends the
// program.
const Map& child(const Map& map, std::string_view name) noexcept;

// The bounds of a period.
Duration milliseconds(std::uint64_t count) noexcept;

// What would be right for that key: "a whole number from 1 to 1000".
std::string expectation(const Key& key);

// A JSON Schema (draft 2020-12) of files of that kind, for editors. Ends with a line feed.
std::string json_schema(const Map& file, std::string_view title);
// Their reference as Markdown: a heading and a table for each kind of map.
std::string reference(const Map& file);

// Of files of rules: docs/rules.schema.json, and docs/rules.md as a whole.
std::string json_schema();
std::string guide();

}  // namespace sluice::rules::schema
