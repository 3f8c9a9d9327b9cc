#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/service/rate_limit_quota/v3/rlqs.pb.h"
#include "sluice/quota_client.h"

namespace sluice {

// The buckets of a QuotaClient, without its thread and connection: they decide in the threads of
// their callers, and share nothing with the client but atomic numbers.
//
// Thread-safety: any member from any thread. Ownership: borrows the options and the clock.
class QuotaClient::Buckets {
 public:
  using Attributes = std::map<std::string, std::string>;

  // `on_first_use`: a bucket is used that the service does not know; called by its user. `clock`:
  // null is the steady clock of C++.
  Buckets(const QuotaOptions& options, std::function<void()> on_first_use,
          const Clock* clock = nullptr)
      : options_(options), on_first_use_(std::move(on_first_use)), clock_(clock) {}

  // Null: there is none, and there are as many as may be, or `adds` is false; unless the client
  // keeps it.
  std::shared_ptr<QuotaBucket> bucket(const Attributes& attributes, bool keeps, bool adds = true);
  // The stream was opened, accepted by the service, or has ended. The service knows no bucket at
  // first.
  void opened();
  void accepted();
  void ended(const std::string& why);
  // Returns the messages that report all buckets in use, or only those that the service does not
  // know.
  std::vector<std::string> report(bool all);
  // Takes a message of the service.
  void take(std::string_view message);
  Stats stats() const;

 private:
  struct Known {
    std::shared_ptr<QuotaBucket> bucket;
    bool is_kept = false;                   // for as long as the client lives
    std::uint64_t allowed = 0, denied = 0;  // that were reported
    std::uint64_t seen = 0;                 // allowed ones at the last look
    // As all times, in ns of the clock. Absent: it is not in use.
    std::optional<std::int64_t> used_at = {};
    std::optional<std::int64_t> reported_at = {};
    bool is_known = false;  // to the service, on this stream

    // Until it is used again.
    void forget() {
      bucket->is_reported_ = is_known = false;
      used_at.reset();
    }
  };
  using Usage = envoy::service::rate_limit_quota::v3::RateLimitQuotaUsageReports::BucketQuotaUsage;
  using Action = envoy::service::rate_limit_quota::v3::RateLimitQuotaResponse::BucketAction;

  std::int64_t now() const noexcept { return QuotaBucket::now_of(clock_); }
  bool counts(Known& known, std::int64_t now, bool all) const;
  static void add_usage(const Attributes& attributes, Known& known, std::int64_t now, Usage& usage);
  void assign(const Action& action);

  const QuotaOptions& options_;
  const std::function<void()> on_first_use_;
  const Clock* const clock_;
  mutable std::mutex mutex_;  // of the members below
  std::map<Attributes, Known> buckets_;
  Stats stats_;
};

}  // namespace sluice
