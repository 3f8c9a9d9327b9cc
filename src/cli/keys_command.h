#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stores/redis/script/state_reader.h"

namespace sluice::cli {

// What the key of a counter says, or that of one slice of a window, for counters without scripts.
struct KeyName : redis::CounterName {
  bool is_block = false;
  std::string period_us, slices, slice;  // of a slice; empty: it is none
};
// Parses a key without the prefix: "F{key}!:60000000/1:29384". Returns nothing for other keys.
std::optional<KeyName> read_slice_name(std::string_view redis_key);

// Returns whether a pattern in the syntax of Redis matches the whole text: `*`, `?`, `[a-z]`,
// `[^a]`, and
// `\` before a literal character. Compares bytes. Cost: at worst the product of both lengths.
bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

// Returns whether the pattern matches only one text.
bool is_literal(std::string_view pattern) noexcept;

// Returns the pattern that matches only this text.
std::string as_glob(std::string_view text);

}  // namespace sluice::cli
