#pragma once

#include <dirent.h>

#include <mutex>
#include <optional>

namespace sluice::metrics {

// What the system reports about this process. Absent: the system does not report it.
struct ProcessFacts {
  std::optional<double> start_time_seconds;  // since 1970
  std::optional<double> cpu_seconds;
  std::optional<double> virtual_bytes;
  std::optional<double> resident_bytes;
  std::optional<double> open_descriptors;
  std::optional<double> max_descriptors;
};

// Reads /proc/self. It keeps its files open, so that it works when no file descriptor is free.
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

  int stat_;       // negative if it could not be opened
  double booted_;  // start of the system, in seconds since 1970
  DIR* descriptors_;
  mutable std::mutex mutex_;  // protects the position in `descriptors_`
};

}  // namespace sluice::metrics
