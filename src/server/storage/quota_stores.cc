// The counters of a server whose limits another one divides. A counter is a bucket of a
// QuotaClient: requests take its tokens, and the client reports them.

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "core/period.h"
#include "limiter/answer.h"
#include "limiter/new_key_limit.h"
#include "rules/counter_key.h"
#include "server/net/fiber.h"
#include "server/net/fiber_sleep.h"
#include "server/storage/loop_stores.h"
#include "server/storage/stores.h"
#include "sluice/failure_policy.h"
#include "sluice/quota_client.h"

namespace sluice::server {
namespace {

// The reserved domain of the streams, as of kCounterDomain.
constexpr const char* kDomain = "sluice.counters";
// A denied request that no full bucket would admit may pass when the part has grown.
constexpr Duration kUntilNextReport = std::chrono::seconds{1};
// The requests for a key are its first ones again after this time without any.
constexpr Duration kFirstAgain = std::chrono::minutes{1};

// The stores of one event loop: it decides with its own buckets.
//
// Thread-safety: the loop's thread only; a request that waits must be on a fiber. Ownership:
// borrows its arguments.
class LoopQuotas final : public LoopStores, private Store {
 public:
  // Adds the requests that got no assignment over a connection to `unassigned`.
  LoopQuotas(boost::asio::io_context& loop, QuotaClient& client, Store& local,
             std::chrono::milliseconds deadline, std::atomic<std::uint64_t>& unassigned)
      : sleeps_(loop),
        client_(client),
        local_(local),
        deadline_(deadline),
        unassigned_(unassigned) {}

  Limiter& limiter() override { return limiter_; }
  Store* shadow() override { return nullptr; }
  Store* local() override { return &local_; }
  void stop() override { sleeps_.stop(); }

 private:
  struct Known {
    std::weak_ptr<QuotaBucket> bucket;  // expired: it was idle
    Limit numbers;
    Instant waits_from{};  // before this, no request waits for an assignment
  };

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant>,
                 std::span<Decision> each) noexcept override {
    try {
      return decide(action, charges, each);
    } catch (const std::exception&) {
      return fail(Reason::kStoreError, each);
    }
  }

  static Decision fail(Reason reason, std::span<Decision> each) noexcept {
    std::fill(each.begin(), each.end(), Decision::refused(reason));
    return Decision::refused(reason);
  }

  Decision decide(Action action, std::span<const Charge> charges, std::span<Decision> each);
  std::shared_ptr<QuotaBucket> find(const Charge& charge, Verb verb);
  static std::string name_of(const Charge& charge);
  bool can_be_assigned() const;
  bool wait_for(const Charge& charge, QuotaBucket& bucket);
  bool sleep_until_assigned(const QuotaBucket& bucket, Instant end);

  net::FiberSleeps sleeps_;
  QuotaClient& client_;
  Store& local_;
  const std::chrono::milliseconds deadline_;
  std::atomic<std::uint64_t>& unassigned_;
  std::unordered_map<std::string, Known> known_;  // by tag and key
  std::size_t next_look_ = 1024;                  // for forgotten ones, at this size
  Limiter limiter_{*this};
};

std::string digest_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) base::append_lower_hex(hex, static_cast<char>(digest[i]));
  return hex;
}

// The counter in the id of its bucket: in UTF-8. Of a long one, values are digests, because the
// other server tracks no id over 4,096 bytes.
std::string counter_of(std::string_view key) {
  constexpr std::size_t kLongest = 3500, kLongestValue = 64;
  std::string name = rules::utf8_counter_key(key);
  if (name.size() <= kLongest) return name;
  auto parts = rules::parse_counter_key(name);
  if (!parts) return name;
  for (rules::CounterKey::Part& part : parts->parts) {
    if (part.value.size() > kLongestValue) part.value = digest_of(part.value);
  }
  return rules::utf8_counter_key(parts->text());
}

Duration rounded_up(std::chrono::nanoseconds time) { return std::chrono::ceil<Duration>(time); }

// Of a limit of 0 no unit is there, whatever the part of the other server's limit.
std::uint32_t units_of(const Charge& charge) {
  if (charge.limit.capacity() == 0) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(charge.cost, kMaxUnits));
}

// The numbers of the bucket, which are those of this server's part.
Decision numbers_of(const Charge& charge, const QuotaBucket& bucket) {
  const QuotaBucket::Tokens tokens = bucket.tokens();
  Decision out;
  if (charge.limit.capacity() == 0) return out;
  out.capacity = tokens.admits_all ? charge.limit.capacity() : tokens.most;
  out.remaining = tokens.admits_all ? out.capacity : tokens.left;
  out.reset_after = rounded_up(tokens.full_after);
  return out;
}

// Whether the part is the whole limit and gives less at once, so that it never admits the cost. A
// smaller part may grow, and a larger one is of another limit: the server above has an override.
bool is_beyond_limit(const Limit& limit, std::uint64_t cost, const QuotaBucket::Tokens& tokens) {
  if (limit.capacity() == 0) return true;
  if (cost <= tokens.most) return false;
  const auto most = static_cast<double>(tokens.most);
  const std::chrono::duration<double> fill = tokens.refill, period = limit.period();
  const double whole = static_cast<double>(limit.limit()) * fill.count() / period.count();
  return static_cast<double>(cost) > whole && most > 0.8 * whole && most < 1.02 * whole;
}

// `cost`: the units that are missing for an answer that admits.
Decision denied(const Charge& charge, std::uint64_t cost, const QuotaBucket& bucket) {
  Decision out = numbers_of(charge, bucket);
  out.outcome = Outcome::kDenied;
  out.reason = Reason::kLimited;
  const QuotaBucket::Tokens tokens = bucket.tokens();
  if (is_beyond_limit(charge.limit, cost, tokens)) {
    out.reason = Reason::kNever;
    return out;
  }
  out.retry_after = kUntilNextReport;
  if (cost <= tokens.most) {
    const auto rest = static_cast<__int128>(tokens.most - cost) * tokens.refill.count();
    const std::chrono::nanoseconds later(static_cast<std::int64_t>(rest / tokens.most));
    out.retry_after = std::max(rounded_up(tokens.full_after - later), Duration{1});
  }
  return out;
}

bool admits(const Charge& charge, const QuotaBucket& bucket) {
  if (charge.gives_back) return true;
  if (charge.limit.capacity() == 0) return charge.cost == 0;
  const QuotaBucket::Tokens tokens = bucket.tokens();
  return tokens.admits_all || charge.cost <= tokens.left;
}

// Of a request: denied if one is, and the numbers of the tightest.
Decision whole_of(std::span<const Decision> each) {
  Decision out = each.front();
  for (const Decision& one : each.subspan(1)) {
    const bool is_worse = !one.allowed() && out.allowed();
    const bool is_tighter = one.allowed() == out.allowed() && one.remaining < out.remaining;
    const auto retry = std::max(out.retry_after, one.retry_after);
    const bool is_never = out.reason == Reason::kNever || one.reason == Reason::kNever;
    const bool is_over = out.reason == Reason::kOver || one.reason == Reason::kOver;
    if (is_worse || is_tighter) out = one;
    if (is_over) out.reason = Reason::kOver;
    out.retry_after = is_never ? std::nullopt : retry;
    if (is_never) out.reason = Reason::kNever;
  }
  return out;
}

using Buckets = std::vector<std::shared_ptr<QuotaBucket>>;

// What was asked for beyond the most is demand too. Nothing is taken, even if units came back now.
void ask_for_rest(std::span<const Charge> charges, const Buckets& buckets, std::uint32_t most) {
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const std::uint32_t rest = units_of(charges[i]) - most;
    if (rest > 0 && buckets[i]->try_take(rest)) buckets[i]->give_back(rest);
  }
}

// Returns how many units of each charge are there.
std::uint32_t most_of(std::span<const Charge> charges, const Buckets& buckets) {
  std::uint64_t most = kMaxUnits;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const QuotaBucket::Tokens tokens = buckets[i]->tokens();
    const std::uint64_t units = units_of(charges[i]);
    most = std::min({most, units, tokens.admits_all ? units : tokens.left});
  }
  return static_cast<std::uint32_t>(most);
}

Decision LoopQuotas::decide(Action action, std::span<const Charge> charges,
                            std::span<Decision> each) {
  const Verb verb = action.verb;
  const bool is_known = verb == Verb::kTake || verb == Verb::kPeek || verb == Verb::kRefund ||
                        verb == Verb::kCharge || verb == Verb::kTakeAtMost;
  if (charges.empty() || charges.size() > kMaxCharges) return fail(Reason::kInvalid, each);
  if (!is_known) return fail(Reason::kStoreError, each);
  Buckets buckets;
  for (const Charge& charge : charges) {
    // Another server divides only what its rules name.
    if (charge.rule.keyspace != Keyspace::kRules) return fail(Reason::kStoreError, each);
    buckets.push_back(find(charge, verb));
    if (!buckets.back()) return fail(Reason::kStoreFull, each);
  }
  for (std::size_t i = 0; i < charges.size(); ++i) {
    if (!buckets[i]->is_assigned() && !wait_for(charges[i], *buckets[i])) {
      return fail(Reason::kStoreError, each);
    }
  }
  // A request of several charges takes all or nothing: those that were taken are given back.
  const bool takes_most = verb == Verb::kTakeAtMost;
  const std::uint32_t most = takes_most ? most_of(charges, buckets) : 0;
  // Found out once: tokens come back while this decides.
  std::array<bool, kMaxCharges> fits;
  bool admits_all = true;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    fits[i] = takes_most ? most > 0 || charges[i].cost == 0 : admits(charges[i], *buckets[i]);
    admits_all &= fits[i];
  }
  const bool takes_all = verb == Verb::kTake || (takes_most && most > 0);
  std::size_t denier = charges.size();
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const std::uint32_t units = takes_most ? most : units_of(charges[i]);
    if (verb == Verb::kRefund || (verb == Verb::kCharge && charges[i].gives_back)) {
      buckets[i]->give_back(units);
    } else if (verb == Verb::kCharge) {
      fits[i] = buckets[i]->charge(units) || charges[i].cost == 0;
    } else if (takes_all && !admits_all) {
      // What is denied is demand too.
      if (!fits[i] && buckets[i]->try_take(units)) buckets[i]->give_back(units);
    } else if (takes_all && units > 0 && !buckets[i]->try_take(units)) {
      denier = i;
      break;
    }
  }
  if (takes_most) ask_for_rest(charges, buckets, most);
  if (denier < charges.size()) {  // another loop was faster
    for (std::size_t i = 0; i < denier; ++i) {
      buckets[i]->give_back(takes_most ? most : units_of(charges[i]));
    }
  }
  const bool may_deny = takes_most || verb == Verb::kTake || verb == Verb::kPeek;
  for (std::size_t i = 0; i < charges.size(); ++i) {
    const bool is_denied = i == denier || (may_deny && !fits[i]);
    each[i] = numbers_of(charges[i], *buckets[i]);
    if (is_denied) each[i] = denied(charges[i], takes_most ? 1 : charges[i].cost, *buckets[i]);
    if (verb == Verb::kCharge && !fits[i]) each[i].reason = Reason::kOver;
    if (takes_most && !is_denied) each[i].taken = denier < charges.size() ? 0 : most;
  }
  return whole_of(each.first(charges.size()));
}

std::string LoopQuotas::name_of(const Charge& charge) {
  std::string name(charge.tag);
  name.append(1, '\0').append(charge.key);
  return name;
}

std::shared_ptr<QuotaBucket> LoopQuotas::find(const Charge& charge, Verb verb) {
  std::string name = name_of(charge);
  const auto found = known_.find(name);
  if (found != known_.end() && found->second.numbers == charge.limit) {
    if (auto bucket = found->second.bucket.lock()) return bucket;
  }
  if (known_.size() >= next_look_) {
    std::erase_if(known_, [](const auto& entry) { return entry.second.bucket.expired(); });
    next_look_ = std::max<std::size_t>(2 * known_.size(), 1024);
  }
  std::map<std::string, std::string> id{{"counter", counter_of(charge.key)},
                                        {"numbers", core::format_limit(charge.limit)}};
  constexpr std::size_t kLongestTag = 400;
  if (!charge.tag.empty()) {
    id.emplace("tag",
               charge.tag.size() > kLongestTag ? digest_of(charge.tag) : std::string(charge.tag));
  }
  const Instant now = SystemClock().now();  // as in the store of the failure policy
  NewKeyLimit* const new_keys = creates(verb) ? charge.rule.new_keys : nullptr;
  auto bucket = client_.share_bucket(id, new_keys == nullptr || new_keys->allows(now));
  if (bucket && new_keys != nullptr && !bucket->is_in_use()) new_keys->count(now);
  if (bucket) known_.insert_or_assign(std::move(name), Known{bucket, charge.limit});
  return bucket;
}

// Whether the other server is connected, or the first connection to it has not failed yet.
bool LoopQuotas::can_be_assigned() const {
  const QuotaClient::Stats stats = client_.stats();
  return stats.is_connected || stats.last_error.empty();
}

// Waits until there is an assignment. Returns false after the deadline, and at once if the other
// server cannot be reached, or others have waited for this key.
bool LoopQuotas::wait_for(const Charge& charge, QuotaBucket& bucket) {
  if (net::current_fiber() == nullptr || !can_be_assigned()) return false;
  // The first use makes the client report the bucket; nothing is taken.
  static_cast<void>(bucket.try_take(0));
  const Clock& clock = SteadyClock::instance();
  const std::string name = name_of(charge);
  const auto found = known_.find(name);
  const Instant now = clock.now();
  const bool may_wait = found == known_.end() || now >= found->second.waits_from;
  const bool is_assigned = may_wait && sleep_until_assigned(bucket, now + deadline_);
  if (!can_be_assigned()) return is_assigned;
  const auto still = known_.find(name);  // it may have been forgotten
  if (still != known_.end()) still->second.waits_from = clock.now() + kFirstAgain;
  if (!is_assigned) ++unassigned_;
  return is_assigned;
}

bool LoopQuotas::sleep_until_assigned(const QuotaBucket& bucket, Instant end) {
  net::FiberSleep sleep(sleeps_);
  while (!bucket.is_assigned()) {
    const Instant now = SteadyClock::instance().now();
    if (now >= end || !sleep.sleep(now + std::chrono::milliseconds{1})) return false;
  }
  return true;
}

class QuotaStores final : public Stores {
 public:
  QuotaStores(const Config& config, QuotaOptions options, Log& log)
      : config_(config),
        log_(log),
        local_({.nodes = static_cast<std::uint32_t>(config.redis.nodes),
                .memory = {.max_keys = config.max_keys, .max_log_bytes = config.max_log_bytes}}),
        client_(std::move(options)) {}

  std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) override {
    return std::make_unique<LoopQuotas>(loop, client_, local_, config_.upstream.deadline,
                                        unassigned_);
  }
  Expected<HeldBlocks> find_blocks(LoopStores*, std::size_t) override { return HeldBlocks{}; }
  Status read_ledger(LoopStores*, const LedgerReplay::See&) override {
    return Unexpected{"there is no ledger, because the store is another Sluice; expected its own"};
  }
  void follow(boost::asio::io_context& loop) override {
    timer_.emplace(loop);
    watch();
  }
  void stop_following() noexcept override { timer_.reset(); }

  void add_metrics(metrics::Registry& registry) override {
    using Stats = QuotaClient::Stats;
    registry.add("sluice_upstream_connected",
                 "Whether the server above is connected, which assigns quotas: 1 or 0.",
                 [this] { return client_.stats().is_connected ? 1.0 : 0.0; });
    registry.add_stats<Stats>(
        [this] { return client_.stats(); },
        {{"sluice_upstream_buckets", "Counters that have parts of limits.", &Stats::buckets},
         {"sluice_upstream_reports_total", "Reports of a counter to the server above.",
          &Stats::reports},
         {"sluice_upstream_assignments_total", "Assignments from the server above.",
          &Stats::assignments}});
  }
  StoreStatus status() const override {
    const QuotaClient::Stats stats = client_.stats();
    StoreStatus out{.kind = "quota",
                    .address = config_.store,
                    .numbers = {{"connections", stats.is_connected ? 1U : 0U},
                                {"buckets", stats.buckets},
                                {"reports", stats.reports},
                                {"assignments", stats.assignments}}};
    const std::scoped_lock lock(mutex_);
    if (lost_since_ && (is_starved_ || !stats.is_connected)) {
      out.failing_since = lost_since_;
      out.why_failing = why(stats);
    }
    return out;
  }

 private:
  std::string why(const QuotaClient::Stats& stats) const {
    if (stats.is_connected) return config_.store + " is connected, and assigns nothing";
    return config_.store + " is not connected" +
           (stats.last_error.empty() ? std::string() : ": " + stats.last_error);
  }
  // Looks each second whether the connection is there, and whether requests get assignments.
  void watch() {
    const QuotaClient::Stats stats = client_.stats();
    const bool has_some = std::exchange(assignments_, stats.assignments) != stats.assignments;
    const bool lacks_some = unassigned_.exchange(0) > 0;
    const std::scoped_lock lock(mutex_);
    const bool was_starved =
        std::exchange(is_starved_, !has_some && (lacks_some || (is_starved_ && stats.buckets > 0)));
    const bool fails = is_starved_ || !stats.is_connected;
    if (!fails && lost_since_) {
      log_.info(was_starved ? "the server above assigns quotas again"
                            : "the server above is connected again",
                {{"store", config_.store}});
      lost_since_.reset();
    } else if (fails && !lost_since_ && looked_) {
      lost_since_ = SystemClock::instance().now();
      log_.error(stats.is_connected
                     ? "the server above assigns nothing; on_store_error decides"
                     : "the server above is not connected; when the assignments have ended, "
                       "on_store_error decides",
                 {{"why", why(stats)}});
    }
    looked_ = true;
    timer_->expires_after(std::chrono::seconds{1});
    timer_->async_wait([this](const boost::system::error_code& no) {
      if (!no) watch();
    });
  }

  const Config config_;
  Log& log_;
  LocalShareStore local_;
  QuotaClient client_;
  std::atomic<std::uint64_t> unassigned_{0};
  std::uint64_t assignments_ = 0;  // at the last look
  std::optional<boost::asio::steady_timer> timer_;
  mutable std::mutex mutex_;  // of what follows
  std::optional<Instant> lost_since_;
  bool is_starved_ = false;  // requests get no assignment over the connection
  bool looked_ = false;
};

}  // namespace

Expected<std::unique_ptr<Stores>> open_quota_stores(const Config& config, Log& log) {
  const UpstreamConfig& upstream = config.upstream;
  QuotaOptions options{.address = std::string(upstream_address(config.store)),
                       .domain = kDomain,
                       .tls = config.store.starts_with("quotas://"),
                       .tls_ca_file = upstream.ca_file,
                       .tls_cert_file = upstream.cert_file,
                       .tls_key_file = upstream.key_file,
                       .fallback = QuotaFallback::kDeny};
  if (upstream.token.is_set()) {
    auto token = read_token(upstream.token);
    if (!token) return Unexpected{"upstream.token: " + token.error()};
    options.token = *std::move(token);
  }
  try {
    return std::unique_ptr<Stores>(std::make_unique<QuotaStores>(config, std::move(options), log));
  } catch (const std::exception& error) {
    return Unexpected{"upstream: " + std::string(error.what())};
  }
}

}  // namespace sluice::server
