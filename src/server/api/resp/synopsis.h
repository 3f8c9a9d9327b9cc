#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::server::resp {

// One argument of a synopsis.
struct SynopsisPart {
  std::string_view name;
  std::string_view token;  // the word before it, if there is one: COST
  bool optional = false;
  bool multiple = false;
};

// Reads the synopsis of a command's arguments: `name`, `[name]`, `[TOKEN name]`, each followed by
// `...` if it may be repeated.
std::vector<SynopsisPart> read_synopsis(std::string_view synopsis);

}  // namespace sluice::server::resp
