#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/store.h"

namespace sluice::detail {

// Copies of charges with their keys and tags, for a change of what they have taken.
struct OwnedCharges {
  std::string names;  // all keys and tags
  std::vector<Charge> charges;

  // Takes those for which keeps(charge) is true. Throws std::bad_alloc.
  template <typename Keeps>
  void copy(std::span<const Charge> from, Keeps keeps) {
    std::size_t size = 0;
    for (const Charge& charge : from) size += charge.key.size() + charge.tag.size();
    names.reserve(size);
    const auto own = [this](std::string_view& name) {
      const std::size_t begin = names.size();
      names.append(name);
      name = std::string_view(names).substr(begin);
    };
    charges.reserve(from.size());
    for (const Charge& charge : from) {
      if (!keeps(charge)) continue;
      charges.push_back(charge);
      own(charges.back().key);
      own(charges.back().tag);
    }
  }
};

}  // namespace sluice::detail
