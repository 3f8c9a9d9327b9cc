#include "cli/progress_line.h"

#include <algorithm>
#include <iostream>
#include <string>

#include "replay/text.h"

namespace sluice::cli {

void ProgressLine::show(const replay::Progress& progress) {
  const auto now = SteadyClock::now();
  if (!shown_ || now < next_) return;
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
  std::cerr << "\r\x1b[K" << text << std::flush;
  drawn_ = true;
}

void ProgressLine::clear() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
  drawn_ = false;
}

}  // namespace sluice::cli
