#include "server/logging/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "server/logging/log_line.h"

namespace sluice::server {
namespace {

// A writable pipe accepts this many bytes without blocking.
constexpr std::size_t kPiece = 4096;

}  // namespace

void LogWriter::log(const spdlog::details::log_msg& line) {
  report_dropped();
  if (!write({line.payload.data(), line.payload.size()})) count_unwritten();
}

void LogWriter::report_dropped() {
  const auto dropped = overrun_() + unwritten();
  if (dropped == reported_) return;
  const std::array fields = {LogField("lines", dropped - reported_)};
  if (write(
          log_line(format_, clocks_.date.now(), LogLevel::kWarning, "log lines dropped", fields))) {
    reported_ = dropped;
  }
}

bool LogWriter::write(std::string_view text) noexcept {
  while (!text.empty()) {
    if (!wait()) return false;
    const auto written = ::write(descriptor_, text.data(), std::min(text.size(), kPiece));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Waits until the descriptor is writable or has an error. Returns false if the time is up.
bool LogWriter::wait() const noexcept {
  constexpr int kLookAgainMs = 100;
  for (;;) {
    const Instant deadline = deadline_.load(std::memory_order_relaxed);
    const bool late = deadline != Instant::max() && clocks_.steady.now() >= deadline;
    pollfd one{descriptor_, POLLOUT, 0};
    if (poll(&one, 1, late ? 0 : kLookAgainMs) > 0) return true;
    if (late) return false;
  }
}

void LogWriter::give_up_soon() noexcept {
  deadline_.store(clocks_.steady.now() + std::chrono::seconds(1), std::memory_order_relaxed);
}

}  // namespace sluice::server
