// The quota service: proxies, their buckets, and the limits that the rules give these.

#include "server/api/quota/quota_service.h"

#include <algorithm>
#include <utility>

#include "core/period.h"
#include "rules/diagnostics.h"
#include "server/api/quota/quota_state.h"

namespace sluice::server {
namespace {

// Demand that was seen for less time is not extrapolated.
constexpr Duration kLeastElapsed = std::chrono::milliseconds{100};

// Whether a limit has a higher rate than another.
bool is_faster(const Limit& limit, const Limit& than) noexcept {
  using Wide = unsigned __int128;
  return Wide{limit.limit()} * static_cast<std::uint64_t>(than.period().count()) >
         Wide{than.limit()} * static_cast<std::uint64_t>(limit.period().count());
}

}  // namespace

QuotaService::QuotaService(const Parts& parts)
    : parts_(parts),
      resolver_(parts.overrides),
      rules_(parts.rules.current()),
      version_(parts.rules.version()),
      now_(parts.steady.now()) {}
QuotaService::~QuotaService() = default;

void QuotaService::now_or_later(std::function<void()> event) {
  has_news_ = true;
  if (is_dividing_) return events_.push_back(std::move(event));
  now_ = parts_.steady.now();
  event();
}

void QuotaService::open(ProxyId id, std::string domain, std::string peer, SendOrders send) {
  auto opened = std::make_shared<Proxy>(
      Proxy{.domain = std::move(domain), .peer = std::move(peer), .send = std::move(send)});
  now_or_later([this, id, opened] {
    opened->opened = now_;
    proxies_.emplace(id, std::make_unique<Proxy>(std::move(*opened)));
  });
}

void QuotaService::report(ProxyId id, std::vector<BucketReport> reports) {
  auto all = std::make_shared<std::vector<BucketReport>>(std::move(reports));
  now_or_later([this, id, all] {
    for (BucketReport& report : *all) accept(id, report);
  });
}

void QuotaService::close(ProxyId id) {
  now_or_later([this, id] {
    const auto found = proxies_.find(id);
    if (found == proxies_.end()) return;
    for (auto& [name, subscription] : found->second->buckets) unsubscribe(subscription);
    std::erase(told_, found->second.get());
    proxies_.erase(found);
  });
}

void QuotaService::close_all() {
  now_or_later([this] {
    for (auto& [id, proxy] : proxies_) {
      for (auto& [name, subscription] : proxy->buckets) unsubscribe(subscription);
    }
    told_.clear();
    proxies_.clear();
  });
}

void QuotaService::follow_rules() {
  now_or_later([this] { divides_all_ = true; });
}

// Takes one report: the demand is new, and the assignment that it was made under is confirmed.
void QuotaService::accept(ProxyId id, BucketReport& report) {
  const auto found = proxies_.find(id);
  if (found == proxies_.end()) return;
  Proxy& proxy = *found->second;
  proxy.reported = now_;
  const auto known = proxy.buckets.find(report.bucket);
  if (known == proxy.buckets.end() && proxy.buckets.size() == kMostBuckets) {
    if (std::exchange(proxy.warned_of_buckets, true)) return;
    return parts_.log.warning(
        "a proxy reports too many buckets; the others get no assignment",
        {{"peer", proxy.peer}, {"domain", proxy.domain}, {"most", kMostBuckets}});
  }
  ++stats_.reports;
  const bool is_first = known == proxy.buckets.end();
  Subscription& subscription = is_first ? subscribe(proxy, report) : known->second;
  follow(subscription);
  // Envoy rounds the time down to seconds. A repeated report can have a time from before the
  // stream.
  const Duration since = now_ - subscription.reported;
  if (!is_first && report.elapsed <= since + kQuotaLatency) {
    subscription.interval = std::max(report.elapsed, since);
  }
  // A report of a time from before the stream: the proxy had the bucket, and keeps the assignment
  // of an earlier stream until another one arrives. (Envoy 1.40 reports a new bucket with 0 s.)
  if (is_first) subscription.resumes = report.elapsed > now_ - proxy.opened;
  const Duration least = is_first ? Duration{parts_.config.every} : kLeastElapsed;
  subscription.elapsed = std::max({report.elapsed, subscription.interval, least});
  subscription.reported = now_;
  subscription.units = report.allowed + std::min(report.denied, ~report.allowed);
  subscription.allowed = report.allowed;
  for (const Link& link : subscription.links) {
    Counter& counter = *link.counter;
    note(counter);
    const std::uint64_t used = std::min(report.allowed, kMaxAmount / link.cost) * link.cost;
    stats_.used += used;
    const std::uint64_t part = counter.parts.assigned(subscription.id);
    const std::uint64_t had = units_in(counter.of.numbers, part, report.elapsed);
    stats_.wasted += had > used ? had - used : 0;
  }
  ask(subscription, true);
  for (const BucketLimit& limit : subscription.bucket->rules.shadow) {
    const std::uint64_t asked = std::min(subscription.units, kMaxUnits / limit.cost) * limit.cost;
    Counter& counter = counter_of(limit);
    counter.wanted += asked;
    note(counter);
  }
}

QuotaService::Subscription& QuotaService::subscribe(Proxy& proxy, BucketReport& report) {
  const auto [at, is_new] = buckets_.try_emplace({proxy.domain, report.bucket});
  Bucket& bucket = at->second;
  if (is_new) {
    bucket.name = report.bucket;
    bucket.domain = proxy.domain;
    bucket.attributes = std::move(report.attributes);
  }
  if (is_new || bucket.resolved < visit_began_) resolve(bucket);
  ++bucket.proxies;
  ++stats_.buckets;
  const Subscription made{.id = ++last_subscription_, .proxy = &proxy, .bucket = &bucket};
  Subscription& subscription = proxy.buckets.emplace(bucket.name, made).first->second;
  link(subscription);
  return subscription;
}

// Its parts go on counting until they have expired.
void QuotaService::unsubscribe(Subscription& subscription) {
  unlink(subscription);
  const Bucket& bucket = *subscription.bucket;
  if (--subscription.bucket->proxies == 0) buckets_.erase({bucket.domain, bucket.name});
  --stats_.buckets;
}

// Follows the rules and the overrides as they were when the division of all began, or later: a
// bucket may have other limits, and limits may change.
void QuotaService::follow(Subscription& subscription) {
  Bucket& bucket = *subscription.bucket;
  if (bucket.resolved < visit_began_) resolve(bucket);
  if (subscription.linked > bucket.changed) return;
  unlink(subscription);
  link(subscription);
  ask(subscription, false);
}

void QuotaService::resolve(Bucket& bucket) {
  const BucketRules before = std::exchange(bucket.rules, {});
  bucket.rules = resolver_.resolve(rules_, bucket.domain, bucket.attributes);
  const auto is_same = [](const BucketLimit& a, const BucketLimit& b) {
    return a.key == b.key && a.tag == b.tag && a.numbers == b.numbers && a.cost == b.cost &&
           a.weight == b.weight && a.at_least == b.at_least;
  };
  const bool has_changed =
      !bucket.source || before.verdict != bucket.rules.verdict ||
      !std::equal(before.limits.begin(), before.limits.end(), bucket.rules.limits.begin(),
                  bucket.rules.limits.end(), is_same);
  bucket.source = rules_;
  bucket.resolved = last_event_;
  for (const BucketLimit& limit : bucket.rules.limits) counter_of(limit);
  if (!has_changed) return;
  bucket.changed = ++last_event_;
  warn_of(bucket.rules);
}

void QuotaService::link(Subscription& subscription) {
  for (const BucketLimit& limit : subscription.bucket->rules.limits) {
    Counter& counter = counter_of(limit);
    counter.users.insert(counter.place_of(subscription.id), &subscription);
    note(counter);
    subscription.links.push_back({.counter = &counter,
                                  .cost = limit.cost,
                                  .weight = limit.weight,
                                  .at_least = limit.at_least});
  }
  subscription.linked = ++last_event_;
  subscription.is_fresh = true;
  if (subscription.links.empty()) fresh_.emplace(subscription.id, &subscription);
}

// Claims parts of its limits by its latest demand, after a report or after the rules have changed:
// of each limit what the others let it use.
void QuotaService::ask(Subscription& subscription, bool has_reported) {
  const Duration time = subscription.elapsed;
  const auto share = [&](const Link& link, std::uint64_t requests) {
    const std::uint64_t units = std::min(requests, kMaxAmount / link.cost) * link.cost;
    return share_of(link.counter->of.numbers, units, time);
  };
  for (const Link& link : subscription.links) {
    std::uint64_t requests = subscription.units;
    for (const Link& other : subscription.links) {
      if (&other == &link) continue;
      const Counter& counter = *other.counter;
      const std::uint64_t most = counter.parts.available(subscription.id);
      const std::uint64_t units = units_in(counter.of.numbers, most, time);
      requests = std::min(requests, units / other.cost + 1);
    }
    const Limit& own = numbers_of(subscription, link);
    const std::uint64_t most = share_of(link.counter->of.numbers, own.limit(), own.period());
    const quota::Claim claim{.asked = std::min(share(link, requests), most),
                             .weight = link.weight,
                             .at_least = link.share_at_least()};
    quota::Allocator& parts = link.counter->parts;
    has_reported ? parts.report(subscription.id, claim, now_) : parts.ask(subscription.id, claim);
    if (resumes(subscription)) parts.come_back(subscription.id);
  }
}

void QuotaService::unlink(Subscription& subscription) {
  fresh_.erase(subscription.id);
  for (const Link& link : subscription.links) {
    link.counter->parts.remove(subscription.id);
    link.counter->users.erase(link.counter->place_of(subscription.id));
    note(*link.counter);
  }
  subscription.links.clear();
}

QuotaService::Counter& QuotaService::counter_of(const BucketLimit& limit) {
  auto& counter = counters_[{limit.tag, limit.key}];
  if (!counter) counter = std::make_unique<Counter>(rules_, limit, now_);
  const Limit before = counter->of.numbers;
  counter->source = rules_;
  counter->of = limit;
  if (!counter->users.empty() && is_faster(before, limit.numbers)) counter->of.numbers = before;
  return *counter;
}

// The numbers of its own bucket: its plan, or those of the server that asks. Another bucket may
// have others of the same counter. Links are in the order of the limits; a bucket that has other
// limits now is linked again soon.
const Limit& QuotaService::numbers_of(const Subscription& subscription, const Link& link) const {
  const auto index = static_cast<std::size_t>(&link - subscription.links.data());
  const bool is_linked = subscription.linked > subscription.bucket->changed;
  return is_linked ? subscription.bucket->rules.limits[index].numbers : link.counter->of.numbers;
}

// Parts are shares of the fastest numbers that a bucket has.
void QuotaService::follow_numbers(Counter& counter) const {
  const Limit* fastest = nullptr;
  for (const Subscription* const user : counter.users) {
    const Limit& own = numbers_of(*user, user->link_of(counter));
    if (fastest == nullptr || is_faster(own, *fastest)) fastest = &own;
  }
  if (fastest != nullptr) counter.of.numbers = *fastest;
}

// Once for each limit and version of the rules.
void QuotaService::warn_of(const BucketRules& rules) {
  constexpr Duration kLongPeriod = std::chrono::minutes{1};
  for (const BucketLimit& limit : rules.limits) {
    if (limit.numbers.period() <= kLongPeriod) continue;
    const std::string name = rules::full_name(limit.rule->name, limit.limit->name);
    if (std::exchange(warned_[name], version_) == version_) continue;
    parts_.log.warning(
        "the quota service assigns a limit of a long period as an even rate: requests that come "
        "together are denied although it is not used up, unless they ask the server",
        {{"limit", name}, {"numbers", core::format_limit(limit.numbers)}});
  }
  for (const std::string& limit : rules.not_assigned) {
    // Keys of counters may be many, so only their number is bounded.
    if (warned_.size() >= kMostBuckets && !warned_.contains(limit)) return;
    if (std::exchange(warned_[limit], version_) == version_) continue;
    if (!rules.verdict) {
      parts_.log.warning(
          "a server asks for a part of a counter that these rules do not have, or that cannot be "
          "assigned; its on_store_error decides",
          {{"counter", limit}, {"expected", "the same rules in both servers"}});
      continue;
    }
    parts_.log.warning(
        "the quota service cannot assign parts of a limit, and leaves it out: its requests must "
        "ask the server",
        {{"limit", limit}});
  }
}

// In the next step.
void QuotaService::note(Counter& counter) {
  if (!std::exchange(counter.is_news, true)) news_.push_back(&counter);
}

void QuotaService::divide(bool all) {
  divides_all_ |= all;
  has_news_ |= all;
  if (is_dividing_) return;
  is_dividing_ = true;
  now_ = parts_.steady.now();
  has_news_ = false;
  for (; next() <= now_; again_.erase(again_.begin())) {
    const auto found = counters_.find(again_.begin()->second);
    if (found != counters_.end()) note(*found->second);
  }
  divide_some();
  now_ = parts_.steady.now();
  const auto events = std::exchange(events_, {});
  for (const auto& event : events) event();
  is_dividing_ = false;
}

// To be sent at the end of the step.
void QuotaService::order(Proxy& proxy, BucketOrder order) {
  if (proxy.orders.empty()) told_.push_back(&proxy);
  proxy.orders.push_back(std::move(order));
}

void QuotaService::begin_all() {
  if (version_ != parts_.rules.version()) {
    const ActiveRules active = parts_.rules.active();
    rules_ = active.rules;
    version_ = active.version;
  }
  visit_ = Visit::kBuckets;
  visit_began_ = ++last_event_;
  next_bucket_ = {};
  next_counter_ = {};
}

// Goes on with the division of all: first the buckets, then the counters, which become news.
void QuotaService::visit_some(std::vector<Choice>& choices) {
  if (visit_ == Visit::kNone && std::exchange(divides_all_, false)) begin_all();
  if (visit_ == Visit::kBuckets && visit_buckets(choices)) visit_ = Visit::kCounters;
  if (visit_ != Visit::kCounters) return;
  std::size_t visited = 0;
  for (auto at = counters_.lower_bound(next_counter_); at != counters_.end(); ++at) {
    if (visited >= parts_.step) {
      next_counter_ = at->first;
      return;
    }
    visited += 1 + at->second->users.size();
    note(*at->second);
  }
  visit_ = Visit::kNone;
}

// Whether the bucket is to be abandoned. A client reports a bucket until its own time without use,
// so that this service would count those of two such times: of many buckets, also those that are
// left out of some reports.
bool QuotaService::is_idle(const Subscription& subscription) const {
  const Proxy& proxy = *subscription.proxy;
  const bool has_many = proxy.buckets.size() > kMostBuckets / 4 * 3;
  return now_ - subscription.reported >= parts_.config.idle ||
         (has_many && proxy.reported - subscription.reported > ttl_of(subscription));
}

// Abandons those that are idle, and follows the rules. Returns whether all were visited.
bool QuotaService::visit_buckets(std::vector<Choice>& choices) {
  std::size_t visited = 0;
  for (auto proxy = proxies_.lower_bound(next_bucket_.first); proxy != proxies_.end(); ++proxy) {
    auto& buckets = proxy->second->buckets;
    const bool continues = proxy->first == next_bucket_.first;
    auto at = continues ? buckets.lower_bound(next_bucket_.second) : buckets.begin();
    while (at != buckets.end()) {
      Subscription& subscription = at->second;
      if (visited++ == parts_.step) {
        next_bucket_ = {proxy->first, subscription.bucket->name};
        return false;
      }
      if (is_idle(subscription)) {
        order(*proxy->second, {.bucket = subscription.bucket->name, .assignment = {}});
        unsubscribe(subscription);
        at = buckets.erase(at);
        continue;
      }
      follow(subscription);
      if (subscription.links.empty() && is_old(subscription)) consider(subscription, choices);
      ++at;
    }
  }
  return true;
}

}  // namespace sluice::server
