#include "server/protocol/grpc/gzip.h"

#include <zlib.h>

#include <algorithm>

namespace sluice::server::grpc {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kStep = std::size_t{16} << 10;

Gunzip inflate_all(z_stream& stream, std::size_t most, std::string& out) {
  for (;;) {
    const std::size_t before = out.size();
    const std::size_t room =
        std::min(kStep, most - before + 1);  // one byte more shows that the output is too large
    out.resize(before + room);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(room);
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    out.resize(before + room - stream.avail_out);
    if (out.size() > most) {
      out.clear();
      return Gunzip::kTooLarge;
    }
    if (result == Z_STREAM_END) return stream.avail_in == 0 ? Gunzip::kOk : Gunzip::kMalformed;
    if (result != Z_OK || (stream.avail_in == 0 && stream.avail_out > 0)) return Gunzip::kMalformed;
  }
}

}  // namespace

Gunzip gunzip(std::string_view bytes, std::size_t most, std::string& out) {
  out.clear();
  z_stream stream{};
  if (::inflateInit2(&stream, kGzipOnly) != Z_OK) return Gunzip::kMalformed;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  const Gunzip result = inflate_all(stream, most, out);
  ::inflateEnd(&stream);
  return result;
}

}  // namespace sluice::server::grpc
