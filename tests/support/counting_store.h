#pragma once

#include <optional>
#include <span>

#include "sluice/store.h"

namespace sluice::testing {

// Passes requests on to another store, which it borrows, and counts them.
class CountingStore final : public Store {
 public:
  explicit CountingStore(Store& store) noexcept : store_(store) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    return store_.apply(action, charges, now, each);
  }

  int asked = 0;

 private:
  Store& store_;
};

}  // namespace sluice::testing
