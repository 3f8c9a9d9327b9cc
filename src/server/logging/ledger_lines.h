#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/clock.h"
#include "sluice/expected.h"
#include "sluice/ledger.h"

namespace sluice::server {

// A line of a ledger (docs/budgets.md). A plain value; what its kind does not have is empty.
struct LedgerLine {
  std::uint64_t n = 0;  // of the line, one more than that of the line before
  Instant at = {};
  std::string kind = {};  // of kLedgerKinds, or start, stop or gap
  std::string rule = {}, limit = {}, key = {}, counter = {}, tag = {};
  std::string id = {}, hash = {};
  std::int64_t spent = 0, held = 0;
  std::uint64_t spent_after = 0, held_after = 0, limit_units = 0;
  Instant window = kFirstInstant;
  Instant ends = {};
  std::string on_expiry = {};
  bool is_new = false;                   // its counter began with it
  std::uint64_t lost = 0;                // gap: entries
  bool rotated = false;                  // start, stop: the server goes on in another file
  std::optional<Instant> restored = {};  // start: when its counters were saved; absent: new ones
  std::string version = {}, cut = {};    // start: of the server; an unfinished line that was here

  // The text of the line, without its end.
  std::string text() const;
  // Whether it says what changed a counter.
  bool is_entry() const { return kind != "start" && kind != "stop" && kind != "gap"; }
};

// The line of an entry.
LedgerLine ledger_line(std::uint64_t n, const LedgerEntry& entry);
// Errors: "WHAT; EXPECTED".
Expected<LedgerLine> parse_ledger_line(std::string_view text);

// Replays the lines of a ledger, in the order of its files, and finds what contradicts the lines
// before. Entries that a restart has undone do not count. A hold that no line ends counts as ended
// after its time, as its limit says: if its counter is forgotten before it changes again, no line
// says so.
class LedgerReplay {
 public:
  // Receives "COUNTER: WHAT; expected X, found Y", and whether the ledger is wrong or only
  // incomplete.
  using Report = std::function<void(bool is_wrong, const std::string& what)>;
  // Receives each change of a counter, also those that no line reports.
  using See = std::function<void(const LedgerLine& line)>;

  explicit LedgerReplay(
      Report report, See see = [](const LedgerLine&) {})
      : report_(std::move(report)), see_(std::move(see)) {}
  // Takes the text of the next line, of any kind, of those that add() takes later: a restart after
  // a crash says from which instant on it has undone the entries before it.
  void prepare(std::string_view text);
  // Takes the next line.
  void add(const LedgerLine& line);
  // Ends the holds whose time is over.
  void end(Instant now);

  std::uint64_t entries() const noexcept { return entries_; }
  // Whether lines before this one, which is the next, are not there: they could not be written, or
  // are in an earlier file, as those are of the counters of a snapshot.
  bool is_after_gap(const LedgerLine& line) const noexcept {
    return line.kind == "gap" || (!has_begun() && (line.n > 1 || line.restored));
  }
  bool has_begun() const noexcept { return last_.n > 0; }
  // Whether the last line says that the server has stopped.
  bool is_stopped() const noexcept { return last_.kind == "stop"; }

 private:
  struct Hold {
    std::uint64_t cost = 0;
    Instant ends = {};
    bool charges = true;  // if it ends with its time
  };
  struct Counter {
    std::string rule = {}, limit = {}, key = {};
    std::uint64_t spent = 0, held = 0;
    Instant last = kFirstInstant;
    std::map<std::string, Hold> open = {};  // by their hashes
    std::uint64_t open_held = 0;
    Instant first_end = Instant::max();  // no hold ends before
    std::uint64_t unknown = 0;           // held by others
    bool is_whole = true;                // all of its holds are in the ledger
    std::uint64_t era = 0;
  };

  void begin(const LedgerLine& line);
  void follow(const LedgerLine& line);
  void check_names(const LedgerLine& line);
  void check_id(const LedgerLine& line);
  void compare(Counter& counter, const LedgerLine& line);
  void follow_hold(Counter& counter, const LedgerLine& line);
  void expire(Counter& counter, Instant at, Instant window);
  void lose_all() noexcept;
  void correct(const Counter& counter, const LedgerLine& line, std::uint64_t spent);
  void begin_again(Counter& counter, const LedgerLine& line);
  void wrong(const LedgerLine& line, const std::string& what);
  void warn(const std::string& what) const { report_(false, what); }

  const Report report_;
  const See see_;
  std::map<std::string, Counter> counters_;
  bool is_whole_ = false;  // a counter without a line before is new
  std::uint64_t era_ = 0;  // a counter of an earlier one may have another balance
  // That began with the counters of a snapshot, whose balances are known, or nearly.
  std::optional<std::uint64_t> restored_era_ = {};
  // When the counters were saved with which each start began; Instant::max(): it undoes nothing.
  std::vector<Instant> restored_;
  std::size_t starts_ = 0;                 // that were added
  Instant counts_until_ = Instant::max();  // what is later was undone by a start that follows
  std::uint64_t undone_ = 0;               // entries since the last start
  std::uint64_t entries_ = 0;
  LedgerLine last_;
};

}  // namespace sluice::server
