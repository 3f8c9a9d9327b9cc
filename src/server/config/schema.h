#pragma once

#include <string>

#include "rules/schema.h"

namespace sluice::server::config {

// The keys of a configuration file. The schema checks and documents them, and editors complete them
// with it. Their defaults are those of Config.
const rules::schema::Map& file() noexcept;

// Returns the text of docs/config.schema.json.
std::string json_schema();

}  // namespace sluice::server::config
