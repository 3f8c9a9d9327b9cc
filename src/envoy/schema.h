#pragma once

#include "rules/schema.h"

namespace sluice::envoy::schema {

// The schema of an Envoy configuration file; `descriptor` contains a list of itself.
const rules::schema::Map& file() noexcept;
const rules::schema::Map& descriptor() noexcept;
const rules::schema::Map& rate_limit() noexcept;
const rules::schema::Map& replacement() noexcept;

}  // namespace sluice::envoy::schema
