#pragma once

#include <string>

#include "rules/schema.h"

namespace sluice::server::config {

// The keys of a configuration file: what checks them, documents them, and completes them in
// editors. Their defaults are those of Config.
const rules::schema::Map& file() noexcept;

// docs/config.schema.json, and docs/config.md as a whole.
std::string json_schema();
std::string guide();

}  // namespace sluice::server::config
