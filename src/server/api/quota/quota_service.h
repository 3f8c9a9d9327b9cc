#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "quota/allocator.h"
#include "server/config/config.h"
#include "server/logging/log.h"
#include "server/rules/rules_manager.h"
#include "sluice/attributes.h"
#include "sluice/clock.h"
#include "sluice/limit.h"
#include "sluice/limiter.h"
#include "sluice/overrides.h"
#include "sluice/rule_decider.h"
#include "sluice/rule_set.h"
#include "sluice/store.h"

namespace sluice::server {

// The part of a limit that a bucket has, as a share of the whole.
struct QuotaPart {
  std::uint64_t share = 0;  // of quota::kWhole
  Limit limit;
  std::uint64_t cost = 1;  // the units of one request
};

// What a proxy does with the requests of a bucket. A plain value.
struct Assignment {
  enum class Kind : std::uint8_t { kAllowAll, kDenyAll, kTokens };

  Kind kind = Kind::kAllowAll;
  // kTokens: a bucket that begins with `tokens` requests and gets as many in each `interval`, and
  // never has more.
  std::uint32_t tokens = 0;
  std::chrono::milliseconds interval{0};

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// Returns the token bucket of the strictest part, which lasts for the period of its limit, at least
// `every` and at most 5 s, or up to 10 s if it has few tokens; kDenyAll if one part is nothing. Its
// rate is at most that of the part and a millionth more. Its interval is whole seconds, because
// Envoy ignores the rest and takes less than a second for no limit at all. There is at least one
// part.
Assignment assign(std::span<const QuotaPart> parts, Duration every);

// Returns how much of the limit `units` are in that time, as a share. At most 2^50.
std::uint64_t share_of(const Limit& limit, std::uint64_t units, Duration time);

// Returns the whole units of `share` of the limit in `time`. `left`: fractions that were left
// before, and then those that are left, in 2^-40 units times the period in ticks, so that nothing
// is lost.
std::uint64_t units_in(const Limit& limit, std::uint64_t share, Duration time,
                       unsigned __int128* left = nullptr);

// The domain of streams from other servers (`store: quota://`). The attributes of their buckets are
// `counter`, the key of a counter of a rule in any domain, in UTF-8; `numbers` of the limit there;
// and `tag`, if there is one. The units are those of the counter.
inline constexpr std::string_view kCounterDomain = "sluice.counters";

// The attributes of a bucket, from its id. A plain value.
using BucketAttributes = std::vector<std::pair<std::string, std::string>>;

// A limit that applies to the requests of a bucket. Borrows from the rules.
struct BucketLimit {
  const Rule* rule;
  const RuleLimit* limit;
  std::string key;    // of the counter
  std::string label;  // the key as a person reads it
  std::string tag;
  Limit numbers;  // with the plan and the override of the key
  RuleCharge of_rule;
  const Block* block;
  std::uint64_t cost;  // the units of one request
  std::uint32_t weight = 1;
  std::uint8_t at_least = 1;  // percent of the limit

  // Takes `units` of the counter.
  Charge charge(std::uint64_t units) const;
};

// What the rules say of a bucket. Borrows from the rules.
struct BucketRules {
  // What decides about its requests: its limits (kTokens), or the same answer to all of them.
  // Nothing: no rule, so that it gets no assignment.
  std::optional<Assignment::Kind> verdict = Assignment::Kind::kAllowAll;
  std::vector<BucketLimit> limits;  // that it gets parts of
  std::vector<BucketLimit> shadow;  // that only count it
  // Limits that cannot be assigned, "RULE/LIMIT": those with permits, budgets, and those that count
  // responses.
  std::vector<std::string> not_assigned;
};

// Finds out which limits apply to buckets, as for requests with these attributes, and counts
// nothing: the rules decide by a store that admits everything and keeps what it was asked.
//
// Thread-safety: one thread at a time. Ownership: borrows the overrides, which may be null. Cost:
// that of a decision without a store.
class BucketResolver final : private Store {
 public:
  explicit BucketResolver(const Overrides* overrides)
      : overrides_(overrides), decider_(limiter_, {.overrides = overrides}) {}
  BucketResolver(const BucketResolver&) = delete;
  BucketResolver& operator=(const BucketResolver&) = delete;

  // Returns what the rules of the domain say. It is valid while `rules` is.
  BucketRules resolve(const RuleSet& rules, std::string_view domain,
                      const BucketAttributes& attributes);

 private:
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  const Charge* charge_of(const LimitAnswer& limit) const noexcept;
  BucketRules resolve_counter(const RuleSet& rules, const AttributeSource& attributes) const;

  const Overrides* const overrides_;
  std::vector<Charge> charges_;  // that it was asked for
  Limiter limiter_{*this};
  RuleDecider decider_;
};

// Whether a stream may have the domain: that of a rule, or kCounterDomain.
bool has_domain(const RuleSet& rules, std::string_view domain) noexcept;

// What a proxy reports of one bucket since its last report.
struct BucketReport {
  std::string bucket;           // the id, always in the same form
  BucketAttributes attributes;  // of the id
  Duration elapsed{0};
  std::uint64_t allowed = 0;  // requests
  std::uint64_t denied = 0;
};

// What a proxy is to do with a bucket.
struct BucketOrder {
  std::string bucket;
  std::optional<Assignment> assignment;  // absent: it abandons the bucket
  std::chrono::milliseconds ttl{0};
};

// Sends orders to a proxy. Must not call the service.
using SendOrders = std::function<void(std::vector<BucketOrder> orders)>;

// The share of a limit that a server divides, of the servers that share a store.
struct QuotaShare {
  std::uint64_t part = quota::kWhole;  // that this server may divide now
  std::uint64_t fair = quota::kWhole;  // when the others have lowered theirs
  std::uint64_t most = quota::kWhole;  // if it asked for all

  friend bool operator==(const QuotaShare&, const QuotaShare&) = default;
};

// Returns the share of a counter for `ttl`: of a fair part what the others do not hold any more.
// Servers that ask for more share the rest by weight, at least 1; this one would have `most_weight`
// if it asked for all. Its proxies may still use `held`, which nobody else gets before it is lower,
// or `ttl` has passed. Absent: the store cannot say. May wait on a fiber.
using ClaimShare = std::function<std::optional<QuotaShare>(
    const Charge& counter, const quota::Claim& claim, std::uint64_t most_weight, std::uint64_t held,
    Duration ttl)>;

// What the service has done since the start. A plain value.
struct QuotaStats {
  std::uint64_t proxies = 0;  // now
  std::uint64_t buckets = 0;  // that they report, now
  // Limits with assignments that the store could not renew the last time.
  std::uint64_t not_renewed = 0;
  std::uint64_t reports = 0;
  std::uint64_t assigned = 0;       // units that were taken of limits
  std::uint64_t used = 0;           // units that were reported as used
  std::uint64_t wasted = 0;         // units that were assigned and not used before the next report
  std::uint64_t reassignments = 0;  // other assignments than the one before
};

// The quota service: divides limits among the buckets of proxies (docs/quota.md). Units are counted
// in the store when they are assigned, so that requests that ask directly share the limits.
//
// Reports change what is asked for; divide() gives parts, in steps: however many buckets there are,
// a call handles about twice `Parts::step` of them. A division of all visits the buckets, then the
// limits, and takes as many calls as it needs, with reports between them. While divide() waits for
// the store, the other functions only keep what they are given.
//
// Thread-safety: one thread. Ownership: borrows the parts. Cost: a report some
// µs; a division some µs for each bucket; memory less than 400 bytes for each bucket of a proxy.
class QuotaService {
 public:
  // Calls the function once for each number below the first argument, and returns after all calls.
  using ForEach = std::function<void(std::size_t, const std::function<void(std::size_t)>&)>;
  struct Parts {
    const RulesManager& rules;
    const Overrides* overrides = nullptr;  // null: there are none
    Limiter& limiter;
    Log& log;
    const QuotaConfig& config;
    ClaimShare claim_share = {};  // empty: no other server has the store
    bool charges = true;          // the store counts units beyond a limit (Verb::kCharge)
    // With several calls that wait for the store at once. Empty: one call after the other.
    ForEach for_each = {};
    const Clock& steady = SteadyClock::instance();
    std::size_t step = 2000;  // buckets of proxies; the limit with most of them is not divided
  };
  using ProxyId = std::uint64_t;
  // The most buckets that one proxy may report; others get no assignment.
  static constexpr std::size_t kMostBuckets = 16'384;

  explicit QuotaService(const Parts& parts);
  ~QuotaService();
  QuotaService(const QuotaService&) = delete;
  QuotaService& operator=(const QuotaService&) = delete;

  // A proxy has opened a stream. `peer` is for people.
  void open(ProxyId id, std::string domain, std::string peer, SendOrders send);
  void report(ProxyId id, std::vector<BucketReport> reports);
  // The stream has ended: its parts are free when they have expired.
  void close(ProxyId id);
  // All streams have ended.
  void close_all();
  // The rules have changed.
  void follow_rules();

  // Divides limits about which there is news; `all`: begins with a division of every limit, which
  // also abandons buckets and renews assignments. Sends what has changed. Asks the store: call it
  // on a fiber if that may wait. Returns at once while another call waits. Call it again with false
  // while has_news().
  void divide(bool all);
  // Whether there is news for divide(), or more to do.
  bool has_news() const noexcept { return has_news_; }
  // When to call divide(false) even without news, because the store has more units then.
  Instant next() const noexcept { return again_.empty() ? Instant::max() : again_.begin()->first; }

  QuotaStats stats() const;
  // {"counters":[...],"buckets":...}, at most `most` subscribers in all.
  void write(base::JsonWriter& json, std::size_t most) const;

 private:
  struct Counter;
  struct Bucket;
  struct Subscription;
  struct Choice;
  struct Proxy;
  struct Link;
  using Key = std::pair<std::string, std::string>;

  void now_or_later(std::function<void()> event);
  void accept(ProxyId id, BucketReport& report);
  Subscription& subscribe(Proxy& proxy, BucketReport& report);
  void unsubscribe(Subscription& subscription);
  void follow(Subscription& subscription);
  void resolve(Bucket& bucket);
  void link(Subscription& subscription);
  void ask(Subscription& subscription, bool has_reported);
  void unlink(Subscription& subscription);
  Counter& counter_of(const BucketLimit& limit);
  const Limit& numbers_of(const Subscription& subscription, const Link& link) const;
  void follow_numbers(Counter& counter) const;
  void warn_of(const BucketRules& rules);
  void note(Counter& counter);
  void fail(Counter& counter, std::optional<Reason> why);

  void divide_some();
  void begin_all();
  void visit_some(std::vector<Choice>& choices);
  bool visit_buckets(std::vector<Choice>& choices);
  bool is_idle(const Subscription& subscription) const;
  std::vector<Counter*> take_news();
  void consider(Subscription& subscription, std::vector<Choice>& choices);
  void order(Proxy& proxy, BucketOrder order);
  void ask_store(const std::vector<Counter*>& all, const std::function<void(Counter&)>& ask);
  std::uint64_t take(Counter& counter, std::uint64_t units);
  std::uint64_t charged_for(Counter& counter, std::uint64_t units) const;
  std::uint64_t charge(Counter& counter, std::uint64_t units);
  void count(Counter& counter);
  void ask_again(Counter& counter);
  void claim(Counter& counter);
  std::pair<std::uint64_t, std::uint64_t> weights_of(Counter& counter, std::uint64_t idle) const;
  Duration horizon_of(const Counter& counter) const;
  std::uint64_t tolerated_in(const Counter& counter) const;
  std::uint64_t owed_by(const Counter& counter, std::uint64_t share) const;
  void plan(Counter& counter, std::vector<Subscription*>& changed);
  std::optional<Assignment> choose(Subscription& subscription);
  bool is_old(const Subscription& subscription) const;
  bool resumes(const Subscription& subscription) const;
  bool waits(const Subscription& subscription, const Link& link) const;
  void take_starts(const std::vector<Choice>& choices);
  void send(std::vector<Choice>& choices);
  std::uint64_t part_of(const Choice& choice, const Link& link) const;
  bool settle(Choice& choice);
  std::uint64_t start_of(const Choice& choice, std::uint64_t cost) const;
  std::chrono::milliseconds ttl_of(const Subscription& subscription) const;
  void forget_unused(const std::vector<Counter*>& counters);
  void write_counter(base::JsonWriter& json, const Counter& counter, std::size_t& most) const;

  const Parts parts_;
  BucketResolver resolver_;
  RuleSet rules_;
  std::uint64_t version_;
  Instant now_;                                       // of the current call
  std::map<Key, Bucket> buckets_;                     // by domain and id
  std::map<Key, std::unique_ptr<Counter>> counters_;  // by tag and key
  std::map<ProxyId, std::unique_ptr<Proxy>> proxies_;
  std::uint64_t last_subscription_ = 0;
  std::uint64_t last_event_ = 0;  // numbers what must be known to be older or newer
  // Not divided yet: counters of which something was reported, and subscriptions without limits.
  std::deque<Counter*> news_;
  std::map<std::uint64_t, Subscription*> fresh_;
  std::vector<Proxy*> told_;  // for which there are orders, in their order
  // The division of all: when it began, and what it visits next.
  enum class Visit : std::uint8_t { kNone, kBuckets, kCounters };
  Visit visit_ = Visit::kNone;
  std::uint64_t visit_began_ = 0;
  std::pair<ProxyId, std::string> next_bucket_;
  Key next_counter_;
  std::multimap<Instant, Key> again_;  // counters by Counter::again
  bool is_dividing_ = false;
  bool has_news_ = false;
  bool divides_all_ = false;                     // when the last division of all has ended
  std::vector<std::function<void()>> events_;    // while the store is asked
  std::map<std::string, std::uint64_t> warned_;  // of limits that cannot be assigned, by version
  QuotaStats stats_;
};

}  // namespace sluice::server
