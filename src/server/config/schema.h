#pragma once

#include <string>

#include "rules/schema.h"

namespace sluice::server::config {

// The keys of a configuration file. The schema checks and documents them, and editors complete them
// with it. Their defaults are those of Config.
const rules::schema::Map& file() noexcept;

// Return docs/config.schema.json and the whole of docs/config.md.
std::string json_schema();
std::string guide();

}  // namespace sluice::server::config
