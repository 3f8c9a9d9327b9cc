#include "server/logging/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "server/logging/log_line.h"
#include "server/logging/log_writer.h"

namespace sluice::server {
namespace {

constexpr std::size_t kWaitingLines = 1024;
constexpr std::size_t kLongestTarget = 1024;
constexpr std::size_t kLongestMethod = 32;

bool ends_with_token(std::string_view name) noexcept {
  constexpr std::string_view kToken = "token";
  if (name.size() < kToken.size()) return false;
  name.remove_prefix(name.size() - kToken.size());
  return std::equal(name.begin(), name.end(), kToken.begin(),
                    [](char c, char lower) { return (c | 0x20) == lower; });
}

// Returns the target with "***" as the value of each parameter whose name ends in "token".
std::string without_tokens(std::string_view target) {
  const std::size_t query = std::min(target.find('?'), target.size());
  std::string out(target.substr(0, query));
  for (std::size_t at = query; at < target.size();) {
    const std::size_t end = std::min(target.find('&', at + 1), target.size());
    const std::string_view parameter = target.substr(at, end - at);  // "?name=value", "&name"
    const std::size_t equals = parameter.find('=');
    const bool is_secret = equals != parameter.npos && ends_with_token(parameter.substr(0, equals));
    out.append(is_secret ? parameter.substr(0, equals + 1) : parameter)
        .append(is_secret ? "***" : "");
    at = end;
  }
  return out;
}

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
                     {"target", cut(without_tokens(line.target), kLongestTarget)},
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
