#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/step.h"
#include "sluice/permit_id.h"

namespace sluice::core {

// The units that one permit holds in one counter.
struct PermitEntry {
  Ticks end = 0;  // of its lease
  PermitId id = {};
  std::uint32_t units = 0;
};
static_assert(sizeof(PermitEntry) == 24);

// A view of permits in the caller's memory, in the order in which they were taken.
struct Permits {
  std::span<const PermitEntry> entries;
  std::uint64_t units = 0;  // of all entries
  Ticks first_end = 0;      // the earliest and the latest end of an entry, if there is one
  Ticks last_end = 0;
  Ticks last = 0;                   // of the last change
  const PermitId* asked = nullptr;  // the permit of the request
};

enum class PermitChange : std::uint8_t { kNone, kTake, kRelease, kExtend, kRefund };

// The next permits, as PermitBuffer::write() makes them. Those that have ended leave.
struct NextPermits {
  PermitChange change = PermitChange::kNone;
  PermitId id = {};
  std::uint64_t units = 0;  // to take or to give back
  Ticks end = 0;            // of a lease that starts
  std::size_t live = 0;     // permits before the change that have not ended
};

// Permits in one piece of the caller's memory: this header, then room for permits. Plain memory
// without a destructor.
struct PermitBuffer {
  Ticks last = 0;  // instant of the last change
  Ticks first_end = 0;
  Ticks last_end = 0;
  std::uint32_t units = 0;
  std::uint32_t room = 0;
  std::uint32_t count = 0;

  static std::size_t bytes_for(std::size_t permits) noexcept {
    return sizeof(PermitBuffer) + permits * sizeof(PermitEntry);
  }
  std::size_t bytes() const noexcept { return bytes_for(room); }

  PermitEntry* begin() noexcept { return reinterpret_cast<PermitEntry*>(this + 1); }
  Permits view() noexcept { return {{begin(), count}, units, first_end, last_end, last, nullptr}; }

  // Copies permits that fit.
  void copy(PermitBuffer& from) noexcept;
  // Whether write() has room.
  bool has_room(const NextPermits& next) const noexcept {
    return next.change != PermitChange::kTake || next.live < room;
  }
  // Makes the next permits, which were decided at `at`. There must be room for them.
  void write(const NextPermits& next, Ticks at) noexcept;

 private:
  void add(const PermitEntry& entry) noexcept;
  void rewrite(const NextPermits& next, Ticks at) noexcept;
  void give_back(std::uint64_t given, Ticks at) noexcept;
};
static_assert(sizeof(PermitBuffer) == 40);

}  // namespace sluice::core
