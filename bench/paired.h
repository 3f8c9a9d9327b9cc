#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <type_traits>
#include <vector>

namespace sluice::bench {

// The result of a pair of cases: medians over all blocks, and the ratio of adjacent blocks.
struct Ratio {
  double base_ns = 0;     // per operation
  double subject_ns = 0;  // per operation
  double ratio = 0;       // the median of subject/base over adjacent blocks
  double low = 0;         // its lower and upper quartile
  double high = 0;
  double more_ns = 0;  // the median of subject - base
};

// The clock of a measurement. The processor time of a thread excludes the time in which the system
// runs other programs, and the time in which the thread waits. Several threads need wall time.
enum class TimeOf { kThread, kWall };

inline double now_ns(TimeOf what) {
  timespec time{};
  clock_gettime(what == TimeOf::kThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

struct PairedOptions {
  std::size_t pairs = 41;
  std::chrono::nanoseconds block{
      std::chrono::milliseconds{10}};  // the approximate length of a block
  TimeOf time = TimeOf::kThread;
  bool reciprocal = false;  // base/subject instead, for a throughput
};

inline double median(std::vector<double> values, double share = 0.5) {
  if (values.empty()) return 0;
  const auto at =
      static_cast<std::size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// Runs two cases alternately in short blocks (A B, B A, A B, ...), so that other load on the
// machine affects both.
//
// A case is `void(std::size_t first, std::size_t count)`: `count` operations from `first` on. Both
// cases of a pair receive the same arguments. A case that returns a double has measured its own
// time.
class Paired {
 public:
  explicit Paired(const PairedOptions& options) : options_(options) {}

  template <typename Base, typename Subject>
  Ratio measure(Base&& base, Subject&& subject) const {
    const std::size_t count = calibrate(base, subject);
    std::vector<double> base_ns, subject_ns, ratios, more_ns;
    for (std::size_t pair = 0; pair < options_.pairs; ++pair) {
      const std::size_t first = (pair + 1) * count;
      double b = 0;
      double s = 0;
      if (pair % 2 == 0) b = time(base, first, count);
      s = time(subject, first, count);
      if (pair % 2 != 0) b = time(base, first, count);
      base_ns.push_back(b);
      subject_ns.push_back(s);
      more_ns.push_back(s - b);
      ratios.push_back(options_.reciprocal ? b / s : s / b);
    }
    return {median(base_ns),      median(subject_ns),   median(ratios),
            median(ratios, 0.25), median(ratios, 0.75), median(more_ns)};
  }

 private:
  template <typename Case>
  double time(Case& run, std::size_t first, std::size_t count) const {
    if constexpr (std::is_same_v<decltype(run(first, count)), double>) {
      return run(first, count) / static_cast<double>(count);
    } else {
      const double start = now_ns(options_.time);
      run(first, count);
      return (now_ns(options_.time) - start) / static_cast<double>(count);
    }
  }

  // Returns the operations per block, for which the slower case takes about options.block.
  template <typename Base, typename Subject>
  std::size_t calibrate(Base& base, Subject& subject) const {
    const auto wanted = static_cast<double>(options_.block.count());
    std::size_t count = 64;
    while (true) {
      const double ns = std::max(time(base, 0, count), time(subject, 0, count));
      if (ns * static_cast<double>(count) >= wanted / 2) {
        return std::max<std::size_t>(1, static_cast<std::size_t>(wanted / ns));
      }
      count *= 2;
    }
  }

  PairedOptions options_;
};

}  // namespace sluice::bench
