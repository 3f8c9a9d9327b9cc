#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tests/oracle/exact.h"
#include "tests/oracle/oracle.h"

// Blocks after repeated denials, by docs/reference/algorithms.md alone: plain lists, exact
// rationals, and no code of the library.
namespace sluice_oracle {

struct BlockSpec {
  std::int64_t after = 1;
  std::int64_t within_us = 0;
  std::int64_t for_us = 0;
  Rational grow = 1;
  std::int64_t at_most_us = 0;
};

// What a key has done. Every denial stays in the list; those that no longer count are not counted.
class BlockedKey {
 public:
  std::int64_t left(std::int64_t at_us) const;
  // Counts a denial. Returns whether it starts a block.
  bool deny(const BlockSpec& spec, std::int64_t at_us);
  void block(const BlockSpec& spec, std::int64_t at_us, std::int64_t for_us);

 private:
  void forget(std::int64_t at_us);
  bool counts_growth(const BlockSpec& spec, std::int64_t at_us) const;
  void keep_until(const BlockSpec& spec);

  std::vector<std::int64_t> denials_;  // since the latest block
  std::int64_t end_ = 0;
  std::optional<std::int64_t> latest_;  // how long the latest block after denials lasted
  std::int64_t forgotten_ = 0;
};

struct BlockedCharge {
  Charge charge;
  std::optional<BlockSpec> block = {};
};

// The limits of another oracle with blocks. Instants never go back. Every charge of a request has a
// counter of its own; a reservation and a partial take have one charge.
class BlockingOracle {
 public:
  Answer apply(const Action& action, const std::vector<BlockedCharge>& charges, std::int64_t at_us);
  void block(const BlockedCharge& charge, std::int64_t at_us, std::int64_t for_us);
  void unblock(const BlockedCharge& charge) { keys_.erase(name_of(charge)); }

 private:
  using Name = std::pair<std::string, Algorithm>;
  static Name name_of(const BlockedCharge& charge) {
    return {charge.charge.key, charge.charge.spec.algorithm};
  }
  std::int64_t left(const BlockedCharge& charge, std::int64_t at_us) const;
  Answer deny(const Action& action, const std::vector<BlockedCharge>& charges, std::int64_t at_us);
  bool count_denials(const Action& action, const std::vector<BlockedCharge>& charges,
                     const Answer& said, std::int64_t at_us);
  void show(const std::vector<BlockedCharge>& charges, std::int64_t at_us, Answer& answer) const;

  Oracle limits_;
  std::map<Name, BlockedKey> keys_;
};

}  // namespace sluice_oracle
