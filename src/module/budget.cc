// Budgets, which are hashes: reads the cells that a request needs, decides with core, and changes
// the same cells in the same way as the scripts do (stores/redis/script/budget.lua).

#include "core/budget.h"

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/limit.h"
#include "module/request.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/stored.h"

namespace sluice::redis_module {
namespace {

namespace format = redis::format;
using core::Budget;
using core::HoldName;
using core::IdKind;
using core::IdRecord;
using core::NextBudget;
using core::OpenHold;
using core::Ticks;

Ticks end_of(const IdRecord& hold) noexcept { return static_cast<Ticks>(hold.rest()); }
std::uint64_t number(Ticks ticks) noexcept { return static_cast<std::uint64_t>(ticks); }

// The ids of a cell, as stored.h has them.
struct Cell {
  std::vector<IdRecord> ids;
  bool is_changed = false;

  auto find(const HoldName& name) {
    return std::find_if(ids.begin(), ids.end(),
                        [&](const IdRecord& id) { return id.name() == name; });
  }
};

// The cells of open ids, or of those that have ended, by linear hashing. In `cells` are those that
// have been read.
struct Table {
  char letter;
  std::uint64_t count = 1;    // of cells
  std::uint64_t records = 0;  // of open holds, or of ended ids
  std::map<std::uint64_t, Cell> cells = {};

  std::string field(std::uint64_t number) const {
    return std::string(1, letter).append(std::to_string(number));
  }
  std::uint64_t number_of(std::uint64_t hash) const noexcept {
    const std::uint64_t size = std::bit_ceil(count);
    const std::uint64_t number = hash % size;
    return number < count ? number : number - size / 2;
  }
};

std::uint32_t hash_of(const HoldName& name) noexcept {
  return static_cast<std::uint32_t>(name.first);
}

// The holds of a counter.
struct Holds {
  std::vector<IdRecord> ids;
  std::vector<OpenHold> open;  // with those that have ended since the last change
  std::vector<HoldName> past;  // some that have ended
  std::uint64_t live = 0;
  std::uint64_t ended = 0;

  void add(const IdRecord& id) {
    open.push_back({end_of(id), static_cast<std::uint32_t>(ids.size())});
    ids.push_back(id);
  }
};

// A counter: its head, and the cells that the call needs.
class Ids {
 public:
  Ids(const Limit& limit, const ReadField& read) noexcept : limit_(limit), read_(read) {}

  // The counter is not a new one.
  void begin(const format::BudgetHead& head) noexcept {
    is_new_ = false;
    open_.count = head.open_cells;
    open_.records = head.open;
    ended_.count = head.ended_cells;
    ended_.records = head.ended;
    past_ = head.past;
    if (past_ > 0) past_counts_ = read_("p");
  }
  bool is_new() const noexcept { return is_new_; }
  // Whether a cell is no list of ids, or lacks an id that must be in it.
  bool is_damaged() const noexcept { return is_damaged_; }
  std::uint64_t open() const noexcept { return open_.records; }

  // Reads all open holds. Of those that had ended by the last change, only their cells are open.
  Holds scan(Ticks at, Ticks last) {
    Holds holds;
    for (std::uint64_t i = 0; i < open_.count; ++i) {
      for (const IdRecord& id : cell(open_, i).ids) {
        if (end_of(id) > last) holds.add(id);
        ++(end_of(id) > at ? holds.live : holds.ended);
        if (end_of(id) <= at && holds.ended <= format::kMostMoved) holds.past.push_back(id.name());
      }
    }
    return holds;
  }
  // Counts the holds of scan(). Returns false if they are not those of the head.
  bool note(const Holds& holds) noexcept {
    const bool is_right = holds.live + holds.ended == open_.records + past_;
    open_.records = holds.live;
    past_ = holds.ended;
    has_counted_ = true;
    return is_right;
  }

  // Returns the id; or one of another kind if the counter does not know it.
  IdRecord find(const HoldName& name, Ticks at) {
    if (open_.records > 0 || past_ > 0) {
      Cell& cell = cell_of(open_, name);
      const auto found = cell.find(name);
      if (found != cell.ids.end() && end_of(*found) > at) return *found;
      if (found != cell.ids.end()) move(*found, at);
    }
    if (ended_.records == 0) return {};
    Cell& cell = cell_of(ended_, name);
    const auto found = cell.find(name);
    if (found == cell.ids.end()) return {};
    is_damaged_ |= found->kind() == IdKind::kOpen;
    return is_damaged_ ? IdRecord() : *found;
  }

  void put_open(const IdRecord& id, Ticks at) { put(open_, id, at); }
  void put_ended(const IdRecord& id, Ticks at) { put(ended_, id, at); }
  void take_out_open(const HoldName& name) { take_out(name, open_.records); }

  // Moves some of the holds that have ended to the ended ids, so that no call takes long: of the
  // cell that an opened hold chooses, and those that a scan has found. Not the id itself, which was
  // moved before, or is open again.
  void move_past(const std::vector<HoldName>& past, const HoldName* opened, const HoldName& own,
                 Ticks at) {
    const std::uint64_t left = past_ - std::min(past_, format::kMostMoved);
    if (opened != nullptr && past_ > 0) {
      const std::uint64_t any = number(at) + (opened->first >> 32);
      const std::vector<IdRecord> all = cell(open_, any % open_.count).ids;
      for (const IdRecord& id : all) {
        if (end_of(id) <= at) move(id, at);
      }
    }
    for (const HoldName& name : past) {
      if (past_ <= left) break;
      Cell& cell = cell_of(open_, name);
      const auto found = cell.find(name);
      if (!(name == own) && found != cell.ids.end()) move(*found, at);
    }
  }

  // Completes the head with its own numbers, and appends the fields that change.
  void write(format::BudgetHead head, Fields& fields) {
    head.kind = format::kBudgetKind;
    head.open = open_.records;
    head.past = past_;
    head.ended = ended_.records;
    head.open_cells = open_.count;
    head.ended_cells = ended_.count;
    format::kBudgetHead.append(head, fields.emplace_back("h", "").second);
    if (has_counted_ && past_ > 0) fields.emplace_back("p", next_past_counts(head.changed));
    for (const Table* const table : {&open_, &ended_}) {
      for (const auto& [number, cell] : table->cells) {
        if (!cell.is_changed) continue;
        redis::append_ids(cell.ids, fields.emplace_back(table->field(number), "").second);
      }
    }
  }

 private:
  Cell& cell(Table& table, std::uint64_t number) {
    const auto [at, is_first] = table.cells.try_emplace(number);
    Cell& cell = at->second;
    if (is_first && !is_new_) is_damaged_ |= !redis::read_ids(read_(table.field(number)), cell.ids);
    return cell;
  }
  Cell& cell_of(Table& table, const HoldName& name) {
    return cell(table, table.number_of(hash_of(name)));
  }

  // Replaces the record of its id, or adds it. If there are many records, those of ids that are not
  // known any more leave the cell; if they are few, there is one more cell.
  void put(Table& table, const IdRecord& id, Ticks at) {
    Cell& cell = cell_of(table, id.name());
    cell.is_changed = true;
    if (const auto found = cell.find(id.name()); found != cell.ids.end()) {
      *found = id;
      return;
    }
    cell.ids.push_back(id);
    if (++table.records <= table.count * format::kCellRecords) return;
    if (&table == &ended_) {
      const std::size_t size = cell.ids.size();
      const std::size_t gone = std::erase_if(
          cell.ids, [&](const IdRecord& one) { return !core::budget::is_known(one, limit_, at); });
      table.records -= std::min<std::uint64_t>(table.records, gone);
      if (gone * 4 >= size) return;
    }
    split(table);
  }
  // Moves the records of a cell that belong to a new one, the next.
  void split(Table& table) {
    const std::uint64_t joined = table.count;
    const std::uint64_t size = std::bit_ceil(joined + 1);
    Cell& from = cell(table, joined - size / 2);
    Cell& to = table.cells[joined] = Cell{.ids = {}, .is_changed = true};
    const auto stays = [&](const IdRecord& id) { return hash_of(id.name()) % size != joined; };
    const auto moved = std::stable_partition(from.ids.begin(), from.ids.end(), stays);
    to.ids.assign(moved, from.ids.end());
    from.ids.erase(moved, from.ids.end());
    from.is_changed = true;
    ++table.count;
  }
  void take_out(const HoldName& name, std::uint64_t& counted) {
    Cell& cell = cell_of(open_, name);
    const auto found = cell.find(name);
    is_damaged_ |= found == cell.ids.end() || counted == 0;
    if (is_damaged_) return;
    cell.ids.erase(found);
    cell.is_changed = true;
    --counted;
  }
  // Moves a hold that has ended to the ended ids.
  void move(IdRecord hold, Ticks at) {
    take_out(hold.name(), past_);
    const IdKind kind = was_released(hold.rest()) ? IdKind::kReleased : IdKind::kCharged;
    put(ended_, {hold.name(), kind, hold.amount(), hold.rest()}, at);
  }
  bool releases() const noexcept { return limit_.on_expiry() == OnExpiry::kRelease; }
  bool was_released(std::uint64_t end) const noexcept {
    for (std::string_view rest = past_counts_; rest.size() >= format::kPastCount.size();) {
      const format::PastCount count = format::kPastCount.take(rest);
      if (end <= count.until) return count.releases == 1;
    }
    return releases();
  }
  // Notes that those that have ended until `at` are counted.
  std::string next_past_counts(std::uint64_t at) const {
    constexpr std::size_t kSize = format::kPastCount.size();
    std::string counts = past_counts_;
    const char by = releases() ? '\1' : '\0';
    if (counts.size() >= kSize && counts.back() == by) counts.resize(counts.size() - kSize);
    format::kPastCount.append({.until = at, .releases = releases() ? 1U : 0U}, counts);
    const std::size_t most = kSize * format::kMostPastCounts;
    return counts.size() > most ? counts.substr(counts.size() - most) : counts;
  }

  const Limit& limit_;
  const ReadField& read_;
  bool is_new_ = true;
  bool is_damaged_ = false;
  Table open_{.letter = 'o'};
  Table ended_{.letter = 'e'};
  std::uint64_t past_ = 0;    // holds that have ended, in the cells of open ones
  std::string past_counts_;   // how those were counted, as the field says
  bool has_counted_ = false;  // those that have ended since the last change
};

// The bounds of the windows that a request brings, and before them those of holds that have ended.
std::vector<Ticks> bounds_of(const Asked& asked) {
  std::vector<Ticks> bounds;
  const auto add = [&](const format::Windows& windows, std::uint64_t end) {
    for (const std::uint64_t bound :
         {windows.open, windows.close, windows.second, windows.third, windows.fourth}) {
      if (bound < end) bounds.push_back(static_cast<Ticks>(bound));
    }
  };
  if (!asked.windows) return bounds;
  if (asked.past) add(*asked.past, asked.windows->open);
  add(*asked.windows, 2 * format::kEndOfInstants);
  return bounds;
}

// Returns the first ends of holds from which a denied cost may fit; 0 for those that do not matter.
core::BudgetEnds ends_of(const core::budget::Asked& asked, bool holds, std::uint64_t cost,
                         Ids& ids) {
  const Limit& limit = asked.limit;
  const core::budget::Live& live = asked.live;
  const bool releases = limit.on_expiry() == OnExpiry::kRelease;
  const std::uint64_t room = limit.capacity() - cost;
  const bool fits = live.used() <= room;
  const bool is_full = holds && live.open >= limit.holds();
  const std::uint64_t all =
      !fits && releases && live.spent <= room ? live.held - (room - live.spent) : 0;
  std::uint64_t of_held = !fits && live.held > room ? live.held - room : 0;
  const std::uint64_t count = is_full ? live.open - limit.holds() + 1 : 0;
  core::BudgetEnds ends;
  // Where a hold that has ended is spent, only the window in which it ends matters.
  if (!releases && of_held > 0 &&
      live.latest < core::budget::window_end(limit, asked.budget.bounds, live.at)) {
    ends.by_held = live.latest;
    of_held = 0;
  }
  if (all == 0 && of_held == 0 && count == 0) return ends;
  Holds found = ids.scan(live.at, live.at);
  std::vector<OpenHold>& open = found.open;
  std::sort(open.begin(), open.end(),
            [](const OpenHold& a, const OpenHold& b) { return a.end < b.end; });
  std::uint64_t units = 0;
  for (std::size_t i = 0; i < open.size(); ++i) {
    units += found.ids[open[i].record].amount();
    if (ends.by_all == 0 && all > 0 && units >= all) ends.by_all = open[i].end;
    if (ends.by_held == 0 && of_held > 0 && units >= of_held) ends.by_held = open[i].end;
    if (i + 1 == count) ends.by_count = open[i].end;
    const bool has_units = (all == 0 || ends.by_all > 0) && (of_held == 0 || ends.by_held > 0);
    if (has_units && i + 1 >= count) break;
  }
  return ends;
}

// Returns the end of a hold that has ended in a window that is not known; 0 if there is none.
Ticks unknown_end(const Budget& before, Ticks at) noexcept {
  Ticks first = before.bounds.empty() ? 0 : before.bounds.front();
  Ticks unknown = 0;
  for (const OpenHold& hold : before.holds) {
    if (hold.end <= at && hold.end < first) unknown = first = hold.end;
  }
  return unknown;
}

// One call on one counter: read() -> look() -> decide() -> write(). Core records its change as
// entries for the ledger.
class BudgetCall final : private Ledger {
 public:
  BudgetCall(const Asked& asked, const ReadField& read, Outcome& outcome)
      : asked_(asked),
        limit_(asked.limit),
        read_(read),
        outcome_(outcome),
        ids_(limit_, read_),
        bounds_(bounds_of(asked)) {}

  // Reads the head. Returns false if the value is something else.
  bool read(Ticks now) {
    const auto head = redis::read_budget_head(read_("h"));
    if (!head) return false;
    const core::Forgotten known(static_cast<std::uint32_t>(head->forgotten));
    outcome_.replaces_fields = known.is_past(now);
    if (outcome_.replaces_fields) return true;
    ids_.begin(*head);
    known_.forgotten = known;
    before_ = {.last = static_cast<Ticks>(head->changed),
               .spent = head->spent,
               .held = head->held,
               .first = static_cast<Ticks>(head->first),
               .latest = static_cast<Ticks>(head->latest),
               .known = static_cast<std::uint32_t>(head->known)};
    return true;
  }

  // Reads the id, and all open holds if one of them may have ended. Returns false if it cannot
  // decide.
  bool look(Ticks now, bool has_id) {
    const Ticks at = core::effective(now, before_.last);
    outcome_.at = at;
    // The scripts need the instant in one of the first two windows.
    const auto& windows = asked_.windows;
    if (windows && (number(at) < windows->open || number(at) >= windows->second)) {
      outcome_.result = Result::kWindow;
      return false;
    }
    const bool scans = ids_.open() > 0 && before_.first <= at;
    if (scans) holds_ = ids_.scan(at, before_.last);
    if (scans && !ids_.note(holds_)) return false;
    if (has_id) find_id(at, scans);
    before_.holds = holds_.open;
    before_.records = holds_.ids.data();
    if (!scans) before_.unread = ids_.open() - std::min(ids_.open(), holds_.open.size());
    before_.bounds = bounds_;
    before_.ends = &ends_;
    known_.live = core::budget::advance(limit_, before_, now);
    if (known_.live.open == 0) known_.live.latest = 0;
    core::budget::find_id(known_);
    return true;
  }

  void decide(Action action, std::uint64_t cost) {
    if (action.verb == Verb::kReset) {
      made_ = {core::untouched(limit_), core::Change::kErase, known_.live.at, {}};
    } else {
      made_ = core::budget::decide(action, known_, cost);
      if (action.verb == Verb::kTakeAtMost) {
        cost = core::units_at_most(limit_, known_.live.used(), cost);
      }
      const bool may_wait = asks(action.verb) && !made_.answer.admitted && !made_.answer.conflict;
      if (may_wait && cost <= limit_.capacity()) {
        ends_ = ends_of(known_, action.verb == Verb::kHold, cost, ids_);
        made_ = core::budget::decide(action, known_, cost);
      }
    }
    outcome_.result = Result::kDecided;
    outcome_.answer = made_.answer;
    outcome_.change = made_.change;
    outcome_.knows_id = made_.next.knows_id;
  }

  void write(Verb verb, bool is_absent) {
    if (!is_absent) append_reply();
    const bool writes = made_.change == core::Change::kWrite;
    if (writes) write_next();
    const bool erases = made_.change == core::Change::kErase && !ids_.is_new();
    if (asked_.ledger && (writes || erases)) write_entries(verb);
    const bool is_damaged =
        ids_.is_damaged() || known_.live.held > kMaxAmount || made_.next.held > kMaxAmount;
    if (is_damaged) outcome_.result = Result::kForeign;
  }

 private:
  // In write_entries(), which has reserved the memory.
  void add(const LedgerEntry& entry) noexcept override { entries_.push_back(entry); }

  void find_id(Ticks at, bool scans) {
    found_ = ids_.find(HoldName(asked_.permit), at);
    if (found_.kind() == IdKind::kOpen) {
      if (!scans) holds_.add(found_);
      const auto index = static_cast<std::uint64_t>(
          std::find_if(holds_.ids.begin(), holds_.ids.end(),
                       [&](const IdRecord& id) { return id.name() == found_.name(); }) -
          holds_.ids.begin());
      found_ = {found_.name(), IdKind::kOpen, found_.amount(), index};
    }
    before_.asked = &asked_.permit;
    if (found_.kind() != IdKind::kUnknown) before_.found = &found_;
  }

  void append_reply() {
    const bool is_known = known_.kind != IdKind::kUnknown;
    std::uint64_t rest = 0;
    if (is_known) rest = known_.is_decided() ? found_.rest() : number(known_.end);
    format::kBudgetReply.append({.at = number(known_.live.at),
                                 .spent = known_.live.spent,
                                 .held = known_.live.held,
                                 .latest = number(known_.live.latest),
                                 .open = known_.live.open,
                                 .forgotten = known_.forgotten.multiple(),
                                 .kind = static_cast<std::uint64_t>(known_.kind),
                                 .amount = is_known ? known_.amount : 0,
                                 .rest = rest,
                                 .by_all = number(ends_.by_all),
                                 .by_held = number(ends_.by_held),
                                 .by_count = number(ends_.by_count)},
                                outcome_.reply);
  }

  // Makes the fields of the next state.
  void write_next() {
    const NextBudget& next = made_.next;
    const bool opens = next.change == NextBudget::Change::kOpen;
    const HoldName name = next.record.name();
    Ticks first = known_.live.first;
    if (opens || next.change == NextBudget::Change::kExtend) {
      ids_.put_open({name, IdKind::kOpen, next.record.amount(), number(next.end)}, made_.at);
      if (ids_.open() == 1 || next.end < first) first = next.end;
    } else if (next.change == NextBudget::Change::kSettle) {
      if (known_.kind == IdKind::kOpen) ids_.take_out_open(name);
      ids_.put_ended(next.record, made_.at);
    }
    ids_.move_past(holds_.past, opens ? &name : nullptr, name, made_.at);
    format::BudgetHead head{};
    head.changed = number(made_.at);
    head.spent = next.spent;
    head.held = next.held;
    if (ids_.open() > 0) head.latest = number(next.latest);
    if (ids_.open() > 0) head.first = number(first);
    head.known = next.known;
    head.forgotten = next.forgotten.multiple();
    ids_.write(head, outcome_.fields);
    outcome_.keep_until = static_cast<Ticks>(next.forgotten.multiple() * format::kForgottenUnit);
  }

  void write_entries(Verb verb) {
    outcome_.unknown_end = unknown_end(before_, made_.at);
    if (outcome_.unknown_end > 0) {
      outcome_.result = Result::kWindow;
      return;
    }
    entries_.reserve(before_.holds.size() + 1);
    core::budget::record(verb, limit_, before_, made_.next, made_.at,
                         {.is_new = ids_.is_new(), .id = *asked_.ledger}, *this);
    for (const LedgerEntry& entry : entries_) outcome_.entries.push_back(redis::fields_of(entry));
  }

  const Asked& asked_;
  const Limit& limit_;
  const ReadField& read_;
  Outcome& outcome_;
  Ids ids_;
  std::vector<Ticks> bounds_;
  Holds holds_;
  IdRecord found_;
  Budget before_;
  core::BudgetEnds ends_;
  core::budget::Asked known_{limit_, before_, core::Forgotten(core::Forgotten::kNever), {}};
  core::budget::Made made_{};
  std::vector<LedgerEntry> entries_;
};

}  // namespace

void decide_budget(Action action, const Asked& asked, std::uint64_t cost, bool is_absent,
                   const ReadField& read, Ticks now, Outcome& outcome) {
  outcome.clear();
  outcome.replaces_found = true;
  outcome.result = Result::kForeign;
  BudgetCall call(asked, read, outcome);
  if (!is_absent && !call.read(now)) return;
  if (!call.look(now, asked.with_id && action.verb != Verb::kReset)) return;
  call.decide(action, cost);
  call.write(action.verb, is_absent);
}

}  // namespace sluice::redis_module
