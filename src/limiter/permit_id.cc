#include "sluice/permit_id.h"

#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "limiter/random_bytes.h"

namespace sluice {
namespace {

std::atomic<std::uint64_t> forks{0};

// The random bytes of one thread. Their key is new after so many names, and after a fork, so that a
// process does not use those of its parent again.
class Source {
 public:
  void take(PermitId::Bytes& out) {
    const std::uint64_t now = forks.load(std::memory_order_relaxed);
    if (names_left_ == 0 || forks_ != now) renew(now);
    --names_left_;
    bytes_.take(out.data(), out.size());
  }

 private:
  static constexpr std::uint32_t kNamesPerKey = 1 << 16;

  void renew(std::uint64_t now) {
    [[maybe_unused]] static const int handler =
        ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    RandomBytes::Key key;
    if (::getentropy(key.data(), sizeof(key)) != 0) {
      throw std::system_error(errno, std::generic_category(), "the system has no random bytes");
    }
    bytes_.set_key(key);
    names_left_ = kNamesPerKey;
    forks_ = now;
  }

  std::uint32_t names_left_ = 0;
  std::uint64_t forks_ = 0;
  RandomBytes bytes_;
};

}  // namespace

PermitId PermitId::random() {
  static thread_local Source source;
  Bytes bytes;
  source.take(bytes);
  return PermitId(bytes);
}

}  // namespace sluice
