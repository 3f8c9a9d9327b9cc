// Saves and loads a memory store, and takes from it meanwhile.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/report.h"
#include "bench/threads.h"
#include "bench/workload.h"
#include "sluice/memory_store.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "== snapshot: a memory store of fixed windows is saved to a file and loaded from it, the "
    "median\n"
    "of three, in seconds of real time. `plain file` is a write and a flush of as many bytes, and "
    "a\n"
    "read of them: what the disk takes. MB = the file, and the peak of memory that the save "
    "added.\n"
    "The last rows time each take of a thread in processor time, in microseconds: of keys that\n"
    "exist, and of a new key every tenth time, while nothing is saved and while the store is "
    "saved.";

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "snapshot_bench: %s\n", why.c_str());
  std::exit(1);
}

// Returns the peak of the resident set since the last call, or 0 if the system does not say it.
double take_peak_mb() {
  std::ifstream status("/proc/self/status");
  double kb = 0;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "VmHWM: %lf", &kb) == 1) break;
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return kb / 1024;
}

template <typename Work>
double seconds(Work work) {
  const double start = now_ns(TimeOf::kWall);
  work();
  return (now_ns(TimeOf::kWall) - start) / 1e9;
}

// Writes and flushes that many bytes, and reads them.
std::pair<double, double> time_plain_file(const std::string& path, std::size_t bytes) {
  std::vector<char> part(std::size_t{1} << 20, 'x');
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) fail("cannot create " + path);
  const double write_time = seconds([&] {
    for (std::size_t done = 0; done < bytes; done += part.size()) {
      if (write(fd, part.data(), part.size()) < 0) fail("cannot write " + path);
    }
    if (fsync(fd) != 0) fail("cannot flush " + path);
  });
  lseek(fd, 0, SEEK_SET);
  const double read_time = seconds([&] {
    while (read(fd, part.data(), part.size()) > 0) continue;
  });
  close(fd);
  std::filesystem::remove(path);
  return {write_time, read_time};
}

class Subject {
 public:
  explicit Subject(std::uint64_t keys) : keys_(keys), options_{.max_keys = keys + keys / 5} {
    store_ = std::make_unique<MemoryStore>(options_);
    each_key(keys, [&](std::string_view key) { take(key); });
  }

  void measure(const std::string& path, std::size_t passes) {
    std::vector<double> saves, loads, writes, reads;
    take_peak_mb();
    const double before = take_peak_mb();
    MemorySnapshot saved;
    for (std::size_t i = 0; i < passes; ++i) saves.push_back(time_save(path, saved));
    const double added = take_peak_mb() - before;
    time_takes(path);
    if (!store_->save(path)) fail("cannot save");
    store_.reset();
    for (std::size_t i = 0; i < passes; ++i) {
      loads.push_back(time_load(path));
      const auto [write, read] = time_plain_file(path + ".plain", saved.bytes);
      writes.push_back(write);
      reads.push_back(read);
    }
    const std::string size = short_count(keys_);
    const double mb = static_cast<double>(saved.bytes) / 1e6;
    std::printf("  %-28s %8.2f %8.2f %8.1f %8.1f\n", ("sluice, " + size + " keys").c_str(),
                median(saves), median(loads), mb, added);
    std::printf("  %-28s %8.2f %8.2f %8.1f\n", "plain file", median(writes), median(reads), mb);
    promise_at_most("snapshot-save-seconds-" + size, median(saves), 3);
    promise_at_most("snapshot-load-seconds-" + size, median(loads), 3);
    promise_at_most("snapshot-save-memory-mb-" + size, added, 16);
  }

 private:
  void take(std::string_view key) {
    if (!Limiter(*store_).try_acquire(key, limit_).allowed()) fail("a take was denied");
  }
  double time_save(const std::string& path, MemorySnapshot& saved) {
    return seconds([&] {
      const auto done = store_->save(path);
      if (!done) fail(done.error());
      if (done->counters < keys_) fail("counters are missing");
      saved = *done;
    });
  }
  double time_load(const std::string& path) {
    MemoryStore loaded(options_);
    return seconds([&] {
      const auto done = loaded.load(path);
      if (!done) fail(done.error());
      if (loaded.stats().keys < keys_) fail("counters are missing");
    });
  }

  // Takes until `stops`, and returns the times, sorted.
  std::vector<double> times(const std::atomic<bool>& stops) {
    std::vector<double> out;
    char key[kKeyBytes];
    double last = now_ns(TimeOf::kThread);
    while (!stops && out.size() < 3'000'000) {
      write_key(key, ++takes_ % 10 == 0 ? keys_ + takes_ : takes_ * 7919 % keys_);
      take({key, sizeof(key)});
      const double now = now_ns(TimeOf::kThread);
      out.push_back((now - last) / 1e3);
      last = now;
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  static void print(const char* name, const std::vector<double>& sorted) {
    const auto at = [&](double share) {
      return sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * share)];
    };
    std::printf("  %-28s %8.2f %8.2f %8.2f %8.1f\n", name, at(0.5), at(0.99), at(0.9999), at(1));
  }
  void time_takes(const std::string& path) {
    std::atomic<bool> stops = false;
    std::printf("  %-28s %8s %8s %8s %8s\n", "takes", "50 %", "99 %", "99.99 %", "longest");
    std::thread pause([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{300});
      stops = true;
    });
    print("while nothing is saved", times(stops));
    pause.join();
    stops = false;
    std::thread saver([&] {
      if (!store_->save(path)) fail("cannot save");
      stops = true;
    });
    print("while the store is saved", times(stops));
    saver.join();
  }

  const std::uint64_t keys_;
  const MemoryStoreOptions options_;
  std::unique_ptr<MemoryStore> store_;
  const Limit limit_ = fixed_window(1'000'000).per(std::chrono::hours{24});
  std::uint64_t takes_ = 0;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  const IdleThread idle;
  std::printf("\n%s\n", kLegend);
  const std::uint64_t keys = options.keys != 0 ? options.keys
                             : options.smoke   ? 10'000
                             : options.quick   ? 1'000'000
                                               : 10'000'000;
  std::string folder = std::filesystem::temp_directory_path() / "sluice-snapshot-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) fail("cannot create a folder");
  Subject subject(keys);
  std::printf("  %-28s %8s %8s %8s %8s\n", "case", "save", "load", "MB", "MB more");
  subject.measure(folder + "/counters", options.smoke ? 1 : 3);
  std::filesystem::remove_all(folder);
}
