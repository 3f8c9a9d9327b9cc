#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

}  // namespace sluice::server
