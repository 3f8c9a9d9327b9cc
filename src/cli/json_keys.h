#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

// A key that a JSON object contains twice, and the object: "charges[0].limit", or empty for the
// outermost object.
struct DuplicateKey {
  std::string where;
  std::string key;
};

// Returns the first key that an object of `json` contains twice. Parsers silently keep one of the
// two values. Returns nothing if the text is not valid JSON.
//
// Cost: linear in the text, and a small set per open object.
std::optional<DuplicateKey> find_duplicate_key(std::string_view json);

}  // namespace sluice::cli
