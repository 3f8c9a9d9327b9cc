#pragma once

#include <atomic>
#include <cstddef>
#include <limits>

namespace sluice::server::net {

// The number of connections for which the process has file descriptors. All listeners share it, and
// administration has a reserve that the others leave free.
//
// Thread-safety: any thread, except for set().
class DescriptorBudget {
 public:
  // Without set() there is no bound. Call it before the first take().
  void set(std::size_t most, std::size_t reserve) noexcept {
    most_ = most;
    most_of_others_ = most > reserve ? most - reserve : 0;
  }
  std::size_t most() const noexcept { return most_; }

  // Returns false if no descriptor is left for a connection. Otherwise call give_back() after it is
  // closed.
  bool take(bool administration) noexcept {
    const std::size_t most = administration ? most_ : most_of_others_;
    if (taken_.fetch_add(1, std::memory_order_relaxed) < most) return true;
    give_back();
    return false;
  }
  void give_back() noexcept { taken_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> taken_{0};
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
  std::size_t most_of_others_ = most_;
};

}  // namespace sluice::server::net
