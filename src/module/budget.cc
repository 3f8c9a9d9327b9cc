// Budgets, which are hashes: reads the cells that a request needs, decides with core, and changes
// the same cells in the same way as the scripts do (stores/redis/script/budget.lua).

#include "core/budget.h"

#include <algorithm>
#include <bit>
#include <map>

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
  void write(format::BudgetHead head, std::vector<Field>& fields) {
    head.kind = format::kBudgetKind;
    head.open = open_.records;
    head.past = past_;
    head.ended = ended_.records;
    head.open_cells = open_.count;
    head.ended_cells = ended_.count;
    format::kBudgetHead.append(head, fields.emplace_back("h", "").value);
    for (const Table* const table : {&open_, &ended_}) {
      for (const auto& [number, cell] : table->cells) {
        if (!cell.is_changed) continue;
        redis::append_ids(cell.ids, fields.emplace_back(table->field(number), "").value);
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
    const bool charges = limit_.on_expiry() == OnExpiry::kCharge;
    put(ended_,
        {hold.name(), charges ? IdKind::kCharged : IdKind::kReleased, hold.amount(), hold.rest()},
        at);
  }

  const Limit& limit_;
  const ReadField& read_;
  bool is_new_ = true;
  bool is_damaged_ = false;
  Table open_{.letter = 'o'};
  Table ended_{.letter = 'e'};
  std::uint64_t past_ = 0;  // holds that have ended, in the cells of open ones
};

}  // namespace
}  // namespace sluice::redis_module
