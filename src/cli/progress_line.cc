#include "cli/progress_line.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>

#include "replay/text.h"

namespace sluice::cli {
namespace {

// Returns the time until the end of the log at the rate so far, if it is a file.
std::string time_left(const replay::Progress& progress, std::chrono::nanoseconds elapsed) {
  const std::uint64_t size = progress.file.size.value_or(0);
  if (progress.file.read == 0 || progress.file.read >= size) return "";
  const double share =
      static_cast<double>(size - progress.file.read) / static_cast<double>(progress.file.read);
  const auto seconds = std::chrono::duration<double>(elapsed).count() * share;
  if (seconds < 1) return "";
  return ", " +
         replay::rough_duration_text(std::chrono::seconds{static_cast<std::int64_t>(seconds)}) +
         " left";
}

}  // namespace

void ProgressLine::show(const replay::Progress& progress) {
  const auto now = SteadyClock::now();
  if (progress.log != log_) {
    log_ = progress.log;
    log_started_ = now;
  }
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds{100};
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(progress.inflated) / seconds);
  std::string text = replay::printable(progress.log, 30) + ": ";
  if (progress.file.size.value_or(0) > 0) {
    const std::uint64_t read = std::min(progress.file.read, *progress.file.size);
    text += std::to_string(read * 100 / *progress.file.size) + " %, ";
  }
  text += replay::grouped(progress.lines) + " lines, " + replay::bytes_text(progress.inflated);
  text += ", " + replay::bytes_text(rate) + "/s";
  text += time_left(progress, now - log_started_);
  std::cerr << "\r\x1b[K" << text << std::flush;
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace sluice::cli
