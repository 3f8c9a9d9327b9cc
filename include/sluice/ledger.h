#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "sluice/clock.h"
#include "sluice/limit.h"

namespace sluice {

// What has changed a counter of a budget.
enum class LedgerKind : std::uint8_t {
  kTake,      // spent at once
  kCharge,    // spent after the work was done, within the limit or not
  kHold,      // held under an id
  kSettle,    // a hold has ended, and its actual amount is spent
  kLate,      // the same after the hold had ended, or without one
  kCancel,    // a hold has ended, or will never begin, and nothing is spent
  kExtend,    // a hold ends later
  kCharged,   // a hold has ended with its time, and its units are spent (OnExpiry)
  kReleased,  // the same, and its units are free again
  kRefund,
  kReset,
  kUndo,  // a call on several counters of a cluster is taken back, because one of them has denied
          // it
};
// As the file of the ledger has them, in the order of the enumerators.
inline constexpr std::array<std::string_view, 12> kLedgerKinds{
    "take",   "charge",  "hold",     "settle", "late",  "cancel",
    "extend", "charged", "released", "refund", "reset", "undo"};

// The hash of an id, by which a counter knows it.
using IdHash = std::array<std::uint8_t, 10>;

// A change of a counter of a budget. A plain value that borrows its texts.
struct LedgerEntry {
  LedgerKind kind = LedgerKind::kTake;
  OnExpiry on_expiry = OnExpiry::kCharge;  // of the limit
  bool is_of_rule = false;                 // the counter, which the next two name
  // The counter began with this entry: it never was, or had been forgotten, evicted or reset.
  bool is_new = false;
  std::string_view key = {};
  std::string_view tag = {};
  std::string_view id = {};         // as the caller gave it; empty: it is not known
  std::optional<IdHash> hash = {};  // of the id; absent: the call had none
  // kCharged, kReleased: the end of the hold. They are reported with the next change of the
  // counter, before it. The instants of a counter go back after a reset only.
  Instant at = {};
  // The window of `at`; kFirstInstant if it never ends. If the entry before is of an earlier
  // window, this one begins with nothing spent.
  Instant window = {};
  Instant ends = {};  // kHold, kExtend: the end of the hold
  std::uint64_t limit = 0;
  std::int64_t spent = 0;  // what the entry adds; negative if it takes away
  std::int64_t held = 0;
  std::uint64_t spent_after = 0;  // in the window, with the entry
  std::uint64_t held_after = 0;
};

// Receives every change of the budgets of a store. Denied and repeated calls change nothing.
//
// Thread-safety: add() is called from any thread, even from several at the same time, under the
// lock of the counter: so the entries of one counter arrive in their order. It must not block.
class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual void add(const LedgerEntry& entry) noexcept = 0;
};

}  // namespace sluice
