#include "server/logging/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>

#include <csignal>
#include <string>

#include "server/logging/log_line.h"
#include "server/logging/log_writer.h"

namespace sluice::server {
namespace {

constexpr std::size_t kWaitingLines = 1024;
constexpr std::size_t kLongestTarget = 1024;
constexpr std::size_t kLongestMethod = 32;

// Other threads handle signals. A reader that has gone makes write() fail instead of raising
// SIGPIPE.
void block_signals() {
  sigset_t all{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

class Log::Impl {
 public:
  Impl(const LogOptions& chosen, int descriptor, const LogClocks& clocks)
      : options(chosen),
        date(clocks.date),
        writer(std::make_shared<LogWriter>(chosen.format, descriptor, clocks)),
        threads(std::make_shared<spdlog::details::thread_pool>(kWaitingLines, 1, block_signals)),
        logger(std::make_shared<spdlog::async_logger>(
            "sluice", writer, threads, spdlog::async_overflow_policy::overrun_oldest)) {
    writer->follow([pool = threads.get()] { return pool->overrun_counter(); });
    logger->set_level(spdlog::level::trace);
    // By default, spdlog writes errors to stderr.
    logger->set_error_handler([this](const std::string&) { writer->count_unwritten(); });
  }
  ~Impl() {
    writer->give_up_soon();
    threads.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  const LogOptions options;
  const Clock& date;
  const std::shared_ptr<LogWriter> writer;
  std::shared_ptr<spdlog::details::thread_pool> threads;
  const std::shared_ptr<spdlog::async_logger> logger;
};

Log::Log(const LogOptions& options, int descriptor, const LogClocks& clocks)
    : impl_(std::make_unique<Impl>(options, descriptor, clocks)) {}

Log::~Log() = default;

void Log::write_all(LogLevel level, std::string_view message,
                    std::span<const LogField> fields) noexcept {
  if (level < impl_->options.level || level == LogLevel::kOff) return;
  try {
    const auto line = log_line(impl_->options.format, impl_->date.now(), level, message, fields);
    impl_->logger->log(spdlog::level::info, spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    impl_->writer->count_unwritten();
  }
}

void Log::access(const AccessLine& line) noexcept {
  if (!impl_->options.access) return;
  try {
    info("request", {{"method", cut(line.method, kLongestMethod)},
                     {"target", cut(line.target, kLongestTarget)},
                     {"status", line.status},
                     {"peer", line.peer},
                     {"duration_us", std::chrono::floor<Duration>(line.took).count()},
                     {"front_end", line.front_end}});
  } catch (...) {
    impl_->writer->count_unwritten();
  }
}

const LogOptions& Log::options() const noexcept { return impl_->options; }

std::uint64_t Log::dropped() const noexcept {
  return impl_->threads->overrun_counter() + impl_->writer->unwritten();
}

std::function<void(std::string_view, std::string_view)> warning_writer(Log& log) {
  return [&log](std::string_view what, std::string_view why) {
    if (why.empty()) return log.warning(what);
    log.warning(what, {{"why", why}});
  };
}

}  // namespace sluice::server
