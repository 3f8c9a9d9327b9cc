#include "server/logging/log.h"

#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/percent.h"
#include "server/logging/log_line.h"
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

namespace {

// Only lower-case digits are valid.
bool is_hex(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool is_id(std::string_view text) noexcept {
  return is_hex(text) && text.find_first_not_of('0') != text.npos;
}

}  // namespace

std::optional<TraceParent> TraceParent::parse(std::string_view text) noexcept {
  constexpr std::size_t kTrace = 3, kSpan = 36, kFlags = 53, kSize = 55;
  if (text.size() < kSize) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const bool is_longer = text.size() > kSize;
  if (!is_hex(version) || version == "ff") return std::nullopt;
  if (is_longer && (version == "00" || text[kSize] != '-')) return std::nullopt;
  for (const std::size_t dash : {kTrace - 1, kSpan - 1, kFlags - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  const TraceParent trace{text.substr(kTrace, 32), text.substr(kSpan, 16)};
  if (!is_id(trace.trace_id) || !is_id(trace.span_id) || !is_hex(text.substr(kFlags, 2))) {
    return std::nullopt;
  }
  return trace;
}

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

// Whether the name of a parameter may end in "token" when it is decoded. A gateway may encode a
// target that a client has encoded, so the name may be encoded up to four times. Returns true for a
// name that is encoded more often.
bool names_a_token(std::string_view sent) {
  constexpr int kMostTimes = 4;
  if (sent.find('%') == sent.npos) return ends_with_token(sent);
  std::string name(sent);
  for (int times = 0; times <= kMostTimes; ++times) {
    std::size_t size = 0;
    for (std::string_view rest = name; !rest.empty();) name[size++] = base::take_decoded(rest);
    if (size == name.size()) return ends_with_token(name);
    name.resize(size);
  }
  return true;
}

// Returns the target with "***" as the value of each parameter whose name ends in "token".
std::string without_tokens(std::string_view target) {
  const std::size_t query = std::min(target.find('?'), target.size());
  std::string out(target.substr(0, query));
  for (std::size_t at = query; at < target.size();) {
    const std::size_t end = std::min(target.find('&', at + 1), target.size());
    const std::string_view parameter = target.substr(at, end - at);  // "?name=value", "&name"
    const std::size_t equals = parameter.find('=');
    const bool is_secret = equals != parameter.npos && names_a_token(parameter.substr(0, equals));
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
