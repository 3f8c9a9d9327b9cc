// A library to preload into a program. It moves the wall clock by a number of whole seconds, which
// it reads as 8 bytes from the file named by CLOCK_SHIFT_FILE. If 8 more bytes follow and are not
// 0, the clock stops at that many microseconds since the epoch. Monotonic clocks do not change.
// (Debian's libfaketime does not work together with redis-server's jemalloc, which reads the time
// while it starts.)
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
  const std::int64_t stopped_at = shift ? shift[1] : 0;  // a page is 0 after the file's end
  if (stopped_at == 0) {
    now.tv_sec = shifted(now.tv_sec);
  } else {
    now = {stopped_at / 1000000, stopped_at % 1000000 * 1000};
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
