#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/block.h"
#include "sluice/permit_id.h"
#include "sluice/store.h"

namespace sluice::detail {

// A copy of charges with all that they borrow, except for RuleCharge::new_keys: the bytes of their
// keys, tags and ids, their permits and their blocks.
class OwnedCharges {
 public:
  OwnedCharges() = default;
  // Throws std::bad_alloc.
  explicit OwnedCharges(std::span<const Charge> charges)
      : charges_(charges.begin(), charges.end()) {
    std::size_t size = 0;
    for (const Charge& charge : charges) {
      size += charge.key.size() + charge.tag.size() + charge.id_text.size();
    }
    bytes_.reserve(size);  // so that the views and pointers below stay valid
    permits_.reserve(charges.size());
    blocks_.reserve(charges.size());
    for (Charge& charge : charges_) {
      charge.key = add(charge.key);
      charge.tag = add(charge.tag);
      charge.id_text = add(charge.id_text);
      if (charge.permit != nullptr) charge.permit = &permits_.emplace_back(*charge.permit);
      if (charge.block != nullptr) charge.block = &blocks_.emplace_back(*charge.block);
    }
  }
  // What the charges refer to does not move.
  OwnedCharges(OwnedCharges&&) = default;
  OwnedCharges& operator=(OwnedCharges&&) = default;

  std::span<Charge> charges() noexcept { return charges_; }
  std::span<const Charge> view() const noexcept { return charges_; }

 private:
  std::string_view add(std::string_view text) {
    const std::size_t begin = bytes_.size();
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return {bytes_.data() + begin, text.size()};
  }

  std::vector<Charge> charges_;
  std::vector<char> bytes_;
  std::vector<PermitId> permits_;
  std::vector<Block> blocks_;
};

}  // namespace sluice::detail
