#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// A request that was decided: the attributes that rules read, and its costs.
struct RecentRequest {
  Instant at;
  Attributes attributes;
  std::uint64_t units = 1;
  bool only_if_wanted = false;
  std::vector<std::pair<std::string, std::uint64_t>> costs;  // RequestCosts::limits
  std::size_t bytes = 0;                                     // about what it takes
  std::uint32_t place = 0;                                   // of its client: below 100
};

// The latest requests, kept while somebody may ask what other rules would have done with them.
//
// All requests of a client are kept, or none, because a limit counts all of them. When a loop has
// used its part of kBytes and kEnough has not passed, it halves the share of the clients.
//
// Thread-safety: any member from any thread; that of a lane is said there. Ownership: owns the
// lanes. Cost: nothing while nobody wants them; then about 1 µs and a lock of the loop's own for
// a request, and at most kBytes of memory together.
class RecentRequests {
 public:
  static constexpr std::size_t kBytes = std::size_t{8} << 20;
  static constexpr auto kEnough = std::chrono::minutes(2);
  static constexpr auto kLongest = std::chrono::minutes(10);

  // The requests of one loop.
  class Lane {
   public:
    explicit Lane(const RecentRequests& all) : all_(all) {}
    // The cost of a request that is not kept: one load.
    bool is_wanted() const noexcept { return all_.wanted_.load(std::memory_order_relaxed); }
    // From the loop's thread. `version` identifies the rules. Without memory, nothing is kept.
    void record(const RuleSet& rules, std::uint64_t version, const AttributeSource& attributes,
                const RequestCosts& costs) noexcept;

   private:
    friend class RecentRequests;
    void add(RecentRequest request);
    void use(const RuleSet& rules, std::uint64_t version);

    const RecentRequests& all_;
    std::vector<std::string> names_;
    std::uint64_t version_ = 0;
    std::uint32_t unnamed_ = 0;  // requests without an address
    mutable std::mutex mutex_;   // of the members below
    std::deque<RecentRequest> requests_;
    std::size_t bytes_ = 0;
    std::uint32_t share_ = 100;  // percent of the clients
  };

  explicit RecentRequests(std::size_t loops, const Clock& clock = SystemClock::instance())
      : bytes_of_lane_(kBytes / (loops > 0 ? loops : 1)), clock_(clock) {}
  Lane& make_lane() { return lanes_.emplace_back(*this); }
  // Starts to keep requests, or stops and frees them. From the thread that makes the lanes.
  void want(bool wanted);

  struct Sample {
    std::vector<RecentRequest> requests;  // by time
    std::uint32_t share = 100;            // percent of the clients
  };
  // Returns what is kept. From that thread, too. Cost: a copy.
  Sample read() const;

 private:
  const std::size_t bytes_of_lane_;
  const Clock& clock_;
  std::atomic<bool> wanted_{false};
  std::deque<Lane> lanes_;
};

}  // namespace sluice::server
