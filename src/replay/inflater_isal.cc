#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "replay/log_reader.h"

namespace sluice::replay {
namespace {

// ISA-L takes a non-const input pointer, but does not change the input.
std::uint8_t* bytes(const char* text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text));
}

std::uint32_t bounded(std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::uint32_t>(std::min(size, kMost));
}

}  // namespace

struct Inflater::Stream {
  inflate_state state;
};

Inflater::Inflater() : stream_(std::make_unique<Stream>()) { begin_member(); }
Inflater::~Inflater() = default;

void Inflater::begin_member() {
  isal_inflate_init(&stream_->state);
  stream_->state.crc_flag = ISAL_GZIP;
}

std::size_t Inflater::inflate(std::span<const char>& in, std::span<char> out) {
  inflate_state& state = stream_->state;
  state.next_in = bytes(in.data());
  state.avail_in = bounded(in.size());
  state.next_out = bytes(out.data());
  state.avail_out = bounded(out.size());
  const int result = isal_inflate(&state);
  is_corrupt_ = result != ISAL_DECOMP_OK && result != ISAL_END_INPUT;
  has_ended_ = !is_corrupt_ && state.block_state == ISAL_BLOCK_FINISH;
  in = in.subspan(static_cast<std::size_t>(state.next_in - bytes(in.data())));
  return static_cast<std::size_t>(state.next_out - bytes(out.data()));
}

}  // namespace sluice::replay
