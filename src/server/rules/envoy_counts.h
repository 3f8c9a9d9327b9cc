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

// Counts the answers of the limits of Envoy's files by limit name (Descriptor::rule). Limits with
// `detailed_metric` or `value_to_metric` are also counted by the values of requests: a bounded
// number of values per limit, and "other" for the rest. The values of an entry with
// `share_threshold` count together, under its pattern.
//
// Thread-safety: any member from any thread. Cost of count(): one atomic addition to memory that
// few threads share; with values, also a lock.
class EnvoyCounts {
 public:
  enum Cell : std::size_t { kWithinLimit, kOverLimit, kShadow };
  using Cells = std::array<std::uint64_t, 3>;
  using Sums = std::map<std::string, Cells>;
  struct Row {
    std::string name;
    Cells cells;
  };

  static constexpr std::size_t kMostValues = 100;  // per limit
  static constexpr std::size_t kLongestValue = 64;

  explicit EnvoyCounts(const envoy::Config& config);

  // `entries` are the entries that matched the descriptor of the status.
  void count(const envoy::Status& status, std::span<const envoy::Entry> entries,
             std::size_t stripe);
  void add_to(Sums& sums) const;

  static std::string_view to_string(Cell cell) noexcept;

 private:
  static constexpr std::size_t kStripes = 8;
  struct Tally {
    std::array<std::atomic<std::uint64_t>, 3> cells{};
  };
  // The counts of one limit by the values of requests.
  struct ByValue {
    std::unordered_map<std::string, Cells> values;
  };

  void count_by_value(const envoy::Descriptor& descriptor, std::span<const envoy::Entry> entries,
                      Cell cell);

  const envoy::Config config_;
  std::array<std::unique_ptr<Tally[]>, kStripes> stripes_;
  std::vector<bool> by_values_;  // by limit: whether values are counted
  mutable std::mutex mutex_;     // guards the members below
  std::unordered_map<std::size_t, ByValue> values_;
};

}  // namespace sluice::server
