#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <mutex>

namespace sluice::server::net {

// The number of connections for which the process has file descriptors. Each listener has a share
// that the others leave free, so that connections to one of them do not exclude the clients of
// another. All listeners share the rest.
//
// Thread-safety: any thread. Ownership: owns the shares. Cost: a lock for each connection.
class DescriptorBudget {
 public:
  // The connections of one listening address, in all loops.
  class Share {
   public:
    explicit Share(bool administration) : administration_(administration) {}

   private:
    friend class DescriptorBudget;
    const bool administration_;
    std::size_t own_ = std::numeric_limits<std::size_t>::max();
    std::size_t taken_ = 0;
  };

  Share& add_listener(bool administration) {
    const std::lock_guard lock(mutex_);
    return shares_.emplace_back(administration);
  }
  // Without set() there is no bound. The share of administration is `reserve`. The other listeners
  // have equal shares of half of the rest.
  void set(std::size_t most, std::size_t reserve) {
    const std::lock_guard lock(mutex_);
    most_ = most;
    const auto others = static_cast<std::size_t>(std::count_if(
        shares_.begin(), shares_.end(), [](const Share& one) { return !one.administration_; }));
    const std::size_t rest = most > reserve ? most - reserve : 0;
    for (Share& one : shares_) one.own_ = one.administration_ ? reserve : rest / (2 * others);
  }
  std::size_t most() const {
    const std::lock_guard lock(mutex_);
    return most_;
  }

  // Returns false if no descriptor is left for a connection. Otherwise call give_back() after it is
  // closed.
  bool take(Share& share) {
    const std::lock_guard lock(mutex_);
    if (share.taken_ >= share.own_) {
      std::size_t reserved = 0;
      for (const Share& one : shares_) reserved += std::max(one.own_, one.taken_);
      if (reserved >= most_) return false;
    }
    ++share.taken_;
    return true;
  }
  void give_back(Share& share) {
    const std::lock_guard lock(mutex_);
    --share.taken_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Share> shares_;  // a deque: shares do not move
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace sluice::server::net
