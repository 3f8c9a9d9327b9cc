#pragma once

#include "rules/schema.h"

namespace sluice::envoy::schema {

// The maps of an Envoy configuration file; `descriptor` is a list within itself.
const rules::schema::Map& file() noexcept;
const rules::schema::Map& descriptor() noexcept;
const rules::schema::Map& rate_limit() noexcept;
const rules::schema::Map& replacement() noexcept;

}  // namespace sluice::envoy::schema
