#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/algorithm.h"
#include "sluice/clock.h"

namespace sluice::rules::schema {

enum class Type : std::uint8_t {
  kText,      // least..most bytes
  kTexts,     // one such text, or a list of them
  kInteger,   // least..most
  kFlag,      // true or false
  kChoice,    // one of `values`
  kPeriod,    // core::parse_period, least..most milliseconds; unbounded if `most` is 0; or one of
              // `values`
  kPercent,   // 1% to 100%, whole
  kDay,       // core::starting(): the first day of a calendar's window
  kTemplate,  // a key template
  kCost,      // a number up to `most`, `request`, or an attribute as in cost_template.h
  kCount,     // a map of `on` to statuses, and of attributes to `add`
  kMatch,     // a map from attributes to patterns
  kHeaders,   // a map from names of header fields to texts
  kPlans,     // a map from plans to maps from limits to the map `map`
  kMap,       // the map `map`
  kList,      // least..most maps `map`
};

struct Map;

// One key of a file. Validates it, documents it, and completes it in editors.
struct Key {
  std::string_view name;
  Type type = Type::kText;
  bool required = false;
  std::string_view otherwise = {};  // the default, as shown to people
  std::span<const std::string_view> values = {};
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  const Map* map = nullptr;
  bool is_secret = false;  // the value may contain a password: messages do not repeat it
  std::optional<LimitOption> only_for = {};  // applies only to algorithms with this option
  std::string_view help = {};
};

// The keys that one kind of map may contain.
struct Map {
  std::string_view name;   // "limit", for messages and headings
  std::string_view where;  // "each of `limits`"
  std::span<const Key> keys;
  std::span<const std::string_view> one_of = {};  // keys of which a map needs exactly one
};

// Returns the schema of a whole rules file. It leads to its parts, depth first, in the order of the
// reference.
const Map& file() noexcept;

// Returns the map under that key of `map`, or the map of its list items. Aborts the program if the
// key does not exist.
const Map& child(const Map& map, std::string_view name) noexcept;

// Converts the bounds of a period.
Duration milliseconds(std::uint64_t count) noexcept;

// Describes a valid value of that key: "a whole number from 1 to 1000".
std::string expectation(const Key& key);

// Returns a JSON Schema (draft 2020-12) of such files, for editors. Ends with a line feed.
std::string json_schema(const Map& file, std::string_view title);
// Returns their reference as Markdown: a heading and a table for each kind of map.
std::string reference(const Map& file);

// Returns the text of docs/rules.schema.json.
std::string json_schema();

}  // namespace sluice::rules::schema
