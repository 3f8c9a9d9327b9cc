#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

// A key that an object in JSON gives twice, and the object: "charges[0].limit", or nothing for the
// outermost.
struct DuplicateKey {
  std::string where;
  std::string key;
};

// The first key, in the order of reading, that an object of `json` gives twice; parsers keep one of
// the two values without a word. Nothing also where the text is not valid JSON.
//
// Cost: linear in the text, and a small set for each object that is open.
std::optional<DuplicateKey> find_duplicate_key(std::string_view json);

}  // namespace sluice::cli
