// A library to preload into a program. It stops the wall clock at a number of microseconds since
// the epoch, which it reads as 8 bytes from the file named by STOPPED_CLOCK_FILE. If they are 0,
// the clock is the real one. Monotonic clocks do not change. (Debian's libfaketime does not work
// together with redis-server's jemalloc, which reads the time while it starts.)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

const volatile std::int64_t* stopped_at = nullptr;

__attribute__((constructor)) void open_file() {
  const char* path = std::getenv("STOPPED_CLOCK_FILE");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void* at = file >= 0 ? mmap(nullptr, 8, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  if (at == MAP_FAILED) abort();
  stopped_at = static_cast<const volatile std::int64_t*>(at);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) {
  const auto status = static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  const bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  const std::int64_t at = stopped_at && is_wall ? *stopped_at : 0;
  if (status == 0 && at != 0) *now = {at / 1000000, at % 1000000 * 1000};
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
