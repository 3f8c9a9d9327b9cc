// `sluice replay` and `sluice suggest` compared with a minimal shell pipeline for the same log.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/access_log.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLegend =
    "== replay: a log of requests under two rules\n"
    "`sluice replay --json` on a compressed log, against `zcat LOG | mawk` that only counts the\n"
    "requests of each client and minute, one after the other in turns. So is `sluice suggest`, "
    "with\n"
    "three algorithms for each of three periods. All have two processes or threads. Speed is by\n"
    "wall time, processor time is that of replay over that of both processes; both are medians of\n"
    "the ratios of adjacent runs. Memory is the peak resident set, for the log and for one four "
    "times as long (of a log that is given: itself again, dated\n"
    "four, eight and twelve years later).";

constexpr const char* kRules =
    "version: 1\n"
    "rules:\n"
    "  - name: downloads\n"
    "    match: { path: /archive/** }\n"
    "    continue: true\n"
    "    limits:\n"
    "      - { key: \"{ip}\", algorithm: token_bucket, limit: 2, per: 1s, burst: 20 }\n"
    "  - name: everyone\n"
    "    limits:\n"
    "      - { key: \"{ip}\", algorithm: sliding_window_counter, limit: 120, per: 60s }\n";

constexpr const char* kCount =
    "{ n[$1 \" \" substr($4, 2, 17)]++ } END { for (k in n) print n[k], k }";

// Repeats a log four times, each time four years later, so that leap days stay valid.
constexpr const char* kRepeat =
    "for years in 0 4 8 12; do zcat -f -- \"$1\" | mawk -v years=$years '"
    "match($0, /\\/[0-9][0-9][0-9][0-9]:/) {"
    "  $0 = substr($0, 1, RSTART) (substr($0, RSTART + 1, 4) + years) substr($0, RSTART + 5) }"
    "{ print }'; done | gzip -1 > \"$2\"";

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "replay_bench: %s\n", what.c_str());
  std::exit(1);
}

struct Arguments {
  std::string sluice;
  std::string log;  // empty: generates a log
  bool smoke = false;

  static Arguments from(int argc, char** argv) {
    Arguments a;
    for (int i = 1; i < argc; ++i) {
      const bool has_value = i + 1 < argc;
      if (std::strcmp(argv[i], "--smoke") == 0) {
        a.smoke = true;
      } else if (std::strcmp(argv[i], "--sluice") == 0 && has_value) {
        a.sluice = argv[++i];
      } else if (std::strcmp(argv[i], "--log") == 0 && has_value) {
        a.log = argv[++i];
      } else {
        fail(std::string("unknown option ") + argv[i]);
      }
    }
    if (a.sluice.empty()) fail("usage: replay_bench --sluice PROGRAM [--log FILE] [--smoke]");
    return a;
  }
};

struct Run {
  double seconds = 0;
  double processor_seconds = 0;
  double peak_mib = 0;
};

// Runs a program without its output. Exits if the program fails.
Run run(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const double start = now_ns(TimeOf::kWall);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) != nullptr) execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
    fail(command[0] + " failed");
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {(now_ns(TimeOf::kWall) - start) / 1e9, seconds(used.ru_utime) + seconds(used.ru_stime),
          static_cast<double>(used.ru_maxrss) / 1024};
}

// A folder that is deleted at the end of the program.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (fs::temp_directory_path() / "sluice-bench-").string() + std::string(6, 'X');
    if (mkdtemp(pattern.data()) == nullptr) fail("cannot make " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

class ReplayBench {
 public:
  explicit ReplayBench(Arguments arguments) : arguments_(std::move(arguments)) {
    std::ofstream(folder_.file("rules.yaml")) << kRules;
    four_times_ = folder_.file("long.log.gz");
    if (!arguments_.log.empty()) {
      once_ = arguments_.log;
      run({"sh", "-c", kRepeat, "sh", once_, four_times_});
      return;
    }
    const std::size_t lines = arguments_.smoke ? 5'000 : 1'000'000;
    once_ = folder_.file("access.log.gz");
    write_access_log(once_, lines);
    write_access_log(four_times_, 4 * lines);
  }

  void measure() {
    std::printf("\n%s\n", kLegend);
    std::fflush(stdout);
    const std::size_t pairs = arguments_.smoke ? 1 : 9;
    std::vector<double> shells, replays, ratios, processor, peaks, long_peaks, suggests;
    for (std::size_t i = 0; i < pairs; ++i) {
      const Run shell = run(count_by_shell());
      const Run replay = run(replay_of(once_));
      shells.push_back(shell.seconds);
      replays.push_back(replay.seconds);
      ratios.push_back(shell.seconds / replay.seconds);
      processor.push_back(replay.processor_seconds / shell.processor_seconds);
      peaks.push_back(replay.peak_mib);
      suggests.push_back(shell.seconds / run(suggest_of(once_)).seconds);
      if (i % 3 == 0) long_peaks.push_back(run(replay_of(four_times_)).peak_mib);
    }
    const double gigabytes = static_cast<double>(text_bytes()) / 1e9;
    std::printf(
        "  zcat | mawk %.0f ms, replay %.0f ms: %.2f times as fast (%.2f..%.2f); processor "
        "time %.2f (%.2f..%.2f)\n",
        1e3 * median(shells), 1e3 * median(replays), median(ratios), median(ratios, 0.25),
        median(ratios, 0.75), median(processor), median(processor, 0.25), median(processor, 0.75));
    std::printf("  suggest: %.2f times as fast as zcat | mawk (%.2f..%.2f)\n", median(suggests),
                median(suggests, 0.25), median(suggests, 0.75));
    std::printf("  %.3f GB of text\n", gigabytes);
    std::printf("  peak memory %.1f MiB, of four times the log %.1f MiB\n", median(peaks),
                median(long_peaks));
    promise_at_least("replay-speed-over-zcat-mawk", median(ratios), 4);
    promise_at_most("replay-processor-time-over-zcat-mawk", median(processor), 0.4);
    promise_at_least("suggest-speed-over-zcat-mawk", median(suggests), 2);
    promise_at_most("replay-seconds-per-gb", median(replays) / gigabytes, 4);
    promise_at_most("replay-memory-of-4x-log", median(long_peaks) / median(peaks), 1.1);
  }

 private:
  std::vector<std::string> count_by_shell() const {
    return {"sh", "-c", "zcat -f -- \"$1\" | mawk \"$2\"", "sh", once_, kCount};
  }
  // The size of the log's text.
  std::uint64_t text_bytes() const {
    const std::string command = "zcat -f -- '" + once_ + "' | wc -c";
    std::FILE* const pipe = popen(command.c_str(), "r");
    unsigned long long bytes = 0;
    const bool is_read = pipe != nullptr && std::fscanf(pipe, "%llu", &bytes) == 1;
    if (pipe == nullptr || pclose(pipe) != 0 || !is_read) fail("cannot read " + once_);
    return bytes;
  }
  std::vector<std::string> replay_of(const std::string& log) const {
    return {arguments_.sluice,          "replay", "--json", "--quiet", "--rules",
            folder_.file("rules.yaml"), log};
  }
  std::vector<std::string> suggest_of(const std::string& log) const {
    return {arguments_.sluice, "suggest", "--json", "--quiet", log};
  }

  Arguments arguments_;
  TemporaryFolder folder_;
  std::string once_;
  std::string four_times_;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  ReplayBench(Arguments::from(argc, argv)).measure();
}
