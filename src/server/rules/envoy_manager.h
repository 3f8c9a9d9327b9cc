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
#include <string_view>
#include <unordered_map>
#include <vector>

#include "envoy/config.h"
#include "envoy/decide.h"
#include "server/config/config.h"
#include "server/rules/rules_files.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// The files of Envoy. Counts the answers of their limits by limit name (Descriptor::rule). Limits
// with `detailed_metric` or `value_to_metric` are also counted by the values of requests: a bounded
// number of values per limit, and "other" for the rest. The values of an entry with
// `share_threshold` count together, under its pattern.
//
// Thread-safety: any member from any thread. Cost of count(): one atomic addition to memory that
// few threads share; with values, also a lock.
class EnvoyFiles {
 public:
  static constexpr std::size_t kWithinLimit = 0, kOverLimit = 1, kShadow = 2;
  static constexpr auto kCellNames =
      std::to_array<std::string_view>({"within_limit", "over_limit", "shadow_mode"});
  using Cells = std::array<std::uint64_t, kCellNames.size()>;
  using Sums = std::map<std::string, Cells>;

  static constexpr std::size_t kMostValues = 100;  // per limit
  static constexpr std::size_t kLongestValue = 64;

  explicit EnvoyFiles(envoy::Config config);

  const envoy::Config& config() const noexcept { return config_; }

  // `entries` are the entries that matched the descriptor of the status.
  void count(const envoy::Status& status, std::span<const envoy::Entry> entries,
             std::size_t stripe);
  void add_to(Sums& sums) const;

 private:
  static constexpr std::size_t kStripes = 8;
  using Tally = std::array<std::atomic<std::uint64_t>, kCellNames.size()>;

  void count_by_value(const envoy::Descriptor& descriptor, std::span<const envoy::Entry> entries,
                      std::size_t cell);

  const envoy::Config config_;
  std::array<std::unique_ptr<Tally[]>, kStripes> stripes_;
  std::vector<bool> by_values_;  // by limit: whether values are counted
  mutable std::mutex mutex_;     // guards the members below
  // The counts of limits by the values of requests.
  std::unordered_map<std::size_t, std::unordered_map<std::string, Cells>> values_;
};

// The state of Envoy's files.
struct EnvoyStatus {
  std::vector<std::string> sources;  // files and directories, as configured
  std::size_t domains = 0;
  std::size_t limits = 0;
  std::uint64_t reloads = 0;           // reloads that changed the active files
  std::uint64_t failures = 0;          // reloads that were refused
  std::vector<RuleError> last_errors;  // of the latest reading; empty if it succeeded
};

// Holds Envoy's files and replaces them: a set is validated as a whole and swapped at once; an
// invalid file leaves the active files unchanged.
//
// Thread-safety: any member from any thread. Cost: version() is one atomic load; current() is a
// lock and a reference count.
class EnvoyManager {
 public:
  using Errors = std::vector<RuleError>;

  // Opens the files of the options, and directories of *.yaml and *.yml. Without any, there are no
  // domains. Errors: all errors of the files.
  static Expected<std::unique_ptr<EnvoyManager>, Errors> open(EnvoyOptions options = {},
                                                              const RuleTerms& terms = {});

  // Reads the files again. Returns whether they had changed. Errors: all errors of the files.
  Expected<bool, Errors> reload();
  // See RulesManager::changed_on_disk().
  bool changed_on_disk();

  std::shared_ptr<EnvoyFiles> current() const;
  EnvoyStatus status() const;
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  const EnvoyOptions& options() const noexcept { return options_; }
  bool has_files() const noexcept { return !options_.files.empty(); }

  // Returns the counts since the start, including those of files that are no longer active.
  EnvoyFiles::Sums counted() const;
  // Returns a different number for each service, so that services count in different memory.
  std::size_t next_stripe() noexcept { return stripes_.fetch_add(1); }

 private:
  EnvoyManager(EnvoyOptions options, const RuleTerms& terms)
      : options_(std::move(options)), terms_(terms) {}
  Expected<bool, Errors> adopt(FilesRead read);

  const EnvoyOptions options_;
  const RuleTerms terms_;
  std::atomic<std::uint64_t> version_{1};
  std::atomic<std::size_t> stripes_{0};

  mutable std::mutex mutex_;  // held briefly
  EnvoyStatus status_;        // what status() fills in is not kept here
  std::shared_ptr<EnvoyFiles> active_ = std::make_shared<EnvoyFiles>(envoy::Config());
  mutable std::vector<std::shared_ptr<EnvoyFiles>> retired_;  // that are still in use somewhere
  mutable EnvoyFiles::Sums kept_;  // counts of files that are no longer used

  std::mutex change_mutex_;  // held while files are read; locked before mutex_
  Picture known_;            // the files when last read or reported
  Picture last_look_;
  std::vector<RulesText> texts_;
};

}  // namespace sluice::server
