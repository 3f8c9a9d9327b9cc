#include "sluice/permit_id.h"

#include <pthread.h>
#include <sys/random.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

namespace sluice {
namespace {

// The number of times that this process was forked off.
std::atomic<std::uint64_t>& forks() noexcept {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

// Random bytes of the system for the names of one thread: a call of the system for each name takes
// more time than the rest of a permit. After a fork a process does not use those of its parent.
class Source {
 public:
  void take(PermitId::Bytes& out) {
    const std::uint64_t now = forks().load(std::memory_order_relaxed);
    if (left_ == 0 || forks_ != now) fill(now);
    PermitId::Bytes& next = names_[--left_];
    out = std::exchange(next, {});
  }

 private:
  void fill(std::uint64_t now) {
    [[maybe_unused]] static const int handler =
        ::pthread_atfork(nullptr, nullptr, [] { forks().fetch_add(1, std::memory_order_relaxed); });
    static_assert(sizeof(names_) <= 256, "at most so much at once");
    if (::getentropy(names_.data(), sizeof(names_)) != 0) {
      throw std::system_error(errno, std::generic_category(), "the system has no random bytes");
    }
    left_ = names_.size();
    forks_ = now;
  }

  std::size_t left_ = 0;
  std::uint64_t forks_ = 0;
  std::array<PermitId::Bytes, 21> names_{};
};

}  // namespace

PermitId PermitId::random() {
  static thread_local Source source;
  Bytes bytes;
  source.take(bytes);
  return PermitId(bytes);
}

}  // namespace sluice
