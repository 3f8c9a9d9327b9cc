#pragma once

#include <filesystem>

#include "rules/fields.h"
#include "server/config/config.h"

namespace sluice::server {

// Reads the section `resp` of a configuration file. Paths are relative to `folder`.
RespConfig read_resp(const rules::Fields& fields, const std::filesystem::path& folder,
                     rules::Diagnostics& diagnostics);

}  // namespace sluice::server
