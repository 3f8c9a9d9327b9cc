#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/logging/ledger_lines.h"
#include "server/logging/line_file.h"
#include "server/logging/log.h"
#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/ledger.h"

namespace sluice::server {

// Without a file, and not in Redis, there is no ledger.
struct LedgerOptions {
  std::string file;
  bool in_redis = false;
  std::uint64_t keep = 100'000;  // in Redis: entries of each counter, about
  std::chrono::milliseconds flush{1000};
};

// Writes a ledger to a file of whole lines, mode 0600 (docs/budgets.md). A thread of its own writes
// them every `flush`, so that a slow disk never delays a decision. Lines that cannot be written
// wait, in at most 2 * kMostBytes; entries beyond that are counted, and a line says how many are
// missing. A new file begins if somebody has renamed or removed it. One process at a time writes
// the file, of which it holds the lock. A process that succeeds another one writes nothing before
// that one has ended, so several write in their order.
//
// Thread-safety: add() and stats() from any thread; the rest from one, start() once.
// Ownership: borrows the log and the clock.
class LedgerFile final : public Ledger {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;

  LedgerFile(LedgerOptions options, Log& log, const Clock& date = SystemClock::instance());
  ~LedgerFile() override { stop({}); }
  LedgerFile(const LedgerFile&) = delete;
  LedgerFile& operator=(const LedgerFile&) = delete;

  // Opens the file. Errors: it cannot be written, is no ledger, or another process writes it,
  // unless this one `succeeds` that process and waits for its end. One line.
  Status open(bool succeeds);
  // Begins to write, of counters that were saved at an instant, or of new ones; not before the end
  // of the predecessor (pidfd_open), if there is one.
  void start(std::optional<Instant> restored,
             detail::FileDescriptor predecessor = detail::FileDescriptor());
  // Writes what waits, and that the server has stopped. Waits for a predecessor, at most for
  // `patience`. Returns whether the file has all of it.
  bool stop(std::chrono::milliseconds patience);
  // Cost: a copy under a lock that is held briefly.
  void add(const LedgerEntry& entry) noexcept override;

  struct Stats {
    std::uint64_t entries = 0;  // written
    std::uint64_t lost = 0;     // entries that could not be written, or that the disk may lack
    std::uint64_t errors = 0;   // writes that have failed
  };
  Stats stats() const;
  // Why the last write failed; empty: it did not.
  std::string failure() const;

 private:
  bool lock() noexcept;
  bool may_write() noexcept;
  std::string read_end();
  std::string follow_file();
  std::string write_line(LedgerLine line);
  std::string write_part();
  std::string write_all();
  std::string flush_to_disk();
  void flush();
  void report(const std::string& failure);
  void run();

  const LedgerOptions options_;
  Log& log_;
  const Clock& date_;
  LineFile file_;
  detail::FileDescriptor predecessor_;
  LedgerLine start_;  // what the next file begins with
  bool has_lock_ = false;
  bool is_read_ = false;       // the end of the file, which is that of a ledger
  bool has_begun_ = false;     // the start is in the file
  std::uint64_t n_ = 0;        // of the last line
  std::vector<char> writing_;  // entries, of which those before `written_` are in the file
  std::size_t written_ = 0;
  std::uint64_t gap_ = 0;              // entries that are lost after those
  bool is_flushed_ = true;             // to the disk
  std::uint64_t unflushed_ = 0;        // entries
  Instant reported_ = Instant::min();  // the last failure
  Instant refused_ = Instant::min();   // the last report that the disk has refused entries
  std::string text_;
  mutable std::mutex mutex_;  // protects the members below
  std::condition_variable wake_;
  std::vector<char> waiting_;
  std::uint64_t added_ = 0;  // entries, in the file or waiting
  std::uint64_t lost_ = 0;   // entries after those
  bool is_stopped_ = false;
  std::chrono::milliseconds patience_{0};
  bool is_whole_ = true;  // of the thread, until it has ended
  Stats stats_;
  std::string failure_;  // of the last write; empty: it succeeded
  std::thread thread_;
};

// Reads a file of a ledger: `see` receives each change of a counter, also holds that end before
// `now` (LedgerReplay), and a "gap" where entries before are missing. Skips what is wrong, as an
// unfinished last line. Errors: it cannot be read, or has more than kMostReadBytes. Cost: about a
// second for each 100 MB.
inline constexpr std::uint64_t kMostReadBytes = std::uint64_t{256} << 20;
Status read_ledger_file(const std::string& path, const LedgerReplay::See& see, Instant now);

}  // namespace sluice::server
