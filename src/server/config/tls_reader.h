#pragma once

#include <filesystem>

#include "rules/fields.h"
#include "server/net/tls_files.h"

namespace sluice::server {

// Reads the key `tls` of a listener's section, whose schema is `map`. Paths are relative to
// `folder`.
net::TlsFiles read_tls(const rules::Fields& section, const rules::schema::Map& map,
                       const std::filesystem::path& folder, rules::Diagnostics& diagnostics);

}  // namespace sluice::server
