// The buckets of a client: what it reports of their use, and the assignments that it receives.

#include "quota/quota_buckets.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

namespace rlqs = envoy::service::rate_limit_quota::v3;
using std::chrono::nanoseconds;
// In a message: even with the longest ids it is smaller than the service accepts (1 MiB).
constexpr int kMostUsages = 200;
constexpr std::size_t kLongestId = 4096;  // bytes; the service tracks no longer ones
// Shorter intervals, in ns, are in 2^-10 ns.
constexpr std::int64_t kShortInterval = 1000;
constexpr int kShift = 10;

nanoseconds of(const google::protobuf::Duration& time) noexcept {
  // A century is as good as for ever, and cannot overflow.
  const auto seconds = std::clamp<std::int64_t>(time.seconds(), 0, 3'155'760'000);
  return std::chrono::seconds(seconds) + nanoseconds(std::clamp(time.nanos(), 0, 999'999'999));
}

}  // namespace

// Reports all buckets in use, or only those that the service does not know.
std::vector<std::string> QuotaClient::Buckets::report(bool all) {
  const std::int64_t now = this->now();
  std::vector<std::string> messages;
  rlqs::RateLimitQuotaUsageReports reports;
  const auto finish = [&] {
    if (reports.bucket_quota_usages().empty()) return;
    reports.set_domain(options_.domain);
    messages.push_back(reports.SerializeAsString());
    reports.Clear();
  };
  {
    const std::lock_guard lock(mutex_);
    for (auto at = buckets_.begin(); at != buckets_.end();) {
      auto& [attributes, known] = *at;
      if (counts(known, now, all)) {
        auto& usages = *reports.mutable_bucket_quota_usages();
        add_usage(attributes, known, now, *usages.Add());
        const bool is_tracked = usages.rbegin()->bucket_id().ByteSizeLong() <= kLongestId;
        if (!is_tracked) usages.RemoveLast();
        stats_.reports += is_tracked ? 1 : 0;
      }
      if (reports.bucket_quota_usages_size() == kMostUsages) finish();
      // The service renews its assignment for a while, and would not send it to another bucket.
      const bool is_left = !known.bucket->is_in_use() && !known.bucket->is_assigned();
      if (!known.is_kept && is_left) {
        // Others may hold weak pointers, so only the end of the bucket says that nobody shares it.
        const std::weak_ptr<QuotaBucket> left = std::exchange(known.bucket, nullptr);
        known.bucket = left.lock();
      }
      at = known.bucket ? std::next(at) : buckets_.erase(at);
    }
  }
  finish();
  return messages;
}

// Whether the use of the bucket is reported now.
bool QuotaClient::Buckets::counts(Known& known, std::int64_t now, bool all) const {
  QuotaBucket& bucket = *known.bucket;
  if (!all && known.is_known) return false;
  // Not by what was reported: units that came back later leave less than that.
  const std::uint64_t allowed = bucket.allowed();
  const bool was_used =
      std::exchange(known.seen, allowed) != allowed || bucket.denied() != known.denied;
  if (!was_used && !bucket.is_reported_.load(std::memory_order_relaxed)) return false;
  if (was_used || !known.used_at) known.used_at = now;  // a first use may take no units
  if (was_used || nanoseconds(now - *known.used_at) < options_.idle) return true;
  known.forget();
  return false;
}

void QuotaClient::Buckets::add_usage(const Attributes& attributes, Known& known, std::int64_t now,
                                     Usage& usage) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  usage.mutable_bucket_id()->mutable_bucket()->insert(attributes.begin(), attributes.end());
  const std::int64_t elapsed = now - std::exchange(known.reported_at, now).value_or(now);
  usage.mutable_time_elapsed()->set_seconds(elapsed / kSecond);
  usage.mutable_time_elapsed()->set_nanos(static_cast<std::int32_t>(elapsed % kSecond));
  const std::uint64_t allowed = known.bucket->allowed(), denied = known.bucket->denied();
  // Units that were given back may have been reported as used.
  if (allowed > known.allowed) {
    usage.set_num_requests_allowed(allowed - std::exchange(known.allowed, allowed));
  }
  usage.set_num_requests_denied(denied - std::exchange(known.denied, denied));
  known.is_known = true;
}

void QuotaClient::Buckets::take(std::string_view message) {
  rlqs::RateLimitQuotaResponse response;
  if (!response.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
  const std::lock_guard lock(mutex_);
  for (const auto& action : response.bucket_action()) assign(action);
}

void QuotaClient::Buckets::assign(const Action& action) {
  const auto& id = action.bucket_id().bucket();
  const auto found = buckets_.find(Attributes(id.begin(), id.end()));
  if (found == buckets_.end()) return;
  Known& known = found->second;
  if (action.has_abandon_action()) {
    known.bucket->assign({});
    known.forget();
    return;
  }
  if (!action.has_quota_assignment_action()) return;
  const auto& given = action.quota_assignment_action();
  QuotaBucket::Assignment assigned;
  // Without a time to live an assignment never ends.
  assigned.until = given.has_assignment_time_to_live()
                       ? now() + nanoseconds(of(given.assignment_time_to_live())).count()
                       : INT64_MAX;
  const auto& strategy = given.rate_limit_strategy();
  if (strategy.has_token_bucket()) {
    const auto& tokens = strategy.token_bucket();
    const std::int64_t fill = tokens.has_tokens_per_fill() ? tokens.tokens_per_fill().value() : 1;
    const std::int64_t every = nanoseconds(of(tokens.fill_interval())).count();
    if (fill <= 0 || every <= 0) return;
    assigned.kind = QuotaBucket::Kind::kTokens;
    // Of many tokens in a short time, whole ns would lose a part.
    assigned.shift = every / fill < kShortInterval ? kShift : 0;
    const std::int64_t time = every << assigned.shift;
    assigned.interval = std::max<std::int64_t>(1, (time + fill - 1) / fill);
    const std::int64_t most = INT64_MAX / 4 / assigned.interval;
    assigned.tolerance = assigned.time_of(std::min<std::int64_t>(tokens.max_tokens(), most));
  } else if (strategy.has_blanket_rule() &&
             strategy.blanket_rule() == envoy::type::v3::RateLimitStrategy::DENY_ALL) {
    assigned.kind = QuotaBucket::Kind::kDenyAll;
  }
  known.bucket->assign(assigned);
  ++stats_.assignments;
}

std::shared_ptr<QuotaBucket> QuotaClient::Buckets::bucket(const Attributes& attributes, bool keeps,
                                                          bool adds) {
  const std::lock_guard lock(mutex_);
  const bool has_room = keeps || (adds && buckets_.size() < options_.most_buckets);
  if (!has_room && !buckets_.contains(attributes)) return nullptr;
  Known& known = buckets_[attributes];
  known.is_kept |= keeps;
  if (!known.bucket) {
    known.bucket.reset(new QuotaBucket(options_.fallback, on_first_use_, clock_));
  }
  return known.bucket;
}

void QuotaClient::Buckets::opened() {
  const std::lock_guard lock(mutex_);
  ++stats_.connects;
  for (auto& [attributes, known] : buckets_) known.is_known = false;
}

void QuotaClient::Buckets::accepted() {
  const std::lock_guard lock(mutex_);
  stats_.is_connected = true;
}

void QuotaClient::Buckets::ended(const std::string& why) {
  const std::lock_guard lock(mutex_);
  stats_.is_connected = false;
  stats_.last_error = why;
}

QuotaClient::Stats QuotaClient::Buckets::stats() const {
  const std::lock_guard lock(mutex_);
  Stats out = stats_;
  out.buckets = buckets_.size();
  return out;
}

}  // namespace sluice
