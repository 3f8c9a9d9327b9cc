#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/step.h"
#include "sluice/permit_id.h"

namespace sluice::core {

// The first 80 bits of the name of a hold, by which a counter knows it.
struct HoldName {
  std::uint64_t first = 0;
  std::uint16_t rest = 0;

  constexpr HoldName() = default;
  constexpr explicit HoldName(const PermitId& id) noexcept {
    const PermitId::Bytes bytes = id.bytes();
    for (std::size_t i = 8; i-- > 0;) first = first << 8 | bytes[i];
    rest = static_cast<std::uint16_t>(bytes[9] << 8 | bytes[8]);
  }

  friend constexpr bool operator==(const HoldName&, const HoldName&) = default;
};

// What a counter knows of an id. kCharged, kReleased: its hold has ended with its time.
enum class IdKind : std::uint8_t { kUnknown, kOpen, kSettled, kCharged, kReleased };

// An id in 24 bytes: its name, its kind and an amount; and 56 bits more: of kOpen the index of its
// hold, of kSettled until when it is known and the check of its cost, else the end of its hold.
class IdRecord {
 public:
  constexpr IdRecord() = default;
  constexpr IdRecord(const HoldName& name, IdKind kind, std::uint64_t amount,
                     std::uint64_t rest) noexcept
      : first_(name.first),
        amount_(amount | static_cast<std::uint64_t>(kind) << kAmountBits | rest >> 48 << 56),
        rest_(name.rest | rest << 16) {}

  constexpr HoldName name() const noexcept {
    HoldName name;
    name.first = first_;
    name.rest = static_cast<std::uint16_t>(rest_);
    return name;
  }
  constexpr IdKind kind() const noexcept { return static_cast<IdKind>(amount_ >> kAmountBits & 7); }
  constexpr std::uint64_t amount() const noexcept { return amount_ & kMaxAmount; }
  constexpr std::uint64_t rest() const noexcept { return rest_ >> 16 | amount_ >> 56 << 48; }

 private:
  static constexpr unsigned kAmountBits = 53;

  std::uint64_t first_ = 0;
  std::uint64_t amount_ = 0;
  std::uint64_t rest_ = 0;
};
static_assert(sizeof(IdRecord) == 24);

// A hold that has not been settled.
struct OpenHold {
  Ticks end = 0;
  std::uint32_t record = 0;  // the place of its id
};
static_assert(sizeof(OpenHold) == 16);

// A view of a counter of a budget in the caller's memory.
struct Budget {
  Ticks last = 0;           // of the last change
  std::uint64_t spent = 0;  // in the window of the last change
  std::uint64_t held = 0;   // by all open holds
  Ticks first = 0;          // no hold ends before; if there is one
  Ticks latest = 0;         // the latest end of a hold since there was none
  std::uint32_t known = 0;  // until when an id is known, as Forgotten::multiple()
  std::span<const OpenHold> holds = {};
  const IdRecord* records = nullptr;
  const PermitId* asked = nullptr;  // the id of the request
  const IdRecord* found = nullptr;  // its record, if there is one

  constexpr std::uint64_t cost(const OpenHold& hold) const noexcept {
    return records[hold.record].amount();
  }
};

// The next state, as BudgetBuffer::write() makes it.
struct NextBudget {
  enum class Change : std::uint8_t {
    kNumbers,  // of none of its ids
    kOpen,     // the id has a hold until `end`
    kExtend,   // the hold of the id ends at `end`
    kSettle,   // the id is settled: `record`
  };

  Change change = Change::kNumbers;
  bool expires = false;  // holds that have ended leave
  OnExpiry on_expiry = OnExpiry::kCharge;
  bool adds_record = false;
  std::uint32_t known = 0;
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  Ticks latest = 0;
  Ticks end = 0;
  IdRecord record = {};
  Forgotten forgotten = {};
};

// A counter of a budget in one piece of the caller's memory: this header, a table of ids, then the
// open holds. Plain memory without a destructor.
struct BudgetBuffer {
  Ticks last = 0;
  std::uint64_t spent = 0;
  std::uint64_t held = 0;
  Ticks first = 0;
  Ticks latest = 0;
  std::uint32_t known = 0;
  std::uint32_t record_room = 0;
  std::uint32_t records = 0;  // in use, also by ids that are not known any more
  std::uint32_t hold_room = 0;
  std::uint32_t holds = 0;

  static std::size_t bytes_for(std::size_t records, std::size_t holds) noexcept {
    return sizeof(BudgetBuffer) + records * sizeof(IdRecord) + holds * sizeof(OpenHold);
  }
  std::size_t bytes() const noexcept { return bytes_for(record_room, hold_room); }
  // Returns how many records need how much room: a table is filled to seven eighths.
  static std::size_t room_for(std::size_t records) noexcept {
    return records == 0 ? 0 : records + ceil_div(records, std::size_t{7});
  }

  IdRecord* record_begin() noexcept { return reinterpret_cast<IdRecord*>(this + 1); }
  OpenHold* hold_begin() noexcept {
    return reinterpret_cast<OpenHold*>(record_begin() + record_room);
  }
  // `asked` is the id of the request, or null.
  Budget view(const PermitId* asked) noexcept;

  // Copies the ids that are known at `at`, and the open holds. There must be room for them.
  void copy(BudgetBuffer& from, const Limit& limit, Ticks at) noexcept;
  std::size_t known_records(const Limit& limit, Ticks at) noexcept;
  // Whether write() has room.
  bool has_room(const NextBudget& next) const noexcept {
    const bool is_open = next.change == NextBudget::Change::kOpen;
    return (!next.adds_record || room_for(std::size_t{records} + 1) <= record_room) &&
           (!is_open || holds < hold_room);
  }
  // Makes the next state, which was decided at `at`. There must be room for it.
  void write(const NextBudget& next, Ticks at) noexcept;
  bool contains(const HoldName& name) noexcept { return find(name) != nullptr; }
  // Adds an absent id, whose hold has this end if it is open. There must be room for it.
  void add(const IdRecord& record, Ticks end) noexcept;

 private:
  IdRecord* find(const HoldName& name) noexcept;
  IdRecord& place_for(const HoldName& name) noexcept;
  void open(IdRecord& record, const IdRecord& next, Ticks end) noexcept;
  void close(std::size_t index, const IdRecord& ended) noexcept;
  void expire(OnExpiry on_expiry, Ticks at) noexcept;
};
static_assert(sizeof(BudgetBuffer) == 64);

}  // namespace sluice::core

