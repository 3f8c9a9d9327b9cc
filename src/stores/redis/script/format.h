#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/step.h"
#include "sluice/calendar.h"
#include "sluice/clock.h"
#include "sluice/limit.h"
#include "sluice/verb.h"

namespace sluice::redis {

// A number of a record: its name in the contract, its member of T, and its size in bytes.
template <typename T>
struct Field {
  std::string_view name;
  std::uint64_t T::* member;
  std::size_t size;
};

// The bytes of a record: N numbers, each in a fixed number of bytes, the least significant first.
// The scripts read and write the same bytes by struct.unpack() and struct.pack() with format().
// Immutable.
template <typename T, std::size_t N>
class Layout {
 public:
  constexpr explicit Layout(const Field<T> (&fields)[N]) {
    for (std::size_t i = 0; i < N; ++i) {
      fields_[i] = fields[i];
      size_ += fields[i].size;
      format_[1 + 2 * i] = 'I';
      format_[2 + 2 * i] = static_cast<char>('0' + fields[i].size);
    }
  }

  // In bytes.
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::span<const Field<T>> fields() const noexcept { return fields_; }
  // "<I2I7I4" for numbers of 2, 7 and 4 bytes. Refers to this layout.
  constexpr std::string_view format() const noexcept { return {format_.data(), format_.size()}; }

  // Reads the first size() bytes. The caller ensures that there are enough.
  T read(std::string_view bytes) const noexcept {
    std::array<char, kMostBytes> padded;
    std::memcpy(padded.data(), bytes.data(), size_);
    const char* from = padded.data();
    T record{};
    for (const Field<T>& field : fields_) {
      std::uint64_t number;
      std::memcpy(&number, from, sizeof number);
      record.*field.member = number & (~std::uint64_t{0} >> (64 - 8 * field.size));
      from += field.size;
    }
    return record;
  }

  // Like read(), and removes the bytes it has read.
  T take(std::string_view& bytes) const noexcept {
    const T record = read(bytes);
    bytes.remove_prefix(size());
    return record;
  }

  void append(const T& record, std::string& out) const {
    std::array<char, kMostBytes> bytes;
    char* to = bytes.data();
    for (const Field<T>& field : fields_) {  // the next number overwrites the bytes after its size
      std::memcpy(to, &(record.*field.member), sizeof(std::uint64_t));
      to += field.size;
    }
    out.append(bytes.data(), size_);
  }

 private:
  // Numbers are read and written as eight bytes, of which a field has the first.
  static_assert(std::endian::native == std::endian::little);
  static constexpr std::size_t kMostBytes = N * sizeof(std::uint64_t);

  std::array<Field<T>, N> fields_{};
  std::array<char, 1 + 2 * N> format_{'<'};
  std::size_t size_ = 0;
};

}  // namespace sluice::redis

// The numbers that the scripts and the C++ code share: values stored in Redis, and arguments and
// replies of scripts. docs/reference/state-format.md describes them for other readers.
namespace sluice::redis::format {

// Begins the keys of rules' counters, after the prefix. No algorithm has this letter.
inline constexpr char kOfRules = 'r';
// Begins the keys of blocks, after the prefix and before the rest of their counters' keys.
inline constexpr char kOfBlocks = 'x';
// The same of the ledgers of budgets.
inline constexpr char kOfLedgers = 'e';

// A single number.
struct Number {
  std::uint64_t value;
};
inline constexpr Layout<Number, 1> kInstant({{"instant", &Number::value, 7}});

// --- stored values ---

// The first two bytes of a value: the kind of state, and version 1 of its layout.
inline constexpr std::uint64_t kBucketKind = 0x11C1;
inline constexpr std::uint64_t kFixedWindowKind = 0x12C1;
inline constexpr std::uint64_t kLogKind = 0x13C1;
inline constexpr std::uint64_t kSlicesKind = 0x14C1;
inline constexpr std::uint64_t kHybridKind = 0x15C1;
inline constexpr std::uint64_t kPermitsKind = 0x16C1;
inline constexpr std::uint64_t kKeyBlockKind = 0x17C1;
inline constexpr std::uint64_t kBudgetKind = 0x18C1;

// Instants, in microseconds, are below this number; periods and other spans below the second one.
inline constexpr std::uint64_t kEndOfInstants = std::uint64_t{1} << 52;
inline constexpr std::uint64_t kEndOfSpans = std::uint64_t{1} << 45;

// `forgotten` counts units of 2^20 us. From this number on a state is never forgotten.
inline constexpr std::uint64_t kForgottenUnit = std::uint64_t{1} << core::Forgotten::kShift;
inline constexpr std::uint64_t kNeverForgotten = core::Forgotten::kNever;

// A bucket or a fixed window. `aux` is a fraction of a unit in 1/rate_ticks, or the ticks since the
// last refill, or since the window opened.
struct FixedState {
  std::uint64_t kind, changed, aux, units, checksum, forgotten;
};
inline constexpr Layout<FixedState, 6> kFixedState({{"kind", &FixedState::kind, 2},
                                                    {"changed", &FixedState::changed, 7},
                                                    {"aux", &FixedState::aux, 6},
                                                    {"units", &FixedState::units, 4},
                                                    {"checksum", &FixedState::checksum, 4},
                                                    {"forgotten", &FixedState::forgotten, 4}});

// Sliding counts begin with this head. The counts follow, the newest slice first.
struct SlicesHead {
  std::uint64_t kind, changed, period, slices, forgotten;
};
inline constexpr Layout<SlicesHead, 5> kSlicesHead({{"kind", &SlicesHead::kind, 2},
                                                    {"changed", &SlicesHead::changed, 7},
                                                    {"period", &SlicesHead::period, 6},
                                                    {"slices", &SlicesHead::slices, 2},
                                                    {"forgotten", &SlicesHead::forgotten, 4}});
inline constexpr Layout<Number, 1> kSliceCount({{"count", &Number::value, 4}});

// A log or a hybrid begins with this head. Then come the blocks, of a long log only; room for
// `space` summaries; and a ring with room for `room` entries, of which the oldest is in slot
// `head`.
struct LogHead {
  std::uint64_t kind, changed, forgotten;
  std::uint64_t kept_until;        // the key does not expire before this time
  std::uint64_t space, summaries;  // of older slices, in a hybrid
  std::uint64_t room, head, count;
  std::uint64_t before, after;                // running sums, without and with all entries
  std::uint64_t oldest, newest, first_sum;    // copies of the first and the last entry's numbers
  std::uint64_t blocks, front, cached, back;  // 0 or 1; used up and held by the front; by the back
};
inline constexpr Layout<LogHead, 18> kLogHead({{"kind", &LogHead::kind, 2},
                                               {"changed", &LogHead::changed, 7},
                                               {"forgotten", &LogHead::forgotten, 4},
                                               {"kept_until", &LogHead::kept_until, 7},
                                               {"space", &LogHead::space, 2},
                                               {"summaries", &LogHead::summaries, 2},
                                               {"room", &LogHead::room, 4},
                                               {"head", &LogHead::head, 4},
                                               {"count", &LogHead::count, 4},
                                               {"before", &LogHead::before, 4},
                                               {"after", &LogHead::after, 4},
                                               {"oldest", &LogHead::oldest, 6},
                                               {"newest", &LogHead::newest, 6},
                                               {"first_sum", &LogHead::first_sum, 4},
                                               {"blocks", &LogHead::blocks, 1},
                                               {"front", &LogHead::front, 1},
                                               {"cached", &LogHead::cached, 1},
                                               {"back", &LogHead::back, 1}});

// The scripts compute with doubles: whole numbers below this one, and sums of two, are exact.
inline constexpr std::uint64_t kExact = std::uint64_t{1} << 52;

// Within a log an instant is stored as its low 48 bits, and a running sum as its low 32 bits.
inline constexpr std::uint64_t kInstantModulus = std::uint64_t{1} << 48;
inline constexpr std::uint64_t kSumModulus = std::uint64_t{1} << 32;

// Units admitted at one instant; `sum` includes them and all before.
struct LogEntry {
  std::uint64_t instant, sum;
};
inline constexpr Layout<LogEntry, 2> kLogEntry({{"instant", &LogEntry::instant, 6},
                                                {"sum", &LogEntry::sum, 4}});

// An older slice of a hybrid.
struct Summary {
  std::uint64_t first, last, units;
};
inline constexpr Layout<Summary, 3> kSummary({{"first", &Summary::first, 6},
                                              {"last", &Summary::last, 6},
                                              {"units", &Summary::units, 4}});

// A long log has two blocks of this many entries after its head: the back with the newest entries,
// which are not in the ring yet, and the front with copies of the oldest entries of the ring. Most
// requests need only the head and the blocks. The front block saves a GETRANGE, 6 to 8 % of a take,
// the back block a SETRANGE, 9 to 15 %; measured by adding such a call, not by removing a block.
inline constexpr std::uint64_t kBlockEntries = 16;
inline constexpr std::uint64_t kBlocksSize = 2 * kBlockEntries * kLogEntry.size();
inline constexpr std::uint64_t kFrontBlock = kLogHead.size() + kBlocksSize / 2;
inline constexpr std::uint64_t kLongHeadSize = kLogHead.size() + kBlocksSize;

// A hybrid, and the log of a limit of at most kWholeLogUnits, is long if it exceeds this size; any
// other log if it exceeds kLongHeadSize. A value that is not long is written as a whole.
inline constexpr std::uint64_t kWholeLogSize = 1088;
inline constexpr std::uint64_t kWholeLogUnits =
    (kWholeLogSize - kLogHead.size()) / kLogEntry.size();

// Permits begin with this head. The permits follow, in the order in which they were taken: this
// record and the name of each.
struct PermitsHead {
  std::uint64_t kind, changed;
  std::uint64_t first_end, last_end;  // the earliest and the latest end of a lease; 0 if none
  std::uint64_t units;                // of all permits
};
inline constexpr Layout<PermitsHead, 5> kPermitsHead({{"kind", &PermitsHead::kind, 2},
                                                      {"changed", &PermitsHead::changed, 7},
                                                      {"first_end", &PermitsHead::first_end, 7},
                                                      {"last_end", &PermitsHead::last_end, 7},
                                                      {"units", &PermitsHead::units, 4}});
struct Permit {
  std::uint64_t end, units;
};
inline constexpr Layout<Permit, 2> kPermit({{"end", &Permit::end, 7},
                                            {"units", &Permit::units, 2}});
inline constexpr std::uint64_t kPermitIdSize = 12;
inline constexpr std::uint64_t kPermitSize = kPermit.size() + kPermitIdSize;

// A budget is a hash. Its field `h` is this head. Fields `o0`, `o1`... are the cells of ids with an
// open hold, `e0`, `e1`... those of ids that have ended. A cell is a list of records: the first
// bytes of the id's name, and these numbers. The first four bytes of the name say the cell.
struct BudgetHead {
  std::uint64_t kind, changed;
  std::uint64_t spent;   // in the window of the last change
  std::uint64_t held;    // by all open holds
  std::uint64_t latest;  // the latest end of a hold since none was open
  std::uint64_t first;   // no open hold ends before
  std::uint64_t known;   // until when an id is known, as `forgotten`
  std::uint64_t forgotten;
  std::uint64_t open;   // how many open holds there are
  std::uint64_t past;   // and holds that have ended, with records in the cells of open ones
  std::uint64_t ended;  // and records of other ids that have ended
  std::uint64_t open_cells, ended_cells;
};
inline constexpr Layout<BudgetHead, 13> kBudgetHead({{"kind", &BudgetHead::kind, 2},
                                                     {"changed", &BudgetHead::changed, 7},
                                                     {"spent", &BudgetHead::spent, 7},
                                                     {"held", &BudgetHead::held, 7},
                                                     {"latest", &BudgetHead::latest, 7},
                                                     {"first", &BudgetHead::first, 7},
                                                     {"known", &BudgetHead::known, 4},
                                                     {"forgotten", &BudgetHead::forgotten, 4},
                                                     {"open", &BudgetHead::open, 2},
                                                     {"past", &BudgetHead::past, 2},
                                                     {"ended", &BudgetHead::ended, 4},
                                                     {"open_cells", &BudgetHead::open_cells, 2},
                                                     {"ended_cells", &BudgetHead::ended_cells, 4}});

// The numbers of an id: the low 48 bits of its amount, the high 5 bits and its kind, and the rest.
// The rest of kSettled and kCancelled is until when it is known, as `forgotten`, and in the next 16
// bits the cost of its hold modulo kCheckModulus, then kWasOver; that of the others is the end of
// the hold.
struct IdNumbers {
  std::uint64_t amount, high, rest;
};
inline constexpr Layout<IdNumbers, 3> kIdNumbers({{"amount", &IdNumbers::amount, 6},
                                                  {"high", &IdNumbers::high, 1},
                                                  {"rest", &IdNumbers::rest, 7}});
inline constexpr std::uint64_t kAmountHigh = std::uint64_t{1} << 48;
inline constexpr std::uint64_t kHoldIdSize = 10;
inline constexpr std::uint64_t kIdRecordSize = kHoldIdSize + kIdNumbers.size();
// A cell is divided if there are more records than this for each.
inline constexpr std::uint64_t kCellRecords = 8;
// How many records of holds that have ended a call moves to the ended ids, about. The others stay
// where they are, so that no call takes long.
inline constexpr std::uint64_t kMostMoved = 250;
// Field `p` of a budget is a list that says how such holds were counted: those that ended until the
// first instant, and after each instant until the next.
struct PastCount {
  std::uint64_t until;
  std::uint64_t releases;  // 1 if they were released, 0 if they were charged
};
inline constexpr Layout<PastCount, 2> kPastCount({{"until", &PastCount::until, 7},
                                                  {"releases", &PastCount::releases, 1}});
inline constexpr std::uint64_t kMostPastCounts = 16;
// The size of the pieces of a long command in a script; Lua's unpack() returns 8,000 values at
// most.
inline constexpr std::uint64_t kMostArguments = 1000;

// The block of a counter begins with this head. The instants of the denials that count follow
// (kInstant), the oldest first.
struct KeyBlockHead {
  std::uint64_t kind, changed;
  std::uint64_t end;    // of the latest block; 0 if there was none
  std::uint64_t grown;  // how long the latest block after denials lasted; 0 if there was none
  std::uint64_t forgotten;
};
inline constexpr Layout<KeyBlockHead, 5> kKeyBlockHead({{"kind", &KeyBlockHead::kind, 2},
                                                        {"changed", &KeyBlockHead::changed, 7},
                                                        {"end", &KeyBlockHead::end, 7},
                                                        {"grown", &KeyBlockHead::grown, 6},
                                                        {"forgotten", &KeyBlockHead::forgotten,
                                                         7}});

// --- calls ---

// The contract of a script, with the size of each number in bytes. docs/reference/state-format.md
// quotes it.
//
//   KEYS[i]      the key of counter i
//   ARGV[1]      the request: verb (1), instant (7), expiry_ms (6)
//   ARGV[1 + i]  counter i: family (1), then by family
//     bucket     cost (6), capacity (4), rate_units (4), rate_ticks (6), checksum (4)
//     interval   cost (6), capacity (4), limit (4), period (6), checksum (4)
//     window     cost (6), capacity (4), period (6), checksum (4), by_clock (1)
//     calendar   cost (6), capacity (4), checksum (4), and of two windows that follow each other:
//                number (1), open (7), close (7), next_close (7)
//     slices     cost (6), capacity (4), period (6), slices (2), oldest_whole (1)
//     log        cost (6), capacity (4), period (6), slices (2)
//     permits    cost (6), capacity (4), lease (6), and the permit (12)
//                and to give back, of the take: instant (7); to reserve: max_wait (7); to take at
//                most the cost with each of several charges: their number on the counter (7)
//                To give back an extension: cost is 0, the instant its own, and lease what was left
//                then.
//     budget     cost (6), cost_high (1), capacity (7), remember (6), holds (2), does (1),
//                releases (1), ttl (6), period (7), the id (10); if the period is 0 four windows
//                that follow each other: number (1), open (7), close (7), second (7), third (7),
//                fourth (7)
//                to give back, of the id as it was: kind (1), amount (7), rest (7); units that were
//                given back: unspent (7); of the call: instant (7)
//                does: 0 no id, 1 take once, 2 hold, 3 settle, 4 cancel, 5 extend
//   reply        instant (7), plus 2^52 if all counters admit; then for each counter: size (2)
//                and that many bytes, the value that was found, empty if there was none; or of a
//     log        at (7), units (5), newest (7), forgotten (4), wait (7), changed (1)
//     permits    at (7), units (4), last_end (7), wait (7), units_after (4), last_after (7),
//                gone (1)
//     budget     at (7), spent (7), held (7), latest (7), open (4), forgotten (4); of the id: kind
//                (1), amount (7), rest (7); if it denies, the first ends of holds from which the
//                charge fits: by_all (7), by_held (7), by_count (7)
//   verb         0 take, 1 peek, 2 refund, 3 reset, 4 give back, 5 charge, 6 reserve,
//                7 take at most, with one charge; 8 with several; 9 release, 10 extend
//
//   Blocks add 64 to the verb. n is the number of counters, 0 for a block alone (without the
//   module), and j of a block.
//   KEYS[n + j]  the key of block j
//   ARGV[n + 2]  for each block: i of its counter (1), flags (1), after (1), within (6), for (6),
//                growth in hundredths (2), at_most (6)
//   reply        then for each block: size (2), 0 if the server had no memory to change it, else
//                1 (1), and the value that was found
//   flags        1 deny if the key is blocked, 2 count a denial of the counter, 4 block for so
//                long, 8 unblock
//
//   For a ledger, the last keys are the streams of the budgets, in the order of the counters, and
//   the last argument is
//                keep (4), after_ms (6), then for each budget: i of its counter (1); each after its
//                size (1): the kind of its entry, if its id says no other; the text of its id; four
//                windows (36) of holds that have ended, if the script has asked for them
//
// The script for one charge without a block at the server's time omits the request and the size. It
// has the verb as an argument (1) after the counter's; without one it is a take. It cannot peek or
// reset.

// The module has one command for all of these except giving back, with the same reply:
//
//   SLUICE.APPLY key... request
//   request      ARGV[1] of a script, the number of counters (1), and the arguments after ARGV[1],
//                in one. Ledgers add 128 to the verb. The number of a family is its number among
//                all: 1 bucket, 2 interval, 3 window, 4 slices, 5 log, 6 hybrid, 7 permits,
//                8 calendar, 9 budget

inline constexpr std::uint64_t kTake = 0;
inline constexpr std::uint64_t kPeek = 1;
inline constexpr std::uint64_t kRefund = 2;
inline constexpr std::uint64_t kReset = 3;
inline constexpr std::uint64_t kGiveBack = 4;
inline constexpr std::uint64_t kCharge = 5;
inline constexpr std::uint64_t kReserve = 6;
inline constexpr std::uint64_t kTakeAtMost = 7;
inline constexpr std::uint64_t kTakeAtMostOfAll = 8;
inline constexpr std::uint64_t kRelease = 9;
inline constexpr std::uint64_t kExtend = 10;

// The verbs by their numbers. Only Plan gives back.
inline constexpr std::array<std::optional<Verb>, 11> kVerbs = {
    Verb::kTake,       Verb::kPeek,    Verb::kRefund,  Verb::kReset,
    std::nullopt,      Verb::kCharge,  Verb::kReserve, Verb::kTakeAtMost,
    Verb::kTakeAtMost, Verb::kRelease, Verb::kExtend};

// Added to the verb of a request with blocks.
inline constexpr std::uint64_t kWithBlocks = 64;
// Added to the verb of a request with budgets in a row.
inline constexpr std::uint64_t kWithRows = 32;
// Added to the verb of a request for the module with ledgers.
inline constexpr std::uint64_t kWithLedgers = 128;

// The instant of a request at the server's time.
inline constexpr std::uint64_t kServerTime = (std::uint64_t{1} << 56) - 1;

// The first argument of any request except a take of one charge at the server's time. `expiry_ms`
// is how long keys are kept if the request has an explicit timestamp.
struct Request {
  std::uint64_t verb, instant, expiry_ms;
};
inline constexpr Layout<Request, 3> kRequest({{"verb", &Request::verb, 1},
                                              {"instant", &Request::instant, 7},
                                              {"expiry_ms", &Request::expiry_ms, 6}});

// The argument of a counter: the number of its family in the script, and one of the records below.
// Three verbs need another number of the size of kInstant at the end: kGiveBack the instant of the
// take or extension, kReserve the longest wait, and kTakeAtMostOfAll the number of charges.
inline constexpr Layout<Number, 1> kFamily({{"family", &Number::value, 1}});
inline constexpr Layout<Number, 1> kCost({{"cost", &Number::value, 6}});  // begins each record

// Added to the number of the family: the charge must not create the counter.
inline constexpr std::uint64_t kMustExist = 0x80;
// Added to the number of the family in a kCharge: the charge is a refund.
inline constexpr std::uint64_t kGivesBack = 0x40;
// Added to the number of the family in a request with budgets in a row: the budget is an
// alternative to the counter before it.
inline constexpr std::uint64_t kAlternative = 0x20;

// More than any limit contains. A sum of it and any state is still exact in a script.
inline constexpr std::uint64_t kCostBeyondAll = std::uint64_t{1} << 40;

// The charge and the limit. The argument of each family has some of these numbers.
struct Argument {
  std::uint64_t cost = 0, cost_high = 0, capacity = 0;
  std::uint64_t rate_units = 0, rate_ticks = 0, limit = 0, period = 0;
  std::uint64_t checksum = 0, by_clock = 0, slices = 0, oldest_whole = 0;
  std::uint64_t remember = 0, holds = 0, does = 0, releases = 0, ttl = 0;  // of budgets
};
inline constexpr Layout<Argument, 5> kBucketArgument({{"cost", &Argument::cost, 6},
                                                      {"capacity", &Argument::capacity, 4},
                                                      {"rate_units", &Argument::rate_units, 4},
                                                      {"rate_ticks", &Argument::rate_ticks, 6},
                                                      {"checksum", &Argument::checksum, 4}});
inline constexpr Layout<Argument, 5> kIntervalArgument({{"cost", &Argument::cost, 6},
                                                        {"capacity", &Argument::capacity, 4},
                                                        {"limit", &Argument::limit, 4},
                                                        {"period", &Argument::period, 6},
                                                        {"checksum", &Argument::checksum, 4}});
inline constexpr Layout<Argument, 5> kFixedWindowArgument({{"cost", &Argument::cost, 6},
                                                           {"capacity", &Argument::capacity, 4},
                                                           {"period", &Argument::period, 6},
                                                           {"checksum", &Argument::checksum, 4},
                                                           {"by_clock", &Argument::by_clock, 1}});
// The windows follow.
inline constexpr Layout<Argument, 3> kCalendarArgument({{"cost", &Argument::cost, 6},
                                                        {"capacity", &Argument::capacity, 4},
                                                        {"checksum", &Argument::checksum, 4}});
inline constexpr Layout<Argument, 5> kSlicesArgument({{"cost", &Argument::cost, 6},
                                                      {"capacity", &Argument::capacity, 4},
                                                      {"period", &Argument::period, 6},
                                                      {"slices", &Argument::slices, 2},
                                                      {"oldest_whole", &Argument::oldest_whole,
                                                       1}});
// A log has 0 slices.
inline constexpr Layout<Argument, 4> kLogArgument({{"cost", &Argument::cost, 6},
                                                   {"capacity", &Argument::capacity, 4},
                                                   {"period", &Argument::period, 6},
                                                   {"slices", &Argument::slices, 2}});
// The name of the permit follows.
inline constexpr Layout<Argument, 3> kPermitsArgument({{"cost", &Argument::cost, 6},
                                                       {"capacity", &Argument::capacity, 4},
                                                       {"lease", &Argument::period, 6}});

// The name of the id follows, and windows if the period is 0.
inline constexpr Layout<Argument, 9> kBudgetArgument({{"cost", &Argument::cost, 6},
                                                      {"cost_high", &Argument::cost_high, 1},
                                                      {"capacity", &Argument::capacity, 7},
                                                      {"remember", &Argument::remember, 6},
                                                      {"holds", &Argument::holds, 2},
                                                      {"does", &Argument::does, 1},
                                                      {"releases", &Argument::releases, 1},
                                                      {"ttl", &Argument::ttl, 6},
                                                      {"period", &Argument::period, 7}});

// What a charge does with its id.
inline constexpr std::uint64_t kWithoutId = 0;
inline constexpr std::uint64_t kTakesOnce = 1;
inline constexpr std::uint64_t kHolds = 2;
inline constexpr std::uint64_t kSettles = 3;
inline constexpr std::uint64_t kCancels = 4;
inline constexpr std::uint64_t kExtends = 5;

// Windows of a calendar that follow each other: when the first opens, and when each closes. The
// number is that of the counter, for a reply that asks for other windows. A budget has four
// windows, for holds of a day; other limits have two.
struct Windows {
  std::uint64_t number = 0, open = 0, close = 0, second = 0, third = 0, fourth = 0;
};
inline constexpr Layout<Windows, 4> kWindows({{"number", &Windows::number, 1},
                                              {"open", &Windows::open, 7},
                                              {"close", &Windows::close, 7},
                                              {"next_close", &Windows::second, 7}});
inline constexpr Layout<Windows, 6> kBudgetWindows({{"number", &Windows::number, 1},
                                                    {"open", &Windows::open, 7},
                                                    {"close", &Windows::close, 7},
                                                    {"second", &Windows::second, 7},
                                                    {"third", &Windows::third, 7},
                                                    {"fourth", &Windows::fourth, 7}});

// Ends the argument to give back what a budget has taken: the id as it was, units that were given
// back, and the instant.
struct BudgetUndo {
  std::uint64_t kind, amount, rest, unspent, instant;
};
inline constexpr Layout<BudgetUndo, 5> kBudgetUndo({{"kind", &BudgetUndo::kind, 1},
                                                    {"amount", &BudgetUndo::amount, 7},
                                                    {"rest", &BudgetUndo::rest, 7},
                                                    {"unspent", &BudgetUndo::unspent, 7},
                                                    {"instant", &BudgetUndo::instant, 7}});

// Begins the argument for a ledger: about how many entries a stream keeps, and for how long it is
// kept after its counter.
struct LedgerArgument {
  std::uint64_t keep, after_ms;
};
inline constexpr Layout<LedgerArgument, 2> kLedgerArgument(
    {{"keep", &LedgerArgument::keep, 4}, {"after_ms", &LedgerArgument::after_ms, 6}});
inline constexpr std::uint64_t kLedgerAfterMs = std::uint64_t{62} * 86'400'000;

// The arguments of all blocks are one argument.
struct KeyBlockArgument {
  std::uint64_t counter, flags, after, within, time, growth, at_most;
};
inline constexpr Layout<KeyBlockArgument, 7> kKeyBlockArgument(
    {{"counter", &KeyBlockArgument::counter, 1},
     {"flags", &KeyBlockArgument::flags, 1},
     {"after", &KeyBlockArgument::after, 1},
     {"within", &KeyBlockArgument::within, 6},
     {"for", &KeyBlockArgument::time, 6},
     {"growth", &KeyBlockArgument::growth, 2},
     {"at_most", &KeyBlockArgument::at_most, 6}});
inline constexpr std::uint64_t kDeniesIfBlocked = 1;
inline constexpr std::uint64_t kCountsDenials = 2;
inline constexpr std::uint64_t kBlocksByHand = 4;
inline constexpr std::uint64_t kUnblocksByHand = 8;

// --- replies ---

// A reply begins with the instant of the decision (kInstant), plus kAdmits if all counters admit.
// For each counter follow its value as the script found it, and before it (except for a take of one
// charge at the server's time) the value's size.
inline constexpr std::uint64_t kAdmits = std::uint64_t{1} << 52;
inline constexpr Layout<Number, 1> kValueSize({{"size", &Number::value, 2}});

// The reply for a log or a hybrid, instead of its value.
struct LogReply {
  std::uint64_t at, units;
  std::uint64_t newest;  // the newest instant that counts
  std::uint64_t forgotten;
  std::uint64_t wait;     // if the log denies the request; of a charge, the units stored before
  std::uint64_t changed;  // 1 if a refund has changed the log
};
inline constexpr Layout<LogReply, 6> kLogReply({{"at", &LogReply::at, 7},
                                                {"units", &LogReply::units, 5},
                                                {"newest", &LogReply::newest, 7},
                                                {"forgotten", &LogReply::forgotten, 4},
                                                {"wait", &LogReply::wait, 7},
                                                {"changed", &LogReply::changed, 1}});

// The reply for permits, instead of their value: the units in flight and the last end of a lease,
// without the change that the verb makes and with it.
struct PermitsReply {
  std::uint64_t at, units, last_end;
  std::uint64_t wait;  // if they deny the request; of an extension, what was left of the lease
  std::uint64_t units_after, last_after;
  std::uint64_t gone;  // 1 if the permit to release or to extend has ended
};
inline constexpr Layout<PermitsReply, 7> kPermitsReply(
    {{"at", &PermitsReply::at, 7},
     {"units", &PermitsReply::units, 4},
     {"last_end", &PermitsReply::last_end, 7},
     {"wait", &PermitsReply::wait, 7},
     {"units_after", &PermitsReply::units_after, 4},
     {"last_after", &PermitsReply::last_after, 7},
     {"gone", &PermitsReply::gone, 1}});

// The reply for a budget, instead of its value: the state at the instant, the id, and if the charge
// is denied, the first ends of holds from which it would fit.
struct BudgetReply {
  std::uint64_t at, spent, held, latest, open, forgotten;
  std::uint64_t kind, amount, rest;
  std::uint64_t by_all, by_held, by_count;
};
inline constexpr Layout<BudgetReply, 12> kBudgetReply({{"at", &BudgetReply::at, 7},
                                                       {"spent", &BudgetReply::spent, 7},
                                                       {"held", &BudgetReply::held, 7},
                                                       {"latest", &BudgetReply::latest, 7},
                                                       {"open", &BudgetReply::open, 4},
                                                       {"forgotten", &BudgetReply::forgotten, 4},
                                                       {"kind", &BudgetReply::kind, 1},
                                                       {"amount", &BudgetReply::amount, 7},
                                                       {"rest", &BudgetReply::rest, 7},
                                                       {"by_all", &BudgetReply::by_all, 7},
                                                       {"by_held", &BudgetReply::by_held, 7},
                                                       {"by_count", &BudgetReply::by_count, 7}});

}  // namespace sluice::redis::format

namespace sluice::redis {

// Returns the window of the calendar at an instant, and the next one, for a counter with this
// number.
inline format::Windows windows_of(const Calendar& calendar, core::Ticks of, std::uint64_t number) {
  const auto ticks = [](Instant instant) {
    return static_cast<std::uint64_t>(instant.time_since_epoch().count());
  };
  const Instant at = std::clamp(Instant{Duration{of}}, kFirstInstant, kLastInstant);
  const Calendar::Window window = calendar.window_at(at);
  const Instant next_close =
      window.end > kLastInstant ? window.end : calendar.window_at(window.end).end;
  return {number, ticks(window.start), ticks(window.end), ticks(next_close)};
}

// As above, with two more windows.
inline format::Windows budget_windows_of(const Calendar& calendar, core::Ticks of,
                                         std::uint64_t number) {
  format::Windows windows = windows_of(calendar, of, number);
  const core::Ticks last =
      std::min(static_cast<core::Ticks>(windows.second), kLastInstant.time_since_epoch().count());
  const format::Windows rest = windows_of(calendar, last, number);
  windows.third = rest.close;
  windows.fourth = rest.second;
  return windows;
}

}  // namespace sluice::redis
