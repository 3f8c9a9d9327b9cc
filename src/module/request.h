#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/step.h"
#include "sluice/block.h"
#include "sluice/limit.h"
#include "sluice/permit_id.h"
#include "sluice/verb.h"

namespace sluice::redis_module {

// Two windows of a calendar that follow each other, as the client has sent them.
struct CalendarWindows {
  std::size_t number = 0;  // of the counter, for the reply that asks for other windows
  core::Ticks open = 0;
  core::Ticks close = 0;
  core::Ticks next_close = 0;
};

// What a request asks of one counter.
struct Asked {
  Limit limit;
  std::uint64_t cost = 0;
  std::uint64_t charges = 1;  // of a request that takes at most with each of them
  bool must_exist = false;    // the charge must not create the counter
  bool gives_back = false;    // of a kCharge: it is a refund
  PermitId permit = {};
  std::optional<CalendarWindows> windows = {};  // the limit is then a window of the clock
};

// What a request asks of the block of one counter.
struct AskedBlock {
  std::size_t counter = 0;  // from 0
  std::uint64_t flags = 0;
  Block block;
  Duration time{0};  // by hand
};

// The request of SLUICE.APPLY (docs/state-format.md).
struct Request {
  Action action = Verb::kTake;
  bool shares_units = false;             // takes at most the cost with each of several charges
  std::optional<core::Ticks> at = {};    // absent: the time of the server
  std::uint64_t explicit_expiry_ms = 0;  // if `at` is present
  std::vector<Asked> counters;
  std::vector<AskedBlock> blocks;
};

// Reads a request for `keys` keys. Returns false if it is malformed or a number is out of
// the range that any limit has. May throw std::bad_alloc.
bool read_request(std::string_view bytes, std::size_t keys, Request& request);

}  // namespace sluice::redis_module
