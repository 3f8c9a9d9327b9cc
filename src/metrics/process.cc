#include "metrics/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <string_view>

namespace sluice::metrics {
namespace {

double seconds_of(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Returns the fields of /proc/self/stat from the third on (proc(5)). The second can contain any
// text.
constexpr std::size_t kFirstField = 3, kUserTime = 14, kSystemTime = 15, kStartTime = 22,
                      kVirtualBytes = 23, kResidentPages = 24;

std::array<double, kResidentPages + 1> fields_of(std::string_view stat) {
  std::array<double, kResidentPages + 1> fields{};
  stat.remove_prefix(stat.rfind(')') + 1);
  for (std::size_t i = kFirstField; i < fields.size(); ++i) {
    stat.remove_prefix(std::min(stat.find_first_not_of(' '), stat.size()));
    const auto field = stat.substr(0, stat.find(' '));
    std::from_chars(field.data(), field.data() + field.size(), fields[i]);
    stat.remove_prefix(field.size());
  }
  return fields;
}

}  // namespace

Process::Process()
    : stat_(open("/proc/self/stat", O_RDONLY | O_CLOEXEC)),
      booted_(seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME)),
      descriptors_(opendir("/proc/self/fd")) {}

Process::~Process() {
  if (stat_ >= 0) close(stat_);
  if (descriptors_ != nullptr) closedir(descriptors_);
}

void Process::read_stat(ProcessFacts& facts) const {
  std::array<char, 2048> buffer{};
  const auto size = pread(stat_, buffer.data(), buffer.size(), 0);
  if (size <= 0) return;
  const auto fields = fields_of({buffer.data(), static_cast<std::size_t>(size)});
  const auto tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  facts.start_time_seconds = booted_ + fields[kStartTime] * tick;
  facts.cpu_seconds = (fields[kUserTime] + fields[kSystemTime]) * tick;
  facts.virtual_bytes = fields[kVirtualBytes];
  facts.resident_bytes = fields[kResidentPages] * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::optional<double> Process::open_descriptors() const {
  if (descriptors_ == nullptr) return {};
  const std::lock_guard lock(mutex_);
  rewinddir(descriptors_);
  double count = 0;
  while (const dirent* entry = readdir(descriptors_)) count += entry->d_name[0] != '.';
  return count;
}

ProcessFacts Process::read() const {
  ProcessFacts facts;
  if (stat_ >= 0) read_stat(facts);
  facts.open_descriptors = open_descriptors();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    facts.max_descriptors = static_cast<double>(limit.rlim_cur);
  }
  return facts;
}

}  // namespace sluice::metrics
