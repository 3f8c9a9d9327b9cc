#pragma once

#include <cstdint>
#include <string>

namespace sluice::bench {

// Writes a log in the Combined format, compressed with gzip, always with the same bytes: several
// thousand clients, bursts of one client that fetches one file in parts, and visits of browsers. A
// longer log begins with the shorter one. Exits if the log cannot be written.
void write_access_log(const std::string& path, std::size_t lines);

}  // namespace sluice::bench
