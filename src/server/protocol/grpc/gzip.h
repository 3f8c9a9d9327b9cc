#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::server::grpc {

enum class Gunzip : std::uint8_t {
  kOk,
  kMalformed,  // not one whole gzip member and nothing else
  kTooLarge,   // more than `most` bytes
};

// Decompresses `bytes` into `out`, which never holds more than `most` bytes, whatever `bytes` says.
Gunzip gunzip(std::string_view bytes, std::size_t most, std::string& out);

}  // namespace sluice::server::grpc
