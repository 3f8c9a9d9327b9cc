#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "rules/fields.h"
#include "server/config/config.h"

namespace sluice::server {

// Reads the keys NAME_file and NAME_env of a section, of which at most one may be set. `example` is
// the name of a variable for the error.
SecretSource read_source(const rules::Fields& fields, std::string_view name,
                         std::string_view example, const std::filesystem::path& folder,
                         rules::Diagnostics& diagnostics);

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
