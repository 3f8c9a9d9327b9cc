#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/store_flags.h"
#include "sluice/expected.h"

namespace sluice::cli {

// The key of a limit in the arguments of a command, for requests to the administration.
struct LimitPlace {
  std::string limit;  // RULE/LIMIT
  std::vector<std::string> attributes;
};
// Returns the option of the limit, which is not required.
Option add_place(Command command, LimitPlace& place);

// The names as parts of a path or of a query.
struct EncodedNames {
  std::string rule, limit;
};
// A '%' in the argument begins an escape already. Errors: it names no limit.
Expected<EncodedNames, Failed> names_of(const LimitPlace& place);

struct PlaceAttribute {
  std::string_view name, value;
};
// Errors: one is not NAME=VALUE, or is given twice.
Expected<std::vector<PlaceAttribute>, Failed> attributes_of(const LimitPlace& place);
// "attribute.ip=192.0.2.1&attribute.header.x-user=7"
std::string query_of(const std::vector<PlaceAttribute>& attributes);

}  // namespace sluice::cli
