#include "sluice/grpc_status_details.h"

#include <cstdint>

namespace sluice {
namespace {

void put_varint(std::string& out, std::uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>((value & 127) | 128);
  out += static_cast<char>(value);
}

// Appends a field of protobuf, unless it has its default.
void put_number(std::string& out, unsigned field, std::uint64_t value) {
  if (value == 0) return;
  put_varint(out, field << 3);
  put_varint(out, value);
}
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_varint(out, field << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

}  // namespace

std::string grpc_status_details(int code, std::string_view message,
                                std::optional<Duration> retry_after) {
  std::string status;
  put_number(status, 1, static_cast<std::uint64_t>(code));
  put_bytes(status, 2, message);
  if (retry_after) {
    const auto ticks = static_cast<std::uint64_t>(retry_after->count());
    std::string duration, retry_info, any;
    put_number(duration, 1, ticks / 1'000'000);
    put_number(duration, 2, ticks % 1'000'000 * 1000);
    put_bytes(retry_info, 1, duration);
    put_bytes(any, 1, "type.googleapis.com/google.rpc.RetryInfo");
    put_bytes(any, 2, retry_info);
    put_bytes(status, 3, any);
  }
  return status;
}

}  // namespace sluice
