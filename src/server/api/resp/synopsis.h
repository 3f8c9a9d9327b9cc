#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::resp {

// One argument of a synopsis.
struct SynopsisPart {
  std::string_view name;
  std::string_view token;  // the word before it, where it has one: COST
  bool optional = false;
  bool multiple = false;
};

// Reads what follows a command's name in its synopsis: `name`, `[name]`, `[TOKEN name]`, and behind
// any of them `...` where it may come again.
std::vector<SynopsisPart> read_synopsis(std::string_view synopsis);

}  // namespace sluice::server::resp
