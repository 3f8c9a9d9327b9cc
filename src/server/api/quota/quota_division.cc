// The division of limits: units are counted, parts planned, and assignments sent.

#include <algorithm>
#include <set>
#include <utility>

#include "server/api/quota/quota_service.h"
#include "server/api/quota/quota_state.h"

namespace sluice::server {
namespace {

using Wide = unsigned __int128;
constexpr std::uint64_t kWhole = quota::kWhole;
// Before the interval of a proxy's reports is known: Envoy reports every 5 s.
constexpr Duration kFirstTtl = std::chrono::seconds{15};
constexpr Duration kLongestTtl = std::chrono::seconds{60};
// Until the store is asked again about a limit, and before the end of a slice.
constexpr Duration kShortestWait = std::chrono::milliseconds{10};

}  // namespace

// Counts what is in use, plans the parts, chooses who gets a new assignment, takes the
// units that it begins with, and sends those for which there are units.
void QuotaService::divide_some() {
  std::vector<Choice> choices;
  visit_some(choices);
  for (std::size_t i = 0; i < parts_.step && !fresh_.empty(); ++i) {
    consider(*fresh_.begin()->second, choices);
  }
  const std::vector<Counter*> counters = take_news();
  for (Counter* const counter : counters) follow_numbers(*counter);
  has_news_ = visit_ != Visit::kNone || divides_all_ || !news_.empty() || !fresh_.empty();
  ask_store(counters, [this](Counter& counter) {
    count(counter);
    claim(counter);
  });
  std::vector<Subscription*> changed;
  for (Counter* const counter : counters) plan(*counter, changed);
  for (Subscription* const subscription : changed) consider(*subscription, choices);
  for (Counter* const counter : counters) {
    for (Subscription* const user : counter->users) {
      if (user->is_fresh || is_old(*user)) consider(*user, choices);
    }
  }
  take_starts(choices);
  send(choices);
  forget_unused(counters);
}

// The oldest news: twice as much as a step of the division of all adds.
std::vector<QuotaService::Counter*> QuotaService::take_news() {
  std::vector<Counter*> out;
  for (std::size_t work = 0; !news_.empty() && work < 2 * parts_.step;) {
    Counter& counter = *news_.front();
    news_.pop_front();
    counter.is_news = false;
    work += 1 + counter.users.size();
    out.push_back(&counter);
  }
  return out;
}

void QuotaService::consider(Subscription& subscription, std::vector<Choice>& choices) {
  if (subscription.links.empty()) fresh_.erase(subscription.id);
  if (subscription.is_chosen) return;
  const auto next = choose(subscription);
  if (!next) return;
  subscription.is_chosen = true;
  choices.push_back({&subscription, *next});
}

void QuotaService::ask_store(const std::vector<Counter*>& all,
                             const std::function<void(Counter&)>& ask) {
  if (parts_.for_each) {
    return parts_.for_each(all.size(), [&](std::size_t index) { ask(*all[index]); });
  }
  for (Counter* const counter : all) ask(*counter);
}

// Notes why the store cannot decide; absent: it can.
void QuotaService::fail(Counter& counter, std::optional<Reason> why) {
  stats_.not_renewed += why.has_value();
  stats_.not_renewed -= counter.failure.has_value();
  counter.failure = why;
}

// Takes up to that many units of the counter in the store, and notes why it cannot. A blocked
// counter needs none, and only looks whether the block has ended.
std::uint64_t QuotaService::take(Counter& counter, std::uint64_t units) {
  units = std::min(units, counter.of.numbers.capacity());
  if (units == 0 && !counter.is_blocked) return 0;
  const Charge charge = counter.of.charge(std::max<std::uint64_t>(units, 1));
  const Verb verb = units > 0 ? Verb::kTakeAtMost : Verb::kPeek;
  Decision each;
  const Decision said = parts_.limiter.apply(verb, {&charge, 1}, {&each, 1}, std::nullopt);
  if (!has_numbers(said)) fail(counter, said.reason);
  counter.is_blocked = said.reason == Reason::kBlocked;
  const std::uint64_t taken = said.allowed() && !counter.failure ? said.taken : 0;
  stats_.assigned += taken;
  return taken;
}

// What to charge for these units, so that direct requests are kept out for as many. A log forgets
// them a period later, when direct requests may be faster than the next charge: the worst case is
// a charge in each `every`. 0: a fixed window forgets all at its end.
std::uint64_t QuotaService::charged_for(Counter& counter, std::uint64_t units) const {
  const Limit& limit = counter.of.numbers;
  const bool is_log = limit.algorithm() == Algorithm::kSlidingWindowLog ||
                      limit.algorithm() == Algorithm::kSlidingWindowHybrid;
  const Duration every = parts_.config.every;
  if (limit.algorithm() == Algorithm::kFixedWindow || (is_log && every > limit.period())) return 0;
  if (!is_log) return units;
  const auto of = static_cast<std::uint64_t>((2 * limit.period() - every).count());
  const Wide more = Wide{units} * static_cast<std::uint64_t>(every.count());
  // Rounded up once, and not for each charge. If the limit was changed, one unit counts at most.
  const Wide before = std::min<Wide>(counter.charged_more, of);
  const Wide whole = more > before ? (more - before + of - 1) / of : 0;
  counter.charged_more = before + whole * of - more;
  return units + static_cast<std::uint64_t>(whole);
}

// Counts units, also beyond the limit, which keep direct requests out until there is room again.
std::uint64_t QuotaService::charge(Counter& counter, std::uint64_t units) {
  units = std::min(units, counter.of.numbers.capacity());
  if (!parts_.charges || units == 0 || counter.is_blocked || counter.failure) return 0;
  const std::uint64_t cost = charged_for(counter, units);
  if (cost == 0) return 0;
  const Charge charge = counter.of.charge(cost);
  Decision each;
  const Decision said = parts_.limiter.apply(Verb::kCharge, {&charge, 1}, {&each, 1}, std::nullopt);
  if (!has_numbers(said)) fail(counter, said.reason);
  if (!said.allowed() || counter.failure) return 0;
  stats_.assigned += units;
  return units;
}

// Counts the units of all parts since the last time. Half of the limit is counted even if direct
// requests have taken all.
void QuotaService::count(Counter& counter) {
  fail(counter, std::nullopt);
  const Limit& limit = counter.of.numbers;
  if (counter.counted_by != limit) {
    // Units by a faster limit would take hours of this one, and fractions are of the other period.
    counter.counted_by = limit;
    const std::uint64_t most = tolerated_in(counter);
    counter.owed = std::min(counter.owed, most);
    counter.ready = std::min(counter.ready, most);
    counter.left = counter.due_left = 0;
  }
  const Duration time = now_ - counter.counted;
  const std::uint64_t held = counter.parts.held(now_);
  counter.owed += units_in(limit, held, time, &counter.left);
  const std::uint64_t half = counter.share.part / 2;
  counter.due = units_in(limit, half - std::min(half, held), time, &counter.due_left);
  counter.counted = now_;
  // Keeps the units of a start that waits; what is owed is paid later.
  const bool keeps_ready = std::exchange(counter.is_awaited, false) && half > held;
  if (!keeps_ready) {
    const std::uint64_t spare = std::min(counter.owed, counter.ready);
    counter.owed -= spare;
    counter.ready -= spare;
    counter.owed -= take(counter, counter.owed);
  }
  const std::uint64_t most = owed_by(counter, half);
  if (counter.owed > most) counter.owed -= charge(counter, counter.owed - most);
  if (counter.owed > 0 && !counter.failure) ask_again(counter);
  // When it is back, it admits what was used meanwhile, except for the units of a full limit.
  if (counter.failure) counter.owed = std::min(counter.owed, counter.of.numbers.capacity());
  // What shadow rules only count.
  take(counter, std::exchange(counter.wanted, 0));
}

// Finds out when the store has the units that are owed, if that is before the next division of all:
// a window that opens, or has more units, between two divisions would lose them.
void QuotaService::ask_again(Counter& counter) {
  const Duration every = parts_.config.every;
  // A denial counts for a block.
  if (counter.again > now_ || counter.is_blocked || counter.of.block != nullptr) return;
  const Limit& limit = counter.of.numbers;
  const Charge charge = counter.of.charge(std::min(counter.owed, limit.capacity()));
  Decision each;
  const Decision said = parts_.limiter.apply(Verb::kPeek, {&charge, 1}, {&each, 1}, std::nullopt);
  Duration time = said.retry_after.value_or(Duration{0});
  if (limit.algorithm() == Algorithm::kSlidingWindowCounter) {
    // The counter assumes that a slice was used evenly, so what is taken late in it counts for the
    // shortest time: requests at the end of each slice could use the whole window.
    const Duration slice = limit.period() / limit.slices();
    time = said.reset_after % slice - std::max<Duration>(slice / 50, kShortestWait);
    if (time < every / 20) time += slice;
  }
  time = std::max({time, every / 20, kShortestWait});
  if (time >= every) return;
  counter.again = now_ + time;
  again_.emplace(counter.again, Key{counter.of.tag, counter.of.key});
}

// Asks for a share of the limit, for as long as its parts may be used.
void QuotaService::claim(Counter& counter) {
  if (!parts_.claim_share) return;
  std::uint64_t asked = 0;
  // Those who ask for less than their least part need one of these together while one is new, and
  // then a quarter: else some servers without demand would keep a part of the limit.
  std::uint64_t idle = 0;
  std::uint64_t largest = 0;
  Duration ttl =
      std::max(Duration{parts_.config.every} + kQuotaLatency, counter.parts.last_use() - now_);
  for (const Subscription* const user : counter.users) {
    const std::uint64_t one = counter.parts.asked(user->id);
    asked = std::min(asked + one, kWhole);
    ttl = std::max(ttl, Duration{ttl_of(*user)} + Duration{parts_.config.every} + kQuotaLatency);
    const std::uint64_t least = user->link_of(counter).share_at_least();
    if (one >= least) continue;
    idle += least - one;
    const bool is_new = user->interval.count() == 0;
    largest = std::max(largest, is_new ? least : least / 4);
  }
  idle = std::min(idle, largest);
  const auto [weight, most_weight] = weights_of(counter, idle);
  const quota::Claim claim{.asked = std::min(asked + idle, kWhole), .weight = weight};
  const std::uint64_t held = counter.parts.held(now_);
  const auto share = parts_.claim_share(counter.of.charge(0), claim, most_weight, held, ttl);
  if (!share) fail(counter, Reason::kStoreError);
  counter.share = share.value_or(counter.share);
}

// Returns the weight of this server, in 1/1024: the weights of those who ask for more than their
// part of its fair share. What the others ask for, and what is `idle`, count as the weight that
// would get that part. Then servers divide a limit as one server would. The second is its weight if
// all asked for more.
std::pair<std::uint64_t, std::uint64_t> QuotaService::weights_of(Counter& counter,
                                                                 std::uint64_t idle) const {
  constexpr Wide kOne = 1024;
  std::vector<quota::Claim> asks;
  std::uint64_t weights = 0;
  for (const Subscription* const user : counter.users) {
    asks.push_back(
        {.asked = counter.parts.asked(user->id), .weight = user->link_of(counter).weight});
    weights += asks.back().weight;
  }
  const Wide all = std::max<Wide>(kOne * weights, 1);
  std::ranges::sort(asks, [](const quota::Claim& a, const quota::Claim& b) {
    return Wide{a.asked} * b.weight < Wide{b.asked} * a.weight;
  });
  // The part for each weight of those who ask for more; of all the largest, if they get it.
  std::uint64_t level = 1;
  std::uint64_t left = counter.share.fair;
  for (const quota::Claim& one : asks) {
    if (one.weight == 0) continue;
    level = std::max<std::uint64_t>(one.asked / one.weight, 1);
    if (Wide{level} * weights > left) {
      level = std::max<std::uint64_t>(left / weights, 1);
      break;
    }
    left -= one.asked;
    weights -= one.weight;
  }
  // A larger level makes the weight smaller, and that the next level: it falls by half the way, so
  // that it does not go up and down.
  level = counter.level = std::max(level, counter.level / 2 + level / 2);
  Wide sum = idle * kOne / level;
  for (const quota::Claim& one : asks) {
    sum += std::min(kOne * one.weight, one.asked * kOne / level);
  }
  return {static_cast<std::uint64_t>(std::clamp<Wide>(sum, 1, all)),
          static_cast<std::uint64_t>(all)};
}

// The time in which smaller parts pay back what is owed: more than it takes until they are in use.
Duration QuotaService::horizon_of(const Counter& counter) const {
  Duration interval{0};
  for (const Subscription* const user : counter.users) {
    interval = std::max(interval, user->interval);
  }
  return 4 * std::max(Duration{parts_.config.every}, kQuotaLatency) + 2 * interval;
}

// What may be owed before parts are lowered: the units of the time between two divisions, and at
// least one, because the parts of a slow limit owe one now and then. A window that is full for a
// moment takes them later. Parts that follow each such moment would lose more of the limit.
std::uint64_t QuotaService::tolerated_in(const Counter& counter) const {
  const Duration time = std::max(Duration{parts_.config.every}, kQuotaLatency);
  return std::max<std::uint64_t>(units_in(counter.of.numbers, counter.share.part, time), 1);
}

// What may be owed if that share of the limit pays it back.
std::uint64_t QuotaService::owed_by(const Counter& counter, std::uint64_t share) const {
  return tolerated_in(counter) + units_in(counter.of.numbers, share, horizon_of(counter));
}

// What is owed beyond tolerated_in() is paid back by smaller parts.
void QuotaService::plan(Counter& counter, std::vector<Subscription*>& changed) {
  counter.planned = ++last_event_;
  const std::uint64_t late = counter.owed - std::min(counter.owed, tolerated_in(counter));
  const std::uint64_t owed = share_of(counter.of.numbers, late, horizon_of(counter));
  counter.total = counter.is_blocked || owed > counter.share.part ? 0 : counter.share.part - owed;
  if (counter.of.numbers.limit() == 0) counter.total = 0;
  const std::uint64_t more = counter.share.most - std::min(counter.share.part, counter.share.most);
  const std::uint64_t unclaimed = counter.total == 0 ? 0 : more;
  for (const auto id : counter.parts.plan(counter.total, now_, unclaimed)) {
    const auto user = counter.place_of(id);
    if (user != counter.users.end() && (*user)->id == id) changed.push_back(*user);
  }
}

// Returns what the bucket gets, if that must be sent.
std::optional<Assignment> QuotaService::choose(Subscription& subscription) {
  const BucketRules& rules = subscription.bucket->rules;
  if (!rules.verdict) return std::nullopt;
  Assignment next{.kind = *rules.verdict};
  bool has_failed = false;
  if (rules.verdict == Assignment::Kind::kTokens) {
    std::vector<QuotaPart> parts;
    for (const Link& link : subscription.links) {
      const Counter& counter = *link.counter;
      if (counter.planned < subscription.linked) return std::nullopt;  // in a later step
      if (waits(subscription, link)) return std::nullopt;
      has_failed |= counter.failure.has_value();
      parts.push_back({.share = counter.parts.planned(subscription.id),
                       .limit = counter.of.numbers,
                       .cost = link.cost});
      const Limit& own = numbers_of(subscription, link);
      if (own != counter.of.numbers) {
        parts.push_back({.share = kWhole, .limit = own, .cost = link.cost});
      }
    }
    next = assign(parts, parts_.config.every);
  }
  // Without a store, assignments expire, and a new bucket gets none.
  if (has_failed) return std::nullopt;
  if (std::exchange(subscription.is_fresh, false) || !subscription.sent) return next;
  return is_old(subscription) || next != *subscription.sent ? std::optional(next) : std::nullopt;
}

// Whether the assignment must be renewed; also true if there was none.
bool QuotaService::is_old(const Subscription& subscription) const {
  return now_ - subscription.sent_at >= Duration{subscription.ttl} / 3;
}

// Whether the proxy may use an assignment of an earlier stream, because it has none of this one.
bool QuotaService::resumes(const Subscription& subscription) const {
  const Duration longest = Duration{ttl_of(subscription)} + Duration{parts_.config.every};
  return subscription.resumes && !subscription.sent &&
         now_ < subscription.proxy->opened + longest + kQuotaLatency;
}

// Whether it uses more of an earlier assignment than it would get: of one that counts in the parts
// of streams that have ended, or at another server.
bool QuotaService::waits(const Subscription& subscription, const Link& link) const {
  const Counter& counter = *link.counter;
  if (!resumes(subscription)) return false;
  if (!counter.parts.has_gone() && counter.share.part == kWhole) return false;
  const std::uint64_t requests = std::min(subscription.allowed, kMaxAmount / link.cost);
  const std::uint64_t used =
      share_of(counter.of.numbers, requests * link.cost, subscription.elapsed);
  // Who used far more than the limit had no assignment. (Envoy rounds its time down to seconds.)
  if (used > 2 * kWhole) return false;
  // Less, because Envoy rounds 5 s down to 4 s.
  return counter.parts.planned(subscription.id) < std::max<std::uint64_t>(used / 4 * 3, 1);
}

// A proxy that has a token bucket keeps the tokens that it has, and time alone adds more, which
// count() counts. Only a bucket without one before it begins with all of its tokens. (Envoy 1.40
// does this; a client that begins with a full bucket at each change uses more.)
std::uint64_t QuotaService::start_of(const Choice& choice, std::uint64_t cost) const {
  const Subscription& subscription = *choice.to;
  // The old one may expire while the new one is on its way.
  const bool is_active = now_ + kQuotaLatency < subscription.sent_at + Duration{subscription.ttl};
  const auto kind = subscription.sent ? subscription.sent->kind : Assignment::Kind::kDenyAll;
  if (is_active && kind == Assignment::Kind::kTokens) return 0;
  return std::min<std::uint64_t>(choice.next.tokens, kMaxAmount / cost) * cost;
}

void QuotaService::take_starts(const std::vector<Choice>& choices) {
  std::set<Counter*> asked;
  for (const Choice& choice : choices) {
    if (choice.to->sent == choice.next) continue;
    for (const Link& link : choice.to->links) {
      link.counter->wanted += start_of(choice, link.cost);
      asked.insert(link.counter);
    }
  }
  ask_store({asked.begin(), asked.end()}, [this](Counter& counter) {
    const std::uint64_t wanted = std::exchange(counter.wanted, 0);
    counter.ready += take(counter, wanted - std::min(counter.ready, wanted));
    const std::uint64_t lacking = wanted - std::min(counter.ready, wanted);
    counter.ready += charge(counter, std::min(lacking, std::exchange(counter.due, 0)));
  });
}

void QuotaService::send(std::vector<Choice>& choices) {
  for (Choice& choice : choices) {
    Subscription& to = *choice.to;
    to.is_chosen = false;
    const auto has_failed = [](const Link& link) { return link.counter->failure.has_value(); };
    if (std::ranges::any_of(to.links, has_failed)) continue;  // as choose() does
    if (to.sent != choice.next && !settle(choice)) continue;
    stats_.reassignments += to.sent && *to.sent != choice.next ? 1 : 0;
    to.sent = choice.next;
    to.sent_at = now_;
    to.ttl = ttl_of(to);
    for (const Link& link : to.links) {
      quota::Allocator& parts = link.counter->parts;
      parts.sent(to.id, part_of(choice, link), to.ttl, now_);
    }
    order(*to.proxy, {.bucket = to.bucket->name, .assignment = choice.next, .ttl = to.ttl});
  }
  for (Proxy* const proxy : std::exchange(told_, {})) {
    proxy->send(std::exchange(proxy->orders, {}));
  }
}

// The part of the limit that the assignment uses: the planned one, or less if another limit is
// stricter.
std::uint64_t QuotaService::part_of(const Choice& choice, const Link& link) const {
  if (choice.renews) return link.counter->parts.assigned(choice.to->id);
  if (choice.next.kind != Assignment::Kind::kTokens) return 0;
  const std::uint64_t planned = link.counter->parts.planned(choice.to->id);
  const bool is_only = choice.to->links.size() == 1;
  if (is_only && numbers_of(*choice.to, link) == link.counter->of.numbers) return planned;
  const std::uint64_t units =
      std::min<std::uint64_t>(choice.next.tokens, kMaxAmount / link.cost) * link.cost;
  return std::min(planned, share_of(link.counter->of.numbers, units, choice.next.interval) + 1);
}

// Pays for the tokens that the assignment begins with; those that are missing are owed, except for
// a raise. That waits until the limit is divided again: returns false, or assigns DENY_ALL to a
// bucket that is new or had no limit. In the last third of the latest assignment the tokens of a
// raise are owed, too, or the latest is renewed if too much is owed.
bool QuotaService::settle(Choice& choice) {
  const Subscription& subscription = *choice.to;
  bool has_units = true;
  bool may_owe = true;
  bool is_raised = false;
  for (const Link& link : subscription.links) {
    Counter& counter = *link.counter;
    const std::uint64_t start = start_of(choice, link.cost);
    const bool lacks = counter.ready < start;
    counter.is_awaited |= lacks;
    has_units &= !lacks;
    may_owe &= !lacks || counter.owed + start <= owed_by(counter, counter.share.part);
    is_raised |= part_of(choice, link) > counter.parts.assigned(subscription.id);
  }
  constexpr auto kAllowAll = Assignment::Kind::kAllowAll;
  const bool has_limit = subscription.sent && subscription.sent->kind != kAllowAll;
  const Duration age = now_ - subscription.sent_at;
  const Duration ttl{subscription.ttl};
  const bool is_late = has_limit && age >= ttl / 3 * 2;
  if (has_units || !is_raised || (is_late && may_owe)) {
    for (const Link& link : subscription.links) {
      const std::uint64_t start = start_of(choice, link.cost);
      const std::uint64_t paid = std::min(link.counter->ready, start);
      link.counter->ready -= paid;
      link.counter->owed += start - paid;
    }
    return true;
  }
  if (is_late && age < ttl) {
    choice = {.to = choice.to, .next = *subscription.sent, .renews = true};
    return true;
  }
  if (has_limit || resumes(subscription)) return false;
  choice.next = {.kind = Assignment::Kind::kDenyAll};
  return true;
}

// Three reports may be lost.
std::chrono::milliseconds QuotaService::ttl_of(const Subscription& subscription) const {
  const QuotaConfig& config = parts_.config;
  if (config.ttl.count() > 0) return config.ttl;
  const Duration interval = subscription.interval;
  const Duration wanted = interval.count() > 0 ? 3 * interval : kFirstTtl;
  const Duration ttl = std::min(std::max(wanted, 3 * Duration{config.every}), kLongestTtl);
  return std::chrono::ceil<std::chrono::milliseconds>(ttl);
}

void QuotaService::forget_unused(const std::vector<Counter*>& counters) {
  for (Counter* const counter : counters) {
    if (counter->is_news || !counter->users.empty() || !counter->parts.empty(now_)) continue;
    fail(*counter, std::nullopt);
    counters_.erase({counter->of.tag, counter->of.key});
  }
}

QuotaStats QuotaService::stats() const {
  QuotaStats out = stats_;
  out.proxies = proxies_.size();
  return out;
}

void QuotaService::write_counter(base::JsonWriter& json, const Counter& counter,
                                 std::size_t& most) const {
  const Limit& limit = counter.of.numbers;
  const auto per_second = [&](std::uint64_t share) {
    return static_cast<double>(share) / static_cast<double>(kWhole) *
           static_cast<double>(limit.limit()) * 1e6 / static_cast<double>(limit.period().count());
  };
  json.begin_object()
      .member("rule", counter.of.rule->name)
      .member("limit", counter.of.limit->name)
      .key("key")
      .visible_value(counter.of.label)
      .member("units_per_second", per_second(kWhole))
      .member("share_per_second", per_second(counter.share.part))
      .member("available_per_second", per_second(counter.total))
      .member("owed", counter.owed);
  if (counter.failure) json.member("failure", to_string(*counter.failure));
  json.member("subscribers", static_cast<std::uint64_t>(counter.users.size())).key("parts");
  json.begin_array();
  for (const Subscription* const user : counter.users) {
    if (most == 0) break;
    --most;
    const std::uint64_t id = user->id;
    const quota::Allocator& parts = counter.parts;
    const Duration left = std::max(parts.expires(id) - parts_.steady.now(), Duration{0});
    json.begin_object()
        .member("id", id)
        .member("peer", user->proxy->peer)
        .key("bucket")
        .begin_object();
    for (const auto& [name, value] : user->bucket->attributes) {
      json.key(name).visible_value(value);
    }
    json.end_object()
        .member("demand_per_second", per_second(parts.asked(id)))
        .member("part_per_second", per_second(parts.assigned(id)))
        .member("held_per_second", per_second(parts.held(id)))
        .member("expires_ms", std::chrono::floor<std::chrono::milliseconds>(left).count())
        .end_object();
  }
  json.end_array().end_object();
}

void QuotaService::write(base::JsonWriter& json, std::size_t most) const {
  json.begin_object()
      .member("proxies", static_cast<std::uint64_t>(proxies_.size()))
      .member("buckets", stats_.buckets)
      .key("counters")
      .begin_array();
  for (const auto& [key, counter] : counters_) {
    if (most == 0) break;
    if (!counter->users.empty()) write_counter(json, *counter, most);
  }
  json.end_array().end_object();
}

}  // namespace sluice::server
