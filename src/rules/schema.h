#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sluice/algorithm.h"
#include "sluice/clock.h"
#include "sluice/rule.h"

namespace sluice::rules {

struct Node;
class Diagnostics;

}  // namespace sluice::rules

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
  kShare,     // a number from 0 to 1
  kDay,       // core::starting(): the first day of a calendar's window
  kTemplate,  // a key template
  kCost,      // a number up to `most`, or what CostTemplate reads
  kCount,     // a map of `on` to statuses, and of attributes to `add`
  kMatch,     // a map from attributes to patterns
  kHeaders,   // a map from names of header fields to texts
  kPlans,     // a map from plans to maps from limits to the map `map`
  kPrices,    // a map from models to maps from names to numbers up to `most`
  kMap,       // the map `map`
  kList,      // least..most maps `map`
};

struct Map;
struct Key;

// Sets what a valid value of a key means in the object that its map is read into, or reports what
// is wrong with the value. kSet in fields.h sets a member.
using Set = void (*)(void* object, const Key& key, const Node& value, Diagnostics& diagnostics);
// Returns the object that a map under a key is read into. kPart in fields.h returns a member.
using Part = void* (*)(void* object);

// One key of a file. Validates it, documents it, completes it in editors, and sets what it means.
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
  Set set = nullptr;    // null: the reader of the map asks for the value
  Part part = nullptr;  // of kMap; null: the reader of the map reads this one too

  // The same row with another type.
  constexpr Key as(Type other) const {
    Key key = *this;
    key.type = other;
    return key;
  }
};

// The rows of most types.
constexpr Key text(std::string_view name, Set set, std::string_view otherwise, std::uint64_t least,
                   std::uint64_t most, std::string_view help) {
  return {.name = name,
          .type = Type::kText,
          .otherwise = otherwise,
          .least = least,
          .most = most,
          .help = help,
          .set = set};
}
constexpr Key integer(std::string_view name, Set set, std::string_view otherwise,
                      std::uint64_t least, std::uint64_t most, std::string_view help) {
  return text(name, set, otherwise, least, most, help).as(Type::kInteger);
}
constexpr Key period(std::string_view name, Set set, std::string_view otherwise,
                     std::uint64_t least, std::uint64_t most, std::string_view help) {
  return text(name, set, otherwise, least, most, help).as(Type::kPeriod);
}
constexpr Key share(std::string_view name, Set set, std::string_view otherwise,
                    std::string_view help) {
  return text(name, set, otherwise, 0, 0, help).as(Type::kShare);
}
constexpr Key choice(std::string_view name, Set set, std::string_view otherwise,
                     std::span<const std::string_view> values, std::string_view help) {
  Key key = text(name, set, otherwise, 0, 0, help).as(Type::kChoice);
  key.values = values;
  return key;
}
constexpr Key flag(std::string_view name, Set set, std::string_view otherwise,
                   std::string_view help) {
  return text(name, set, otherwise, 0, 0, help).as(Type::kFlag);
}
constexpr Key map_of(std::string_view name, Part part, std::string_view otherwise, const Map& map,
                     std::string_view help) {
  Key key = text(name, nullptr, otherwise, 0, 0, help).as(Type::kMap);
  key.map = &map;
  key.part = part;
  return key;
}
constexpr Key required(Key key) {
  key.required = true;
  return key;
}

// The keys that one kind of map may contain.
struct Map {
  std::string_view name;   // "limit", for messages and headings
  std::string_view where;  // "each of `limits`"
  std::span<const Key> keys;
  std::span<const std::string_view> one_of = {};  // keys of which a map needs exactly one
  bool is_short = false;                          // a text instead of a map is its first key
};

// The words of `on_store_error`, in the order of FailurePolicy.
inline constexpr std::array<std::string_view, 3> kOnStoreError{"allow", "deny", "local"};
constexpr std::string_view word_of(FailurePolicy policy) noexcept {
  return kOnStoreError[static_cast<std::size_t>(policy)];
}

// What the top of a rules file says of its rules.
struct FileSettings {
  std::string domain = "default";
  FailurePolicy on_store_error = FailurePolicy::kAllow;
  OnMissing on_missing = OnMissing::kSkip;
  HeaderFields headers = HeaderFields::kBoth;
};

// Returns the schema of a whole rules file, which is read into FileSettings. Rules are read into
// Rule, and limits into RuleLimit. It leads to its parts, depth first, in the order of the
// reference.
const Map& file() noexcept;

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
