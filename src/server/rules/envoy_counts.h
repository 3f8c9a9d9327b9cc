#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "envoy/config.h"
#include "envoy/decide.h"

namespace sluice::server {

// What the limits of Envoy's files have answered, by their names (Descriptor::rule). For those that
// ask for it (`detailed_metric`, `value_to_metric`) also by the values of requests, of which each
// limit keeps a bounded number apart; the others count as "other".
//
// Thread-safety: any member from any thread. Cost of count(): an atomic addition, to memory that
// few threads share; with values, a lock.
class EnvoyCounts {
 public:
  enum Cell : std::size_t { kWithinLimit, kOverLimit, kShadow };
  using Cells = std::array<std::uint64_t, 3>;
  using Sums = std::map<std::string, Cells>;
  struct Row {
    std::string name;
    Cells cells;
  };

  static constexpr std::size_t kMostValues = 100;  // of a limit
  static constexpr std::size_t kLongestValue = 64;

  explicit EnvoyCounts(const envoy::Config& config);

  // `entries` are those that led to the status' descriptor.
  void count(const envoy::Status& status, std::span<const envoy::Entry> entries,
             std::size_t stripe);
  void add_to(Sums& sums) const;

  static std::string_view to_string(Cell cell) noexcept;

 private:
  static constexpr std::size_t kStripes = 8;
  struct Tally {
    std::array<std::atomic<std::uint64_t>, 3> cells{};
  };
  // Of one limit, by the values of requests.
  struct ByValue {
    std::unordered_map<std::string, Cells> values;
  };

  void count_by_value(const envoy::Descriptor& descriptor, std::span<const envoy::Entry> entries,
                      Cell cell);

  const envoy::Config config_;
  std::array<std::unique_ptr<Tally[]>, kStripes> stripes_;
  std::vector<bool> by_values_;  // of each limit: whether it is counted by values
  mutable std::mutex mutex_;     // of what is below
  std::unordered_map<std::size_t, ByValue> values_;
};

}  // namespace sluice::server
