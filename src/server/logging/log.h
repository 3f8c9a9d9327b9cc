#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "sluice/clock.h"
#include "stores/policy/spread_count.h"

namespace sluice::server {

// The trace of a request (W3C Trace Context). A plain value that borrows the text.
struct TraceParent {
  std::string_view trace_id;  // 32 hexadecimal digits
  std::string_view span_id;   // 16 hexadecimal digits, of the caller
  bool is_sampled = false;    // the caller records the trace

  // Reads "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", or a later version. Returns
  // nothing if the text is not valid.
  static std::optional<TraceParent> parse(std::string_view text) noexcept;
};

// Finds the trace of a request when a line about it is written: returns the text of `traceparent`,
// which may be wrong, or nothing. The text is valid until the next call. Thread-safety: one thread.
using TraceSource = std::function<std::optional<std::string_view>()>;

// Admits up to a maximum in each second, or other period, of a clock, and counts what it does not
// admit. Thread-safety: any thread, without a lock.
class LineRate {
 public:
  explicit LineRate(std::uint32_t most) : most_(most) {}

  bool admit(std::int64_t period) noexcept {
    const auto now = static_cast<std::uint64_t>(period) << 32;
    auto state = state_.load(std::memory_order_relaxed);
    for (;;) {
      const bool same = state >> 32 == now >> 32;
      if (same && static_cast<std::uint32_t>(state) >= most_) {
        suppressed_.add_one();
        return false;
      }
      const auto next = same ? state + 1 : now + 1;
      if (state_.compare_exchange_weak(state, next, std::memory_order_relaxed)) return true;
    }
  }
  // Returns how many were not admitted since the last call.
  std::uint64_t take_suppressed() noexcept { return suppressed_.take(); }

 private:
  std::uint32_t most_;
  std::atomic<std::uint64_t> state_{~std::uint64_t{0} << 32};  // the period, and how many in it
  policy::SpreadCount suppressed_;
};

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };
enum class LogKeys : std::uint8_t { kPlain, kHash, kNone };  // how keys of denied requests appear

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  bool json = false;  // lines for programs, not for people
  LogKeys keys = LogKeys::kPlain;
  std::uint32_t denials_per_second = 10;  // 0: none
  bool access = false;                    // write a line for every request
};

// A named value of a log line. The name consists of letters, digits and underscores.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  LogField(std::string_view called, std::string_view text) : name(called), value(text) {}
  LogField(std::string_view called, double number) : name(called), value(number) {}
  template <std::same_as<bool> T>
  LogField(std::string_view called, T truth) : name(called), value(truth) {}
  // Values over 2^63 - 1 are written as 2^63 - 1.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  LogField(std::string_view called, T number) : name(called), value(to_int64(number)) {}

  std::string_view name;
  Value value;

 private:
  template <std::integral T>
  static constexpr std::int64_t to_int64(T number) {
    return std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number)
                                               : std::numeric_limits<std::int64_t>::max();
  }
};

// The server's log: one line per event, always valid UTF-8. A separate thread writes it, so a slow
// reader never blocks an event loop; instead, the oldest waiting lines are dropped and counted. No
// value can make one line look like two, or like another line.
//
//   text: 2026-11-21T01:02:03.456Z info message key=value key="with spaces"
//   JSON: {"time":"2026-11-21T01:02:03.456Z","level":"info","message":"message","key":"value"}
//
// Thread-safety: any member from any thread. Cost of a line: a few µs, with a lock that is held
// briefly; of a line below the level: one comparison.
class Log {
 public:
  // Writes to the descriptor. It must outlive the log, and the log does not close it. The clocks
  // are for the date of each line, and for the time to write the last lines.
  explicit Log(const LogOptions& options, int descriptor = 2,
               const Clock& date = SystemClock::instance(),
               const Clock& steady = SteadyClock::instance());
  // Writes the waiting lines. If the reader does not read, it waits for at most a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // Does not throw: lines that cannot be written are dropped and counted.
  void write(LogLevel level, std::string_view message,
             std::initializer_list<LogField> fields = {}) noexcept {
    write_all(level, message, {fields.begin(), fields.size()});
  }
  void write_all(LogLevel level, std::string_view message,
                 std::span<const LogField> fields) noexcept;
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kInfo, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kWarning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kError, message, fields);
  }
  // Writes a line for a request if the options ask for it: message "request", method, target (at
  // most 1 KiB, then "…"), status, peer, duration_us, front_end. `target` is as it was sent, with
  // its query; values of tokens are masked. A Unix socket has no `peer`.
  void access(std::string_view method, std::string_view target, int status, std::string_view peer,
              std::chrono::nanoseconds took, std::string_view front_end) noexcept;
  // Writes a warning about a request that was not accepted, at most kRefusals in a minute: method,
  // target and status as in access(), detail, peer, and suppressed, the number of such requests
  // without a line since the last line.
  static constexpr std::uint32_t kRefusals = 5;
  void refused(std::string_view method, std::string_view target, int status,
               std::string_view detail, std::string_view peer) noexcept;

  const LogOptions& options() const noexcept { return options_; }
  // Returns the number of lines that were not written.
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  void push(std::string line);
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }
  void run() noexcept;
  void write_waiting(const std::string& line);
  bool write_line(std::string_view line) noexcept;
  bool write_bytes(std::string_view text) noexcept;
  bool wait_for_reader() const noexcept;

  const LogOptions options_;
  const int descriptor_;
  const Clock& date_;
  const Clock& steady_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;  // under the lock, as is the next
  bool ending_ = false;
  LineRate refusals_{kRefusals};
  std::atomic<std::uint64_t> dropped_{0};
  std::uint64_t reported_ = 0;                     // of these; the thread's own, as the next
  bool is_cut_ = false;                            // what was written is no whole line
  std::atomic<Instant> deadline_{Instant::max()};  // to write the last lines
  std::thread thread_;
};

// Blocks all signals in the calling thread: they are for the thread that waits for them.
void block_signals() noexcept;

// Returns a thread that calls `work` after each interval until it is asked to stop, and `last`
// then. Signals are blocked in it. Its destructor waits for its end.
std::jthread repeat(
    std::chrono::milliseconds interval, std::function<void()> work,
    std::function<void()> last = [] {});

// Returns a function that writes a warning with the field `why` unless `why` is empty, for code
// that does not depend on the log. Borrows the log.
std::function<void(std::string_view what, std::string_view why)> warning_writer(Log& log);

}  // namespace sluice::server
