#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "replay/log_reader.h"

namespace sluice::replay {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // the largest window, and a gzip header and trailer

Bytef* bytes(const char* text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text)); }

uInt bounded(std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  return static_cast<uInt>(std::min(size, kMost));
}

}  // namespace

struct Inflater::Stream {
  z_stream state{};
};

Inflater::Inflater() : stream_(std::make_unique<Stream>()) {
  if (inflateInit2(&stream_->state, kGzipWindowBits) != Z_OK) throw std::bad_alloc();
}
Inflater::~Inflater() { inflateEnd(&stream_->state); }

void Inflater::begin_member() { inflateReset2(&stream_->state, kGzipWindowBits); }

std::size_t Inflater::inflate(std::span<const char>& in, std::span<char> out) {
  z_stream& state = stream_->state;
  state.next_in = bytes(in.data());
  state.avail_in = bounded(in.size());
  state.next_out = bytes(out.data());
  state.avail_out = bounded(out.size());
  const int result = ::inflate(&state, Z_NO_FLUSH);
  has_ended_ = result == Z_STREAM_END;
  // Z_BUF_ERROR: nothing to do yet.
  is_corrupt_ = !has_ended_ && result != Z_OK && result != Z_BUF_ERROR;
  in = in.subspan(static_cast<std::size_t>(state.next_in - bytes(in.data())));
  return static_cast<std::size_t>(state.next_out - bytes(out.data()));
}

}  // namespace sluice::replay
