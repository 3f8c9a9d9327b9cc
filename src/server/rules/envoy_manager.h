#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "envoy/config.h"
#include "server/rules/envoy_counts.h"
#include "server/rules/envoy_status.h"
#include "server/rules/rules_files.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::server {

// Settings for answers to Envoy that are not in its files.
struct EnvoyOptions {
  bool merge_domains = false;      // see envoy::Config::parse
  bool consume_on_reject = false;  // as Envoy's own service; see envoy::Request
  bool shadow_mode = false;        // answer OK to every request; descriptors keep their own answer
  bool headers = false;            // add the tightest limit in the fields below
  std::string limit_header = "RateLimit-Limit";
  std::string remaining_header = "RateLimit-Remaining";
  std::string reset_header = "RateLimit-Reset";
  bool request_metadata = false;  // add the request itself to dynamic_metadata
};

// The active files of Envoy, with their counts.
struct ActiveEnvoyFiles {
  explicit ActiveEnvoyFiles(envoy::Config read) : config(std::move(read)), counts(config) {}

  envoy::Config config;
  EnvoyCounts counts;
};

// Holds Envoy's files and replaces them: a set is validated as a whole and swapped at once; an
// invalid file leaves the active files unchanged.
//
// Thread-safety: any member from any thread. Cost: version() is one atomic load; current() is a
// lock and a reference count.
class EnvoyManager {
 public:
  using Errors = std::vector<RuleError>;

  // Opens files, and directories of *.yaml and *.yml. Without any, there are no domains. Errors:
  // all errors of the files.
  static Expected<std::unique_ptr<EnvoyManager>, Errors> open(std::vector<std::string> paths,
                                                              EnvoyOptions options = {},
                                                              const RuleTerms& terms = {});

  // The same for texts that never change.
  static Expected<std::unique_ptr<EnvoyManager>, Errors> open_texts(std::vector<RulesText> texts,
                                                                    EnvoyOptions options = {},
                                                                    const RuleTerms& terms = {});

  // Reads the files again. Returns whether they had changed. Errors: all errors of the files.
  Expected<bool, Errors> reload();
  // See RulesManager::changed_on_disk().
  bool changed_on_disk();

  std::shared_ptr<ActiveEnvoyFiles> current() const;
  EnvoyStatus status() const;
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  const EnvoyOptions& options() const noexcept { return options_; }
  bool has_files() const noexcept { return !paths_.empty(); }

  // Returns the counts since the start, including those of files that are no longer active.
  std::vector<EnvoyCounts::Row> counted() const;
  // Returns a different number for each service, so that services count in different memory.
  std::size_t next_stripe() noexcept { return stripes_.fetch_add(1); }

 private:
  EnvoyManager(std::vector<std::string> paths, EnvoyOptions options, const RuleTerms& terms)
      : paths_(std::move(paths)), options_(std::move(options)), terms_(terms) {}
  Expected<bool, Errors> adopt(FilesRead read);

  const std::vector<std::string> paths_;
  const EnvoyOptions options_;
  const RuleTerms terms_;
  std::atomic<std::uint64_t> version_{1};
  std::atomic<std::size_t> stripes_{0};

  mutable std::mutex mutex_;  // held briefly
  std::uint64_t reloads_ = 0;
  std::uint64_t failures_ = 0;
  Errors last_errors_;
  std::shared_ptr<ActiveEnvoyFiles> active_ = std::make_shared<ActiveEnvoyFiles>(envoy::Config());
  mutable std::vector<std::shared_ptr<ActiveEnvoyFiles>>
      retired_;                     // files that are still in use somewhere
  mutable EnvoyCounts::Sums kept_;  // counts of files that are no longer used

  std::mutex change_mutex_;  // held while files are read; locked before mutex_
  Picture known_;            // the files when last read or reported
  Picture last_look_;
  std::vector<RulesText> texts_;
};

}  // namespace sluice::server
