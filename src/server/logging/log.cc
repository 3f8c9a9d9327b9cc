#include "server/logging/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/quoted.h"
#include "server/logging/log_line.h"
#include "sluice/clock.h"

namespace sluice::server {

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
  const std::string_view flags = text.substr(kFlags, 2);
  TraceParent trace{text.substr(kTrace, 32), text.substr(kSpan, 16)};
  if (!is_id(trace.trace_id) || !is_id(trace.span_id) || !is_hex(flags)) return std::nullopt;
  trace.is_sampled = (base::hex_digit(flags[1]) & 1) != 0;
  return trace;
}

namespace {

// A writable pipe accepts this many bytes without blocking.
constexpr std::size_t kPiece = 4096;
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

}  // namespace

Log::Log(const LogOptions& options, int descriptor, const Clock& date, const Clock& steady)
    : options_(options), descriptor_(descriptor), date_(date), steady_(steady), thread_([this] {
        run();
      }) {}

Log::~Log() {
  deadline_.store(steady_.now() + std::chrono::seconds(1), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Log::write_all(LogLevel level, std::string_view message,
                    std::span<const LogField> fields) noexcept {
  if (level < options_.level || level == LogLevel::kOff) return;
  try {
    push(log_line(options_.json, date_.now(), level, message, fields));
  } catch (...) {
    count_dropped();
  }
}

void Log::access(std::string_view method, std::string_view target, int status,
                 std::string_view peer, std::chrono::nanoseconds took,
                 std::string_view front_end) noexcept {
  if (!options_.access) return;
  try {
    info("request", {{"method", cut(method, kLongestMethod)},
                     {"target", cut(without_tokens(target), kLongestTarget)},
                     {"status", status},
                     {"peer", peer},
                     {"duration_us", std::chrono::floor<Duration>(took).count()},
                     {"front_end", front_end}});
  } catch (...) {
    count_dropped();
  }
}

void Log::refused(std::string_view method, std::string_view target, int status,
                  std::string_view detail, std::string_view peer) noexcept {
  try {
    const auto now = std::chrono::floor<std::chrono::minutes>(steady_.now().time_since_epoch());
    if (!refusals_.admit(now.count())) return;
    const std::uint64_t suppressed = refusals_.take_suppressed();
    const std::string shown_method = cut(method, kLongestMethod);
    const std::string shown_target = cut(without_tokens(target), kLongestTarget);
    const LogField fields[] = {{"method", shown_method},
                               {"target", shown_target},
                               {"status", status},
                               {"detail", detail},
                               {"peer", peer.empty() ? "unix" : peer},
                               {"suppressed", suppressed}};
    const std::size_t shown = std::size(fields) - (suppressed == 0 ? 1 : 0);
    write_all(LogLevel::kWarning, "a request was not accepted", {fields, shown});
  } catch (...) {
    count_dropped();
  }
}

// If too many lines wait, drops the oldest.
void Log::push(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(line));
    if (waiting_.size() > kWaitingLines) {
      waiting_.pop_front();
      count_dropped();
    }
  }
  changed_.notify_one();
}

void block_signals() noexcept {
  sigset_t all{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

std::jthread repeat(std::chrono::milliseconds interval, std::function<void()> work,
                    std::function<void()> last) {
  return std::jthread(
      [interval, work = std::move(work), last = std::move(last)](const std::stop_token& stop) {
        block_signals();
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any never;
        const auto is_over = [&stop] { return stop.stop_requested(); };
        while (!never.wait_for(lock, stop, interval, is_over)) work();
        last();
      });
}

// A reader that has gone makes write() fail instead of raising SIGPIPE.
void Log::run() noexcept {
  block_signals();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::string line = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      write_waiting(line);
    } catch (...) {
      count_dropped();
    }
    lock.lock();
  }
}

// Where lines were dropped, a line says how many before the next is written.
void Log::write_waiting(const std::string& line) {
  if (const std::uint64_t lost = dropped(); lost != reported_) {
    const LogField lines("lines", lost - reported_);
    if (write_line(log_line(options_.json, date_.now(), LogLevel::kWarning, "log lines dropped",
                            {&lines, 1}))) {
      reported_ = lost;
    }
  }
  if (!write_line(line)) count_dropped();
}

// A full disk may have taken only a part of the line before.
bool Log::write_line(std::string_view line) noexcept {
  return (!is_cut_ || write_bytes("\n")) && write_bytes(line);
}

bool Log::write_bytes(std::string_view text) noexcept {
  while (!text.empty()) {
    if (!wait_for_reader()) return false;
    const auto written = ::write(descriptor_, text.data(), std::min(text.size(), kPiece));
    if (written < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (written <= 0) continue;
    is_cut_ = text[static_cast<std::size_t>(written) - 1] != '\n';
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Waits until the descriptor is writable or has an error. Returns false if the time is up.
bool Log::wait_for_reader() const noexcept {
  constexpr int kLookAgainMs = 100;
  for (;;) {
    const Instant deadline = deadline_.load(std::memory_order_relaxed);
    const bool late = deadline != Instant::max() && steady_.now() >= deadline;
    pollfd one{descriptor_, POLLOUT, 0};
    if (poll(&one, 1, late ? 0 : kLookAgainMs) > 0) return true;
    if (late) return false;
  }
}

std::function<void(std::string_view, std::string_view)> warning_writer(Log& log) {
  return [&log](std::string_view what, std::string_view why) {
    if (why.empty()) return log.warning(what);
    log.warning(what, {{"why", why}});
  };
}

}  // namespace sluice::server
