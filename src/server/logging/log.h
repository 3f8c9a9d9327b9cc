#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "sluice/clock.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat : std::uint8_t { kText, kJson };
enum class LogKeys : std::uint8_t { kPlain, kHash, kNone };  // how keys of denied requests are told

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  LogKeys keys = LogKeys::kPlain;
  std::uint32_t denials_per_second = 10;  // 0: none
  bool access = false;                    // a line for every request
};

// A named value of a log line. The name is of letters, digits and underscores.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, double, bool>;

  LogField(std::string_view called, std::string_view text) : name(called), value(text) {}
  LogField(std::string_view called, double number) : name(called), value(number) {}
  template <std::same_as<bool> T>
  LogField(std::string_view called, T truth) : name(called), value(truth) {}
  // What exceeds 2^63 - 1 is written as that.
  template <std::integral T>
  requires(!std::same_as<T, bool>) LogField(std::string_view called, T number)
      : name(called), value(to_int64(number)) {}

  std::string_view name;
  Value value;

 private:
  template <std::integral T>
  static constexpr std::int64_t to_int64(T number) {
    return std::in_range<std::int64_t>(number) ? static_cast<std::int64_t>(number)
                                               : std::numeric_limits<std::int64_t>::max();
  }
};

// One request, for the access log. A Unix socket has no peer.
struct AccessLine {
  std::string_view method;
  std::string_view target;  // as it was sent: with its query
  int status = 0;
  std::string_view peer;
  std::chrono::nanoseconds took{0};
  std::string_view door;
};

// The log of the server: one line an event, in UTF-8 whatever it is given, written by a thread of
// its own, so that a slow reader never holds up a loop: the oldest lines waiting are dropped
// instead, and counted. No value can make a line look like two, or like another.
//
//   text: 2026-11-21T01:02:03.456Z info message key=value key="with spaces"
//   JSON: {"time":"2026-11-21T01:02:03.456Z","level":"info","message":"message","key":"value"}
//
// Thread-safety: any member from any thread. Cost of a line: a few µs, with a lock that is held
// for a moment; of one below the level: a comparison.
class Log {
 public:
  // Writes to the descriptor, which outlives the log and is not closed.
  explicit Log(const LogOptions& options, int descriptor = 2);
  // Writes what is waiting, for at most a second if the reader is stuck.
  ~Log();

  // Never throws: what cannot be written is dropped and counted.
  void write(LogLevel level, std::string_view message,
             std::initializer_list<LogField> fields = {}) noexcept {
    write_all(level, message, {fields.begin(), fields.size()});
  }
  void write_all(LogLevel level, std::string_view message,
                 std::span<const LogField> fields) noexcept;
  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kDebug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kInfo, message, fields);
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kWarning, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) noexcept {
    write(LogLevel::kError, message, fields);
  }
  // A line for a request, where the options ask for them: message "request", method, target (of a
  // longer one the first KiB and "…"), status, peer, duration_us, door.
  void access(const AccessLine& line) noexcept;

  const LogOptions& options() const noexcept;
  // Lines that were not written.
  std::uint64_t dropped() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a function that writes a warning with the field `why`, unless that is empty: for code
// that does not depend on the log. Borrows the log.
std::function<void(std::string_view what, std::string_view why)> warning_writer(Log& log);

// A line for each denial, at a bounded rate for the process: message "denied"; rule; limit and key
// of the limit that denied, of several the one with the longest wait; reason; retry_after_ms unless
// it would never pass; suppressed: how many denials since the last line went without one.
//
// Thread-safety: write() from any thread. Ownership: borrows the log and the clock. Cost where the
// rate is exhausted: some ns: no lock, a coarse clock, nothing written that another loop writes.
class DenialLog {
 public:
  // The clock counts seconds; without one it is a coarse monotonic clock.
  explicit DenialLog(Log& log, const Clock* clock = nullptr);
  ~DenialLog();
  // An answer that allows is not written.
  void write(const RuleAnswer& answer) noexcept;
  // The same of a decision that no rule made: key, reason, retry_after_ms, suppressed.
  void write(std::string_view key, const Decision& decision) noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::server
