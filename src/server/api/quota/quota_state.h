#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/quota/quota_service.h"

// What the service knows of counters, buckets and proxies; for the files of this folder.
namespace sluice::server {

// How long messages may take that are on their way.
inline constexpr Duration kQuotaLatency = std::chrono::seconds{1};

// A bucket, of all proxies that report it.
struct QuotaService::Bucket {
  std::string name;  // its id
  std::string domain;
  BucketAttributes attributes;
  std::optional<RuleSet> source = {};  // which `rules` borrows from
  BucketRules rules = {};
  std::uint64_t resolved = 0;  // the last event before that
  std::uint64_t changed = 0;   // the event by which it got other limits
  std::size_t proxies = 0;     // that report it
};

// What a bucket has in a counter.
struct QuotaService::Link {
  Counter* counter;
  std::uint64_t cost;
  std::uint32_t weight;
  std::uint8_t at_least;  // percent of the limit

  std::uint64_t share_at_least() const noexcept { return quota::kWhole / 100 * at_least; }
};

// A bucket of a proxy.
struct QuotaService::Subscription {
  std::uint64_t id;
  Proxy* proxy;
  Bucket* bucket;
  std::vector<Link> links = {};
  std::uint64_t linked = 0;  // that event
  Instant reported{};
  Duration interval{0};       // of the reports; 0: not known
  std::uint64_t units = 0;    // requests of the latest report
  std::uint64_t allowed = 0;  // of these
  Duration elapsed{0};        // and their time
  std::optional<Assignment> sent = {};
  Instant sent_at{};
  std::chrono::milliseconds ttl{0};
  bool resumes = false;    // the proxy had the bucket before its stream
  bool is_fresh = true;    // it must be sent since it was linked
  bool is_chosen = false;  // to be sent in this step

  const Link& link_of(const Counter& counter) const {
    return *std::ranges::find(links, &counter, &Link::counter);
  }
};

// A counter of a limit, which is divided.
struct QuotaService::Counter {
  Counter(const RuleSet& rules, const BucketLimit& limit, Instant now)
      : source(rules), of(limit), parts(kQuotaLatency), counted(now), counted_by(limit.numbers) {}

  RuleSet source;  // which `of` borrows from, for as long as its parts may be used
  BucketLimit of;
  quota::Allocator parts;
  std::vector<Subscription*> users = {};     // by their ids
  unsigned __int128 left = 0, due_left = 0;  // see units_in()
  Instant counted;                           // until when its units are in `owed`
  Limit counted_by;                          // the numbers by which they are
  std::uint64_t owed = 0;                    // units to take that may be in use already
  Instant again = {};                        // when the store is asked for them again
  std::uint64_t wanted = 0;                  // units for the starts of new assignments
  std::uint64_t ready = 0;                   // of these, taken
  std::uint64_t due = 0;                     // for starts, whatever direct requests have taken
  unsigned __int128 charged_more = 0;        // than the units needed, see charged_for()
  bool is_awaited = false;                   // an assignment waits until more is `ready`
  QuotaShare share = {};                     // of this server
  std::uint64_t level = 0;                   // by which it was weighed last
  std::uint64_t total = quota::kWhole;       // without what is owed
  std::optional<Reason> failure = {};        // why the store cannot decide
  bool is_blocked = false;
  bool is_news = false;
  std::uint64_t planned = 0;  // the event of its latest plan

  // The place of the subscription with this id.
  auto place_of(std::uint64_t id) {
    return std::ranges::lower_bound(users, id, {}, &Subscription::id);
  }
};

// What a subscription is to get.
struct QuotaService::Choice {
  Subscription* to;
  Assignment next;
  bool renews = false;  // `next` is the latest again, and its part too
};

struct QuotaService::Proxy {
  std::string domain;
  std::string peer;
  SendOrders send;
  Instant opened = {};
  Instant reported = {};                                  // any bucket
  std::map<std::string_view, Subscription> buckets = {};  // by name
  std::vector<BucketOrder> orders = {};                   // to be sent
  bool warned_of_buckets = false;
};

}  // namespace sluice::server
