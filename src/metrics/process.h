#pragma once

#include <dirent.h>

#include <mutex>
#include <optional>

namespace sluice::metrics {

// What the system tells of this process. Absent: it does not tell.
struct ProcessFacts {
  std::optional<double> start_time_seconds;  // since 1970
  std::optional<double> cpu_seconds;
  std::optional<double> virtual_bytes;
  std::optional<double> resident_bytes;
  std::optional<double> open_descriptors;
  std::optional<double> max_descriptors;
};

// Reads /proc/self. It holds what it reads open, as it has to answer most of all when no descriptor
// is left.
//
// Thread-safety: any member from any thread.
class Process {
 public:
  Process();
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ProcessFacts read() const;

 private:
  void read_stat(ProcessFacts& facts) const;
  std::optional<double> open_descriptors() const;

  int stat_;       // negative: could not be opened
  double booted_;  // when the system was, since 1970
  DIR* descriptors_;
  mutable std::mutex mutex_;  // of the place in `descriptors_`
};

}  // namespace sluice::metrics
