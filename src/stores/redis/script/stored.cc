#include "stores/redis/script/stored.h"

#include <algorithm>

#include "base/quoted.h"
#include "core/limit.h"

namespace sluice::redis {
namespace {

using core::Forgotten;
using core::Ticks;

std::uint64_t number(Ticks ticks) noexcept { return static_cast<std::uint64_t>(ticks); }

std::uint64_t kind_of(StateKind kind) noexcept {
  switch (kind) {
    case StateKind::kBucket: return format::kBucketKind;
    case StateKind::kWindow: return format::kFixedWindowKind;
    case StateKind::kLog: return format::kLogKind;
    case StateKind::kSlices: return format::kSlicesKind;
    case StateKind::kLogAndSummaries: return format::kHybridKind;
    case StateKind::kPermits: return format::kPermitsKind;
    case StateKind::kBudget: return format::kBudgetKind;
  }
  return 0;
}

// Returns when a state is forgotten; nothing if its head is that of no such state.
std::optional<Forgotten> forgotten_of(StateKind kind, const auto& head) noexcept {
  const Forgotten forgotten(static_cast<std::uint32_t>(head.forgotten));
  const bool is_its = head.kind == kind_of(kind) && head.changed < format::kEndOfInstants &&
                      static_cast<Ticks>(head.changed) <= forgotten.from();
  return is_its ? std::optional(forgotten) : std::nullopt;
}

// Whether bytes are a head and a whole number of records.
bool is_list(std::string_view bytes, std::size_t head, std::size_t record) noexcept {
  return bytes.size() >= head && (bytes.size() - head) % record == 0;
}

}  // namespace

// --- buckets and windows ---

std::optional<core::Kept<core::State>> read_state(StateKind kind, std::string_view bytes) noexcept {
  if (bytes.size() != format::kFixedState.size()) return std::nullopt;
  const format::FixedState read = format::kFixedState.read(bytes);
  const auto forgotten = forgotten_of(kind, read);
  if (!forgotten || read.aux >= format::kEndOfSpans) return std::nullopt;
  return core::Kept{core::State{.last = static_cast<Ticks>(read.changed),
                                .aux = read.aux,
                                .units = static_cast<std::uint32_t>(read.units),
                                .tag = static_cast<std::uint32_t>(read.checksum)},
                    *forgotten};
}

void append_state(StateKind kind, const core::State& state, Forgotten forgotten, std::string& out) {
  format::kFixedState.append({.kind = kind_of(kind),
                              .changed = number(state.last),
                              .aux = state.aux,
                              .units = state.units,
                              .checksum = state.tag,
                              .forgotten = forgotten.multiple()},
                             out);
}

// --- sliding counts ---

std::optional<core::Kept<core::Slices>> read_slices(std::string_view bytes,
                                                    std::vector<std::uint32_t>& counts) {
  constexpr std::size_t kCount = format::kSliceCount.size();
  if (!is_list(bytes, format::kSlicesHead.size(), kCount)) return std::nullopt;
  const format::SlicesHead head = format::kSlicesHead.take(bytes);
  const std::size_t held = bytes.size() / kCount;
  const auto forgotten = forgotten_of(StateKind::kSlices, head);
  if (!forgotten || head.period >= format::kEndOfSpans ||
      head.period < number(kMinPeriod.count()) || head.slices < 1 || head.slices > kMaxSlices ||
      held > head.slices + 1) {
    return std::nullopt;
  }
  counts.resize(held);
  for (std::uint32_t& count : counts) {
    count = static_cast<std::uint32_t>(format::kSliceCount.take(bytes).value);
  }
  return core::Kept{core::Slices{counts, static_cast<Ticks>(head.changed),
                                 core::SliceGrid(head.period, head.slices)},
                    *forgotten};
}

void append_slices(core::Slices slices, Forgotten forgotten, std::string& out) {
  while (!slices.counts.empty() && slices.counts.back() == 0) {
    slices.counts = slices.counts.first(slices.counts.size() - 1);
  }
  format::kSlicesHead.append({.kind = format::kSlicesKind,
                              .changed = number(slices.last),
                              .period = slices.grid.period,
                              .slices = slices.grid.slices,
                              .forgotten = forgotten.multiple()},
                             out);
  for (const std::uint32_t count : slices.counts) format::kSliceCount.append({count}, out);
}

// --- logs ---

namespace {

// Returns the first of [low, high) for which is_it() is true, as it is for all after it. Searches
// in the order of the scripts, so that both find the same in a damaged log: in steps that grow by a
// factor, then by halves.
template <typename IsIt>
std::size_t search(std::size_t low, std::size_t high, std::size_t growth, const IsIt& is_it) {
  std::size_t step = 1;
  while (low < high) {
    std::size_t i = low + step - 1;
    if (step == 0 || i >= high) i = low + (high - low) / 2;
    if (is_it(i)) {
      high = i;
      step = 0;
    } else {
      low = i + 1;
      step *= growth;
    }
  }
  return low;
}

bool is_consistent(const format::LogHead& head, std::size_t size, bool is_hybrid) noexcept {
  const std::uint64_t blocks_allowed = is_hybrid ? 0 : 1;
  const std::uint64_t base = format::kLogHead.size() + head.blocks * format::kBlocksSize +
                             head.space * format::kSummary.size();
  return head.blocks <= blocks_allowed && head.summaries <= head.space &&
         (head.space == 0 || is_hybrid) && head.front <= head.cached &&
         head.cached <= format::kBlockEntries && head.back <= format::kBlockEntries * head.blocks &&
         head.back <= head.count && head.count - head.back <= head.room && head.head <= head.room &&
         (head.count > 0 || head.before == head.after) &&
         size == base + head.room * format::kLogEntry.size();
}

}  // namespace

std::optional<LogValue> LogValue::open(StateKind kind, std::string_view value,
                                       std::size_t most) noexcept {
  if (value.size() < format::kLogHead.size()) return std::nullopt;
  LogValue log(0);
  log.head_ = format::kLogHead.read(value);
  const auto forgotten = forgotten_of(kind, log.head_);
  if (!forgotten || !is_consistent(log.head_, value.size(), kind == StateKind::kLogAndSummaries)) {
    return std::nullopt;
  }
  log.last_ = static_cast<Ticks>(log.head_.changed);
  log.value_ = value;
  log.forgotten_ = *forgotten;
  log.base_ = value.size() - log.head_.room * format::kLogEntry.size();
  log.is_whole_ = value.size() <= most;
  return log;
}

// No entry is as old as 2^48 ticks at the last change.
Ticks LogValue::instant(std::uint64_t low) const noexcept {
  return last_ - static_cast<Ticks>(low_bits(last_ - static_cast<Ticks>(low)));
}

LogValue::Entry LogValue::entry(std::size_t i) const noexcept {
  constexpr std::size_t kSize = format::kLogEntry.size();
  const std::size_t in_ring = head_.count - head_.back;
  const std::size_t at = i < in_ring ? base_ + (head_.head + i) % head_.room * kSize
                                     : format::kLogHead.size() + (i - in_ring) * kSize;
  const format::LogEntry read = format::kLogEntry.read(value_.substr(at, kSize));
  return {instant(read.instant), static_cast<std::uint32_t>(read.sum)};
}

bool LogValue::contradicts_ends() const noexcept {
  return is_whole_ && count() > 0 && (entry(0) != oldest() || entry(count() - 1) != newest());
}

std::size_t LogValue::first_after(std::size_t low, Ticks horizon) const noexcept {
  return search(low, count(), is_whole_ ? 1 : 2,
                [&](std::size_t i) { return entry(i).at > horizon; });
}

std::size_t LogValue::first_with(std::size_t low, std::uint32_t since,
                                 std::uint64_t units) const noexcept {
  return search(low, count(), 2, [&](std::size_t i) { return entry(i).sum - since >= units; });
}

// Only a hybrid has summaries, and no blocks.
core::Summary LogValue::summary(std::size_t i) const noexcept {
  const format::Summary read =
      format::kSummary.read(value_.substr(format::kLogHead.size() + i * format::kSummary.size()));
  return {instant(read.first), instant(read.last), static_cast<std::uint32_t>(read.units)};
}

// --- permits ---

core::PermitBuffer* read_permits(std::string_view bytes, std::vector<std::uint64_t>& memory) {
  const bool is_absent = bytes.empty();
  format::PermitsHead head{};
  head.kind = format::kPermitsKind;
  if (!is_absent) {
    if (!is_list(bytes, format::kPermitsHead.size(), format::kPermitSize)) return nullptr;
    head = format::kPermitsHead.take(bytes);
  }
  const std::size_t count = bytes.size() / format::kPermitSize;
  // Only a damaged value has more.
  if (count > kMaxPermitUnits || head.kind != format::kPermitsKind ||
      head.changed >= format::kEndOfInstants || bytes.empty() != (head.units == 0) ||
      head.last_end < head.first_end || head.last_end >= format::kEndOfInstants * 2) {
    return nullptr;
  }
  memory.assign(core::ceil_div(core::PermitBuffer::bytes_for(count + 1), sizeof(std::uint64_t)), 0);
  auto& out = *reinterpret_cast<core::PermitBuffer*>(memory.data());
  out.room = static_cast<std::uint32_t>(count + 1);
  out.last = static_cast<Ticks>(head.changed);
  out.first_end = static_cast<Ticks>(head.first_end);
  out.last_end = static_cast<Ticks>(head.last_end);
  out.units = static_cast<std::uint32_t>(head.units);
  while (!bytes.empty()) {
    const format::Permit permit = format::kPermit.take(bytes);
    PermitId::Bytes name;
    std::copy_n(bytes.begin(), name.size(), name.begin());
    bytes.remove_prefix(name.size());
    out.begin()[out.count++] = {static_cast<Ticks>(permit.end), PermitId(name),
                                static_cast<std::uint32_t>(permit.units)};
  }
  return &out;
}

void append_permits(const core::Permits& permits, std::string& out) {
  format::kPermitsHead.append({.kind = format::kPermitsKind,
                               .changed = number(permits.last),
                               .first_end = number(permits.first_end),
                               .last_end = number(permits.last_end),
                               .units = permits.units},
                              out);
  for (const core::PermitEntry& entry : permits.entries) {
    format::kPermit.append({number(entry.end), entry.units}, out);
    for (const std::uint8_t byte : entry.id.bytes()) out += static_cast<char>(byte);
  }
}

// --- budgets ---

std::optional<format::BudgetHead> read_budget_head(std::string_view bytes) noexcept {
  if (bytes.size() != format::kBudgetHead.size()) return std::nullopt;
  const format::BudgetHead head = format::kBudgetHead.read(bytes);
  const bool is_head = forgotten_of(StateKind::kBudget, head) && head.spent <= kMaxAmount &&
                       head.held <= kMaxAmount && head.open_cells >= 1 && head.ended_cells >= 1 &&
                       (head.open_cells - 1) * format::kCellRecords <= kMaxHolds;
  return is_head ? std::optional(head) : std::nullopt;
}

bool read_ids(std::string_view bytes, std::vector<core::IdRecord>& ids) {
  if (bytes.size() % format::kIdRecordSize != 0) return false;
  for (; !bytes.empty(); bytes.remove_prefix(format::kIdNumbers.size())) {
    PermitId::Bytes name{};
    std::copy_n(bytes.begin(), format::kHoldIdSize, name.begin());
    bytes.remove_prefix(format::kHoldIdSize);
    const format::IdNumbers read = format::kIdNumbers.read(bytes);
    ids.emplace_back(core::HoldName(PermitId(name)), static_cast<core::IdKind>(read.high / 32),
                     read.amount + read.high % 32 * format::kAmountHigh, read.rest);
  }
  return true;
}

void append_ids(std::span<const core::IdRecord> ids, std::string& out) {
  for (const core::IdRecord& id : ids) {
    for (const std::uint8_t byte : id.name().bytes()) out += static_cast<char>(byte);
    format::kIdNumbers.append(
        {.amount = id.amount() % format::kAmountHigh,
         .high = id.amount() / format::kAmountHigh + static_cast<std::uint64_t>(id.kind()) * 32,
         .rest = id.rest()},
        out);
  }
}

// --- blocks ---

std::optional<core::BlockState> read_block(std::string_view bytes, std::vector<Ticks>& denials) {
  denials.clear();
  if (!is_list(bytes, format::kKeyBlockHead.size(), format::kInstant.size())) return std::nullopt;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(bytes);
  if (head.kind != format::kKeyBlockKind || head.changed >= format::kEndOfInstants ||
      head.grown >= format::kEndOfSpans) {
    return std::nullopt;
  }
  while (!bytes.empty()) {
    denials.push_back(static_cast<Ticks>(format::kInstant.take(bytes).value));
  }
  return core::BlockState{.last = static_cast<Ticks>(head.changed),
                          .end = static_cast<Ticks>(head.end),
                          .grown = static_cast<Ticks>(head.grown),
                          .forgotten = static_cast<Ticks>(head.forgotten),
                          .denials = denials};
}

void append_block(const core::NextBlock& next, const core::BlockState& before, std::string& out) {
  format::kKeyBlockHead.append({.kind = format::kKeyBlockKind,
                                .changed = number(next.state.last),
                                .end = number(next.state.end),
                                .grown = number(next.state.grown),
                                .forgotten = number(next.state.forgotten)},
                               out);
  for (const Ticks denial : before.denials.subspan(next.expired)) {
    format::kInstant.append({number(denial)}, out);
  }
  if (next.adds) format::kInstant.append({number(next.state.last)}, out);
}

// --- entries of ledgers ---

std::optional<LedgerEntry> read_ledger_entry(const Reply& fields) noexcept {
  LedgerEntry entry;
  bool is_read = true;
  const auto read = [&](std::string_view name, auto& number) {
    const auto value = base::read_number<std::remove_cvref_t<decltype(number)>>(fields.field(name));
    is_read = is_read && value;
    number = value.value_or(0);
  };
  const auto read_instant = [&](std::string_view name, Instant& instant) {
    Ticks at = 0;
    read(name, at);
    instant = Instant{Duration{at}};
  };
  const auto* const kind = std::ranges::find(kLedgerKinds, fields.field("kind"));
  if (kind == kLedgerKinds.end()) return std::nullopt;
  entry.kind = static_cast<LedgerKind>(kind - kLedgerKinds.begin());
  read_instant("at", entry.at);
  read_instant("window", entry.window);
  if (!fields.field("ends").empty()) read_instant("ends", entry.ends);
  read("limit", entry.limit);
  read("spent", entry.spent);
  read("held", entry.held);
  read("spent_after", entry.spent_after);
  read("held_after", entry.held_after);
  if (fields.field("on_expiry") == "release") entry.on_expiry = OnExpiry::kRelease;
  entry.is_new = !fields.field("new").empty();
  entry.id = fields.field("id");
  if (const std::string_view hash = fields.field("hash"); !hash.empty()) {
    if (hash.size() != format::kHoldIdSize) return std::nullopt;
    entry.hash.emplace();
    std::copy(hash.begin(), hash.end(), entry.hash->begin());
  }
  return is_read ? std::optional(entry) : std::nullopt;
}

std::vector<std::string> fields_of(const LedgerEntry& entry) {
  std::vector<std::string> fields;
  const auto add = [&](std::string_view name, std::string value) {
    fields.emplace_back(name);
    fields.push_back(std::move(value));
  };
  const auto ticks = [](Instant at) { return std::to_string(at.time_since_epoch().count()); };
  add("kind", std::string(kLedgerKinds[static_cast<std::size_t>(entry.kind)]));
  add("at", ticks(entry.at));
  add("spent", std::to_string(entry.spent));
  add("spent_after", std::to_string(entry.spent_after));
  add("held", std::to_string(entry.held));
  add("held_after", std::to_string(entry.held_after));
  add("limit", std::to_string(entry.limit));
  add("window", ticks(entry.window));
  if (entry.hash) add("hash", std::string(entry.hash->begin(), entry.hash->end()));
  const bool is_hold = entry.kind == LedgerKind::kHold;
  if (is_hold || entry.kind == LedgerKind::kExtend) add("ends", ticks(entry.ends));
  if (is_hold) add("on_expiry", std::string(core::to_string(entry.on_expiry)));
  if (entry.is_new) add("new", "1");
  if (!entry.id.empty()) add("id", std::string(entry.id));
  return fields;
}

}  // namespace sluice::redis
