#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "replay/inflater.h"

namespace sluice::replay {
namespace {

constexpr int kGzipWindowBits = 15 + 16;  // the largest window, and a gzip header and trailer

Bytef* bytes(const char* text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text)); }

uInt bounded(std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();
  return static_cast<uInt>(std::min(size, kMost));
}

}  // namespace

class Inflater::Impl {
 public:
  Impl() {
    if (inflateInit2(&stream_, kGzipWindowBits) != Z_OK) throw std::bad_alloc();
  }
  ~Impl() { inflateEnd(&stream_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin_member() { inflateReset2(&stream_, kGzipWindowBits); }

  Step inflate(std::span<const char> in, std::span<char> out) {
    stream_.next_in = bytes(in.data());
    stream_.avail_in = bounded(in.size());
    stream_.next_out = bytes(out.data());
    stream_.avail_out = bounded(out.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    Step step;
    step.consumed = static_cast<std::size_t>(stream_.next_in - bytes(in.data()));
    step.produced = static_cast<std::size_t>(stream_.next_out - bytes(out.data()));
    if (result == Z_STREAM_END) {
      step.state = State::kMemberEnded;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {  // the latter: nothing to do yet
      step.state = State::kCorrupt;
    }
    return step;
  }

 private:
  z_stream stream_{};
};

Inflater::Inflater() : impl_(std::make_unique<Impl>()) {}
Inflater::~Inflater() = default;
void Inflater::begin_member() { impl_->begin_member(); }
Inflater::Step Inflater::inflate(std::span<const char> in, std::span<char> out) {
  return impl_->inflate(in, out);
}

}  // namespace sluice::replay
