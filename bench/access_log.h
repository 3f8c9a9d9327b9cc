#pragma once

#include <cstdint>
#include <string>

namespace sluice::bench {

// Writes a log in Combined format, compressed by gzip, the same bytes each time: several thousand
// clients, bursts of one client that fetches one file piece by piece, visits of browsers in
// between. A longer one is the same going on. Ends the program where it cannot be written.
void write_access_log(const std::string& path, std::size_t lines);

}  // namespace sluice::bench
