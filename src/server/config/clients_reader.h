#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "rules/fields.h"
#include "server/config/config.h"

namespace sluice::server {

// Reads the section `resp` of a configuration file. Paths are relative to `folder`.
RespConfig read_resp(const rules::Fields& fields, const std::filesystem::path& folder,
                     rules::Diagnostics& diagnostics);
// Reads the list `clients` of the whole file.
std::vector<ClientConfig> read_clients(const rules::Fields& file,
                                       const std::filesystem::path& folder,
                                       rules::Diagnostics& diagnostics);
// Reads the list `hosts` of the section `http`.
std::vector<std::string> read_hosts(const rules::Fields& http, rules::Diagnostics& diagnostics);

}  // namespace sluice::server
