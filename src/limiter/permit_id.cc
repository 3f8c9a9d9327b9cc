#include "sluice/permit_id.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace sluice {
namespace {

std::atomic<std::uint64_t> forks{0};

// Random bytes for many names from one call of the system. A process that was forked does not use
// those of its parent again.
class RandomBytes {
 public:
  void take(PermitId::Bytes& out) {
    const std::uint64_t now = forks.load(std::memory_order_relaxed);
    if (left_ == 0 || forks_ != now) refill(now);
    left_ -= sizeof(out);
    std::memcpy(out.data(), bytes_ + left_, sizeof(out));
    std::memset(bytes_ + left_, 0, sizeof(out));
  }

 private:
  static constexpr std::size_t kSize = 21 * sizeof(PermitId::Bytes);
  static_assert(kSize <= 256);  // the most that one call returns

  void refill(std::uint64_t now) {
    [[maybe_unused]] static const int handler =
        ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    if (::getentropy(bytes_, sizeof(bytes_)) != 0) {
      throw std::system_error(errno, std::generic_category(), "the system has no random bytes");
    }
    left_ = sizeof(bytes_);
    forks_ = now;
  }

  std::size_t left_ = 0;
  std::uint64_t forks_ = 0;
  std::uint8_t bytes_[kSize];
};

}  // namespace

PermitId PermitId::random() {
  static thread_local RandomBytes source;
  Bytes bytes;
  source.take(bytes);
  return PermitId(bytes);
}

}  // namespace sluice
