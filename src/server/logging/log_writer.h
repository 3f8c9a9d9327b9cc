#pragma once

#include <spdlog/sinks/sink.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/logging/log.h"
#include "sluice/clock.h"

namespace sluice::server {

// Writes whole lines to a descriptor; the end of the log's thread. Where lines were dropped, a line
// says how many before the next is written.
//
// Thread-safety: log() from one thread, give_up_soon() and unwritten() from any.
class LogWriter final : public spdlog::sinks::sink {
 public:
  // `overrun` counts the lines that were dropped before they reached this writer.
  LogWriter(LogFormat format, int descriptor, const LogClocks& clocks)
      : format_(format), descriptor_(descriptor), clocks_(clocks) {}
  void follow(std::function<std::uint64_t()> overrun) { overrun_ = std::move(overrun); }

  void log(const spdlog::details::log_msg& line) override;
  void flush() override {}
  void set_pattern(const std::string& /*pattern*/) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter> /*formatter*/) override {}

  // One second after this call, nothing waits for the descriptor any more.
  void give_up_soon() noexcept;
  std::uint64_t unwritten() const noexcept { return unwritten_.load(std::memory_order_relaxed); }
  void count_unwritten() noexcept { unwritten_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void report_dropped();
  bool write(std::string_view text) noexcept;
  bool wait() const noexcept;

  LogFormat format_;
  int descriptor_;
  const LogClocks clocks_;
  std::function<std::uint64_t()> overrun_;
  std::uint64_t reported_ = 0;
  std::atomic<std::uint64_t> unwritten_{0};
  std::atomic<Instant> deadline_{Instant::max()};
};

}  // namespace sluice::server
