#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithms.h"
#include "sluice/block.h"
#include "sluice/ledger.h"
#include "sluice/limit.h"
#include "sluice/permit_id.h"
#include "sluice/verb.h"
#include "stores/redis/script/format.h"

namespace sluice::redis_module {

// What a request asks of one counter. Borrows the request.
struct Asked {
  Limit limit;
  std::uint64_t cost = 0;
  std::uint64_t charges = 1;  // of a request that takes at most with each of them
  bool must_exist = false;    // the charge must not create the counter
  bool gives_back = false;    // of a kCharge: it is a refund
  PermitId permit = {};
  std::optional<redis::format::Windows> windows = {};  // the limit is one of the calendar

  // Of a budget: what it does with the id, whose name is `permit`; absent: it has none.
  std::optional<Action> with_id = {};
  bool is_alternative = false;                      // to the budget before it
  std::optional<std::string_view> ledger = {};      // it has one: the text of the id
  std::optional<redis::format::Windows> past = {};  // for it: windows of holds that have ended
};

inline bool is_budget(const Asked& asked) noexcept {
  return asked.limit.state_kind() == StateKind::kBudget;
}

// What a request asks of the block of one counter.
struct AskedBlock {
  std::size_t counter = 0;  // from 0
  std::uint64_t flags = 0;
  Block block;
  Duration time{0};  // by hand
};

// The request of SLUICE.APPLY (docs/reference/state-format.md).
struct Request {
  Action action = Verb::kTake;
  bool has_rows = false;                 // of budgets
  bool shares_units = false;             // takes at most the cost with each of several charges
  std::optional<core::Ticks> at = {};    // absent: the time of the server
  std::uint64_t explicit_expiry_ms = 0;  // if `at` is present
  std::vector<Asked> counters;
  std::vector<AskedBlock> blocks;
  std::size_t ledgers = 0;               // of the counters; their keys are the last ones
  redis::format::LedgerArgument kept{};  // in the ledgers
};

// Reads a request for `keys` keys, and borrows its bytes. Returns false if it is malformed or a
// number is out of the range that any limit has. May throw std::bad_alloc.
bool read_request(std::string_view bytes, std::size_t keys, Request& request);

// --- the decision about one counter (counter.cc, budget.cc) ---

enum class Result : std::uint8_t {
  kDecided,
  kForeign,  // the value is not that of such a counter
  kForeignLedger,
  kWindow,     // the client has to send other windows of the calendar
  kStoreFull,  // of a request: counters that must exist do not
};

// The names and the values of fields of a hash.
using Fields = std::vector<std::pair<std::string, std::string>>;

// The decision about one counter, and the change of its value. Reused for later requests.
struct Outcome {
  Result result = Result::kDecided;
  core::Answer answer;
  core::Ticks at = 0;  // the instant of the decision
  // What a reply contains instead of the value that was found. Logs and permits only.
  std::string reply;
  bool replaces_found = false;

  core::Change change = core::Change::kNone;
  // kWrite: the new value; or, if the value stays, its changed pieces. The key is to be kept until
  // an instant, unless it is kept that long already.
  std::string value;
  std::vector<std::pair<std::size_t, std::string>> pieces;  // offsets and bytes
  core::Ticks keep_until = 0;
  bool is_kept = false;

  // Of a budget instead: the fields that change, and whether the others leave.
  Fields fields;
  bool replaces_fields = false;
  bool knows_id = false;
  bool follows = false;                           // an alternative to the budget before it
  std::vector<std::vector<std::string>> entries;  // of the ledger: names and values
  core::Ticks unknown_end = 0;  // kWindow: of a hold, whose window the ledger needs

  void clear() noexcept;

  // For choose_in_row(). The client computes the waits.
  bool is_alternative() const noexcept { return follows; }
  bool chooses(Verb /*verb*/) const noexcept { return true; }  // else the request has no rows
  bool admits() const noexcept { return answer.admitted; }
  void pass_over() noexcept {
    answer.admitted = true;
    change = core::Change::kNone;
    entries.clear();
  }
  void wait_less(const Outcome& /*other*/) noexcept {}
};

// Decides for one counter with the step of its algorithm. `found`: the value, empty if the key does
// not exist. Changes nothing but `outcome`. May throw std::bad_alloc.
void decide(Action action, const Asked& asked, std::uint64_t cost, std::string_view found,
            core::Ticks now, Outcome& outcome);

// The same for a budget, which is a hash. `read` returns the value of a field; empty: there is
// none.
using ReadField = std::function<std::string(const std::string& name)>;
void decide_budget(Action action, const Asked& asked, std::uint64_t cost, bool is_absent,
                   const ReadField& read, core::Ticks now, Outcome& outcome);

}  // namespace sluice::redis_module
