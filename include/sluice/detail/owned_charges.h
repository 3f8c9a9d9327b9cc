#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/store.h"

namespace sluice::detail {

// A copy of charges with the bytes of their keys and tags.
class OwnedCharges {
 public:
  // Throws std::bad_alloc.
  explicit OwnedCharges(std::span<const Charge> charges)
      : charges_(charges.begin(), charges.end()) {
    std::size_t size = 0;
    for (const Charge& charge : charges) size += charge.key.size() + charge.tag.size();
    bytes_.reserve(size);  // so that the views below stay valid
    for (Charge& charge : charges_) {
      charge.key = add(charge.key);
      charge.tag = add(charge.tag);
    }
  }
  OwnedCharges(OwnedCharges&&) = default;  // the bytes do not move
  OwnedCharges& operator=(OwnedCharges&&) = default;

  std::span<const Charge> view() const noexcept { return charges_; }

 private:
  std::string_view add(std::string_view text) {
    const std::size_t begin = bytes_.size();
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return {bytes_.data() + begin, text.size()};
  }

  std::vector<Charge> charges_;
  std::vector<char> bytes_;
};

}  // namespace sluice::detail
