#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace sluice::server {

// The bounds of one listener.
struct Bounds {
  std::size_t header_bytes = std::size_t{32} << 10;
  std::size_t body_bytes = std::size_t{1} << 20;
  // From the first byte of a request to the end of its header.
  std::chrono::milliseconds header_timeout{10'000};
  // From the end of the header to the end of the body.
  std::chrono::milliseconds body_timeout{10'000};
  // For a client that does not read its responses.
  std::chrono::milliseconds write_timeout{10'000};
  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  std::size_t connections = 10'000;                // open connections on each listener
  std::size_t requests_per_connection = 0;         // 0: any number
  std::size_t waiting = 1'000;                     // requests that wait for units, in all loops
};

// What a reader of requests has made of the bytes so far.
enum class ReadProgress : std::uint8_t {
  kMore,   // the request is not complete
  kReady,  // it is
  kBad,    // nothing after it can be read
};

}  // namespace sluice::server
