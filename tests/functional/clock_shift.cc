// Preloaded into a program: moves its wall clock by the whole seconds that stand, as 8 bytes, in
// the file named by CLOCK_SHIFT_FILE. Where 8 more bytes follow, and are not 0, the clock stands
// still at so many microseconds since the epoch. Monotonic clocks stay. (Debian's libfaketime
// cannot be loaded beside redis-server's jemalloc, which asks for the time while it starts.)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

const volatile std::int64_t* shift = nullptr;

__attribute__((constructor)) void open_shift() {
  const char* path = std::getenv("CLOCK_SHIFT_FILE");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void* at = file >= 0 ? mmap(nullptr, 16, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  if (at == MAP_FAILED) abort();
  shift = static_cast<const volatile std::int64_t*>(at);
}

time_t shifted(time_t seconds) { return shift ? seconds + *shift : seconds; }

void read_clock(timespec& now) {
  const std::int64_t stands = shift ? shift[1] : 0;  // what a page has behind its file is 0
  if (stands == 0) {
    now.tv_sec = shifted(now.tv_sec);
  } else {
    now = {stands / 1000000, stands % 1000000 * 1000};
  }
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) {
  const auto status = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (status == 0 && wall) read_clock(*now);
  return status;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  *now = {exact.tv_sec, exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  timespec exact;
  if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
  if (now) *now = exact.tv_sec;
  return exact.tv_sec;
}

}  // extern "C"
