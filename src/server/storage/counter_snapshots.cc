#include "server/storage/counter_snapshots.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

using std::chrono::steady_clock;

std::chrono::microseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start);
}

double seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

double seconds_of(Instant instant) {
  return std::chrono::duration<double>(instant.time_since_epoch()).count();
}

}  // namespace

Expected<std::unique_ptr<CounterSnapshots>> CounterSnapshots::open(MemoryStore& store,
                                                                   Options options, Log& log) {
  const std::string& path = options.path;
  const std::filesystem::file_status status = std::filesystem::status(path);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Unexpected{"memory.snapshot: " + path +
                      " is not a regular file; expected a file that Sluice may replace"};
  }
  if (std::filesystem::exists(status) && ::access(path.c_str(), R_OK) != 0) {
    return Unexpected{"memory.snapshot: cannot read " + path + ": " +
                      std::generic_category().message(errno) +
                      "; expected a file that this user may read"};
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Unexpected{"memory.snapshot: cannot write in " + folder + ": " +
                      std::generic_category().message(errno) +
                      "; expected a folder in which this user may create files"};
  }
  return std::unique_ptr<CounterSnapshots>(new CounterSnapshots(store, std::move(options), log));
}

Expected<bool> CounterSnapshots::lock(std::vector<net::FileLock> inherited) {
  auto taken = net::FileLock::try_take(options_.path, std::move(inherited));
  if (!taken) return Unexpected{"memory.snapshot: " + taken.error()};
  if (!*taken) {
    return Unexpected{
        "memory.snapshot: another server uses " + options_.path +
        "; expected a file for each server, or drain.handover to replace that server"};
  }
  lock_.emplace(std::move(**taken));
  return true;
}

void CounterSnapshots::read() {
  const std::string& path = options_.path;
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0 && errno == ENOENT) {
    return log_.info("there is no snapshot, so the counters start again", {{"file", path}});
  }
  const auto start = steady_clock::now();
  const auto loaded = store_.load(path);
  if (!loaded) return put_aside(loaded.error());
  log_.info("read the snapshot of the counters",
            {{"file", path},
             {"counters", loaded->counters},
             {"blocks", loaded->blocks},
             {"bytes", loaded->bytes},
             {"age_seconds", seconds_of(SystemClock().now()) - seconds_of(loaded->saved)},
             {"seconds", seconds(since(start))}});
  if (loaded->dropped == 0) return;
  log_.warning(
      "counters of the snapshot were dropped because memory.max_keys or memory.max_log_bytes is "
      "too small",
      {{"dropped", loaded->dropped}, {"counters", loaded->counters}});
}

void CounterSnapshots::put_aside(const std::string& why) {
  const std::string aside = options_.path + ".damaged";
  log_.error("the snapshot cannot be used, so the counters start again", {{"why", why}});
  std::error_code error;
  std::filesystem::rename(options_.path, aside, error);
  if (error) {
    log_.error("the damaged snapshot cannot be renamed and will be replaced",
               {{"file", options_.path}, {"why", error.message()}});
  } else {
    log_.error("the damaged snapshot was renamed; delete it, or report it if no disk has failed",
               {{"file", aside}});
  }
  const std::lock_guard lock(mutex_);
  ++stats_.failures;
}

void CounterSnapshots::start() {
  if (options_.interval.count() > 0) thread_ = std::thread([this] { run(); });
}

void CounterSnapshots::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopping_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void CounterSnapshots::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, options_.interval, [this] { return stops_; })) {
    lock.unlock();
    {
      const std::lock_guard writing(writing_);
      if (!is_last_written_) write(false);
    }
    lock.lock();
  }
}

bool CounterSnapshots::write_last() {
  const std::lock_guard writing(writing_);
  if (std::exchange(is_last_written_, true)) return failure_.empty();
  write(true);
  const Stats now = stats();
  if (!failure_.empty()) return false;
  log_.info("wrote the snapshot of the counters", {{"file", options_.path},
                                                   {"counters", now.last.counters},
                                                   {"blocks", now.last.blocks},
                                                   {"bytes", now.last.bytes},
                                                   {"seconds", seconds(now.took)}});
  return true;
}

void CounterSnapshots::continue_writing() {
  const std::lock_guard writing(writing_);
  is_last_written_ = false;
}

// Logs the first failure in a row, and a failure of the last snapshot always.
void CounterSnapshots::write(bool is_last) {
  const auto start = steady_clock::now();
  const auto saved = store_.save(options_.path);
  const std::string failure = saved ? std::string() : saved.error();
  if (!saved && (is_last || failure != failure_)) {
    log_.error("the counters were not saved; a restart now continues from the last snapshot",
               {{"why", failure}});
  } else if (saved && !failure_.empty()) {
    log_.info("the counters can be saved again", {{"file", options_.path}});
  }
  failure_ = failure;
  const std::lock_guard lock(mutex_);
  if (saved) {
    stats_.last = *saved;
    stats_.took = since(start);
  } else {
    ++stats_.failures;
  }
}

CounterSnapshots::Stats CounterSnapshots::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CounterSnapshots::add_metrics(metrics::Registry& registry) {
  registry.add_gauge(
      "sluice_snapshot_timestamp_seconds",
      "When the last snapshot of the counters was begun, in Unix time; 0: none was written.",
      [this] { return seconds_of(stats().last.saved); });
  registry.add_gauge("sluice_snapshot_duration_seconds", "How long the last snapshot took.",
                     [this] { return seconds(stats().took); });
  registry.add_gauge("sluice_snapshot_bytes", "Size of the last snapshot.",
                     [this] { return static_cast<double>(stats().last.bytes); });
  registry.add_gauge("sluice_snapshot_counters", "Counters in the last snapshot.",
                     [this] { return static_cast<double>(stats().last.counters); });
  registry.add_counter("sluice_snapshot_failures_total",
                       "Snapshots that could not be read or written.",
                       [this] { return static_cast<double>(stats().failures); });
}

}  // namespace sluice::server
