#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "replay/inflater.h"

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

class Inflater::Impl {
 public:
  void begin_member() {
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
  }

  Step inflate(std::span<const char> in, std::span<char> out) {
    state_.next_in = bytes(in.data());
    state_.avail_in = bounded(in.size());
    state_.next_out = bytes(out.data());
    state_.avail_out = bounded(out.size());
    const int result = isal_inflate(&state_);
    Step step;
    step.consumed = static_cast<std::size_t>(state_.next_in - bytes(in.data()));
    step.produced = static_cast<std::size_t>(state_.next_out - bytes(out.data()));
    if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT) {
      step.state = State::kCorrupt;
    } else if (state_.block_state == ISAL_BLOCK_FINISH) {
      step.state = State::kMemberEnded;
    }
    return step;
  }

 private:
  inflate_state state_;
};

Inflater::Inflater() : impl_(std::make_unique<Impl>()) { begin_member(); }
Inflater::~Inflater() = default;
void Inflater::begin_member() { impl_->begin_member(); }
Inflater::Step Inflater::inflate(std::span<const char> in, std::span<char> out) {
  return impl_->inflate(in, out);
}

}  // namespace sluice::replay
