#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::server::grpc {

enum class Gunzip : std::uint8_t {
  kOk,
  kMalformed,  // not exactly one complete gzip member
  kTooLarge,   // more than `most` bytes
};

// Decompresses `bytes` into `out`. `out` never holds more than `most` bytes.
Gunzip gunzip(std::string_view bytes, std::size_t most, std::string& out);

}  // namespace sluice::server::grpc
