#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "insight/key_sketch.h"
#include "server/logging/log.h"
#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/rule_answer.h"

namespace sluice::server {

// Remembers which keys were reported as near their limits, each until its window ends. It holds
// kMost keys in 1 MiB, which the first key allocates. If there is no room for a further key, it
// forgets one whose window ends soon; that key may then be reported once more.
//
// Thread-safety: any member from any thread. Cost: some ns, with a lock on a part of the table.
class NearKeys {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 16;

  // Adds the hash of a key for the time from `now` to the end of its window. Returns whether it was
  // not there. Allocates once; without memory it throws std::bad_alloc.
  bool add(std::uint64_t hash, Instant now, Duration window);

 private:
  static constexpr std::size_t kSetSize = 8;
  static constexpr std::size_t kSets = kMost / kSetSize;
  static constexpr std::size_t kLocks = 64;
  struct Entry {
    std::uint64_t hash = 0;
    Instant until = Instant::min();
  };

  Entry* entries();

  std::once_flag allocated_;
  std::unique_ptr<Entry[]> entries_;
  std::array<std::mutex, kLocks> locks_;  // of the set with the same index modulo kLocks
};

// A denied request that the log has a line for. A plain value; texts are cut.
struct RecentDenial {
  std::string rule, limit, key;
  std::string client, agent, path;  // empty: the request named none
};

// Returns a steady clock with a resolution of a few milliseconds. Cost: about 5 ns a call.
const Clock& coarse_clock() noexcept;

// Writes a line for each denied request, at a bounded rate for the process: message "denied"; rule;
// limit; key; reason; retry_after_ms, absent for never; trace_id and span_id of a request with a
// valid `traceparent`; suppressed: the number of denials without a line since the last line. Writes
// a line for each key that comes near a limit, once in a window and at the same rate again: message
// "near"; rule; limit; key; capacity; remaining; reset_after_ms; suppressed. Remembers the latest
// denials of these lines, unless keys are hashed or left out.
//
// Thread-safety: any member from any thread. Ownership: borrows the log and the clock. Cost if the
// rate is exhausted: some ns, without a lock and without a write to memory that another loop
// writes.
class DenialLog {
 public:
  // The first clock counts seconds, the other one is for windows.
  explicit DenialLog(Log& log, const Clock& clock = coarse_clock(),
                     const Clock& windows = SteadyClock::instance());
  // Does nothing if the decision allows. The rule, the limit and the key, which is the text that
  // people read, are empty if there is none. `trace` is asked if a line is written; empty: the
  // request has none. `request` is read then, too; null: it is not known.
  void write(std::string_view rule, std::string_view limit, std::string_view key,
             const Decision& decision, const TraceSource& trace = {},
             const AttributeSource* request = nullptr) noexcept;
  // The same with "would_deny" for a limit of a rule in shadow mode. These lines have a rate of
  // their own, so that a rule that is tried does not hide denials.
  void write_shadow(const LimitAnswer& limit, const TraceSource& trace) noexcept;
  // The latest denials, at most kMostRecent, the newest last.
  static constexpr std::size_t kMostRecent = 256;
  std::vector<RecentDenial> recent() const;
  // Returns whether the key, which is near the limit, is reported for the first time in its window,
  // which lasts until `reset_after` has passed. At most 65536 keys are remembered; see NearKeys.
  bool report_near(const LimitAnswer& limit) noexcept;
  // Returns the key as lines show it; an empty text if there is none, or keys are not logged.
  std::string shown_key(std::string_view key) const;
  // Returns the hash that lines show with LogKeys::kHash.
  const insight::KeyHash& key_hash() const noexcept { return hash_; }

 private:
  // Returns whether to write a line now.
  bool admits(LineRate& per_second) noexcept;
  void write_near(const LimitAnswer& limit);
  void write_line(std::string_view message, LineRate& per_second, std::string_view rule,
                  std::string_view limit, std::string_view key, const Decision& decision,
                  const TraceSource& trace);
  void remember(std::string_view rule, std::string_view limit, std::string_view key,
                const AttributeSource& request);

  Log& log_;
  const Clock& clock_;
  const Clock& windows_;
  LineRate per_second_;
  LineRate shadow_per_second_;
  LineRate near_per_second_;
  const bool wanted_;
  NearKeys near_;
  const insight::KeyHash hash_;
  mutable std::mutex recent_mutex_;  // of `recent_`
  std::deque<RecentDenial> recent_;
};

}  // namespace sluice::server
