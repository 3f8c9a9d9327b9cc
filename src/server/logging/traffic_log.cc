#include "server/logging/traffic_log.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

constexpr auto kBetweenWrites = std::chrono::milliseconds(20);

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

void TrafficLane::write(std::string_view line) noexcept {
  const std::uint64_t end = end_.load(std::memory_order_relaxed);
  const std::uint64_t used = end - begin_.load(std::memory_order_acquire);
  if (line.size() > kBytes - used) return drop();
  const std::size_t at = end % kBytes;
  const std::size_t first = std::min(line.size(), kBytes - at);
  std::memcpy(ring_.get() + at, line.data(), first);
  std::memcpy(ring_.get(), line.data() + first, line.size() - first);
  end_.store(end + line.size(), std::memory_order_release);
}

std::array<std::string_view, 2> TrafficLane::waiting() const noexcept {
  const std::uint64_t begin = begin_.load(std::memory_order_relaxed);
  const std::size_t size = end_.load(std::memory_order_acquire) - begin;
  const std::size_t at = begin % kBytes;
  const std::size_t first = std::min(size, kBytes - at);
  return {std::string_view(ring_.get() + at, first), std::string_view(ring_.get(), size - first)};
}

void TrafficLane::release(std::size_t bytes) noexcept {
  begin_.store(begin_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
}

Expected<std::unique_ptr<TrafficLog>> TrafficLog::open(const TrafficOptions& options, Log& log) {
  std::unique_ptr<TrafficLog> made(new TrafficLog(options, log));
  if (const auto failure = made->open_file(); !failure.empty()) return Unexpected{failure};
  // Without signals, a write beyond the limit of file sizes fails instead of raising SIGXFSZ.
  const auto drain = [all = made.get()] { all->drain(); };
  made->thread_ = repeat(kBetweenWrites, drain, drain);
  return made;
}

TrafficLane& TrafficLog::make_lane() {
  const std::lock_guard lock(mutex_);
  return lanes_.emplace_back();
}

TrafficLog::Stats TrafficLog::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  for (const TrafficLane& lane : lanes_) stats.dropped += lane.dropped();
  return stats;
}

std::string TrafficLog::open_file() {
  auto failure = file_.open();
  if (failure.empty() && file_.is_shared()) {
    log_.warning("other users may read or write recorded requests", {{"file", options_.file}});
  }
  return failure;
}

std::string TrafficLog::rotate() {
  const std::string kept = options_.file + ".1";
  if (std::rename(options_.file.c_str(), kept.c_str()) != 0) {
    return "cannot rename to " + kept + ": " + std::generic_category().message(errno);
  }
  if (auto failure = open_file(); !failure.empty()) return failure;
  log_.info("the file of recorded requests is full; a new one begins",
            {{"file", options_.file}, {"kept", kept}});
  const std::lock_guard lock(mutex_);
  ++stats_.rotations;
  return {};
}

// Makes room for that many bytes. A lane has at most half of the least `max_bytes`.
std::string TrafficLog::prepare(std::size_t bytes) {
  if (file_.is_elsewhere()) {
    if (auto failure = open_file(); !failure.empty()) return failure;
  }
  return file_.size() > 0 && file_.size() + bytes > options_.max_bytes / 2 ? rotate()
                                                                           : std::string();
}

void TrafficLog::report(const std::string& failure) {
  if (!failure.empty() && !has_failed_) {
    log_.error("requests are not recorded", {{"why", failure}});
  } else if (failure.empty() && has_failed_) {
    log_.info("requests are recorded again", {{"lost", losses_}});
    losses_ = 0;
  }
  has_failed_ = !failure.empty();
}

void TrafficLog::drain() {
  for (std::size_t i = 0;; ++i) {
    TrafficLane* lane = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (i == lanes_.size()) return;
      lane = &lanes_[i];  // a deque keeps its place
    }
    const auto lines = lane->waiting();
    const std::size_t bytes = lines[0].size() + lines[1].size();
    if (bytes == 0) continue;
    const std::uint64_t count = count_lines(lines[0]) + count_lines(lines[1]);
    std::string failure = prepare(bytes);
    if (failure.empty()) failure = file_.append(lines);
    lane->release(bytes);
    const bool failed = !failure.empty();
    if (failed) losses_ += count;
    report(failure);
    const std::lock_guard lock(mutex_);
    stats_.lines += failed ? 0 : count;
    stats_.bytes += failed ? 0 : bytes;
    stats_.dropped += failed ? count : 0;
  }
}

}  // namespace sluice::server
