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

// How Envoy's requests are answered, beside what its files say.
struct EnvoyOptions {
  bool consume_on_reject = false;  // as Envoy's own service; see envoy::Request
  bool shadow_mode = false;        // the answer to every request is OK; its descriptors' are told
  bool headers = false;            // tell clients the tightest limit in the fields below
  std::string limit_header = "RateLimit-Limit";
  std::string remaining_header = "RateLimit-Remaining";
  std::string reset_header = "RateLimit-Reset";
  bool request_metadata = false;  // tell the request itself in dynamic_metadata
};

// Envoy's files in force, with what is counted by them.
struct ActiveEnvoyFiles {
  explicit ActiveEnvoyFiles(envoy::Config read) : config(std::move(read)), counts(config) {}

  envoy::Config config;
  EnvoyCounts counts;
};

// Envoy's files, and their change: validated as a whole, swapped at once; a bad file leaves those
// in force as they are.
//
// Thread-safety: any member from any thread. Cost: version() is one atomic load, current() a lock
// and a counted pointer.
class EnvoyManager {
 public:
  using Errors = std::vector<RuleError>;

  // Files, and directories of *.yaml and *.yml; without any, there are no domains. Errors: all that
  // is wrong with them.
  static Expected<std::unique_ptr<EnvoyManager>, Errors> open(std::vector<std::string> paths,
                                                              EnvoyOptions options = {},
                                                              const RuleTerms& terms = {});

  // The same of texts that stay as they are.
  static Expected<std::unique_ptr<EnvoyManager>, Errors> open_texts(std::vector<RulesText> texts,
                                                                    EnvoyOptions options = {},
                                                                    const RuleTerms& terms = {});

  // Reads the files again. Answers whether they had changed. Errors: all that is wrong.
  Expected<bool, Errors> reload();
  // As RulesManager::changed_on_disk().
  bool changed_on_disk();

  std::shared_ptr<ActiveEnvoyFiles> current() const;
  EnvoyStatus status() const;
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_acquire); }
  const EnvoyOptions& options() const noexcept { return options_; }
  bool has_files() const noexcept { return !paths_.empty(); }

  // What was counted since the start, also by files that are no longer in force.
  std::vector<EnvoyCounts::Row> counted() const;
  // Tells services apart that count at once.
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

  mutable std::mutex mutex_;  // held for moments
  std::uint64_t reloads_ = 0;
  std::uint64_t failures_ = 0;
  Errors last_errors_;
  std::shared_ptr<ActiveEnvoyFiles> active_ = std::make_shared<ActiveEnvoyFiles>(envoy::Config());
  mutable std::vector<std::shared_ptr<ActiveEnvoyFiles>>
      retired_;                     // that somebody may still count by
  mutable EnvoyCounts::Sums kept_;  // of those that nobody does

  std::mutex change_mutex_;  // held by whoever reads the files; taken first
  Picture known_;            // when they were last read or reported
  Picture last_look_;
  std::vector<RulesText> texts_;
};

}  // namespace sluice::server
