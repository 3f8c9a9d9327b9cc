#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/block.h"
#include "sluice/store.h"

namespace sluice::redis {

// Returns whether scripts read or write blocks for the verb. The others change only counters.
bool uses_blocks(Verb verb) noexcept;

// The block of one counter of a request (Charge::block): its key, its argument for the script, and
// what follows from the reply. As a Counter, it computes with core from the state that the script
// has found.
class KeyBlock {
 public:
  // `counter_key` is the key of the counter, after the prefix. `slot` is its slot in a cluster.
  void begin(const Charge& charge, std::string_view prefix, std::string_view counter_key,
             std::optional<std::uint16_t> slot);
  bool is_used() const noexcept { return charge_ != nullptr; }
  const std::string& key() const noexcept { return key_; }

  // What a request asks of a counter, as far as its block needs it.
  struct Asked {
    Action action;
    std::size_t counter;  // its number in the script, from 1
    std::uint64_t cost;   // of all charges
    bool may_fit;         // so that a denial is kLimited
  };
  void append_argument(const Asked& asked, std::string& out) const;

  // Reads the block's part of a reply to a request at `now`. Returns false if it is malformed.
  bool read(std::string_view bytes, core::Ticks now);
  // Makes the change that the script has made. deny() is for a denial with kLimited.
  void look() noexcept;
  void deny(Verb verb) noexcept;
  void change(Action action) noexcept;
  bool denies(std::uint64_t cost) const noexcept { return answer_.left > 0 && cost > 0; }
  const core::BlockAnswer& answer() const noexcept { return answer_; }

 private:
  const Charge* charge_ = nullptr;
  std::string key_;
  core::Ticks now_ = 0;
  bool is_written_ = false;  // if the script had to write it
  core::BlockState found_;
  std::vector<core::Ticks> denials_;  // of found_
  core::BlockAnswer answer_;
};

// Returns the least number whose decimal digits are in the slot of a cluster.
std::uint32_t number_in_slot(std::uint16_t slot);

}  // namespace sluice::redis
