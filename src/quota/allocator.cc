#include "quota/allocator.h"

#include <algorithm>
#include <numeric>

namespace sluice::quota {
namespace {

using Wide = unsigned __int128;

// A level of the water at which the part of a claim begins or ceases to rise.
struct Mark {
  std::size_t claim;
  std::uint64_t part;  // of the claim at this level
  bool is_full;
};

// Lowers the least parts of those who ask for less: of what others ask for, they get together at
// most that share of the total more than they ask for. Else many of them would keep the limit from
// those who need it. If the least parts do not fit even then, there are none, so that who asks for
// little gets it. `fits` is whether they did the last time: if not, they must fit with 1/16 left,
// so that small changes of the total do not change all parts again and again.
void fit_least(std::span<Claim> claims, std::uint64_t total, bool& fits) {
  Wide asked = 0;
  Wide idle = 0;
  std::uint64_t largest = 0;
  for (const Claim& claim : claims) {
    asked += claim.asked;
    if (claim.asked >= claim.at_least) continue;
    idle += claim.at_least - claim.asked;
    largest = std::max(largest, claim.at_least);
  }
  const Wide most =
      std::max<Wide>(Wide{largest} * total / kWhole, total - std::min<Wide>(asked, total));
  Wide least = 0;
  for (Claim& claim : claims) {
    if (claim.asked < claim.at_least && idle > most) {
      const Wide more = (claim.at_least - claim.asked) * most / idle;
      claim.at_least = claim.asked + static_cast<std::uint64_t>(more);
    }
    least += claim.at_least;
  }
  fits = least <= (fits ? total : total - total / 16);
  if (fits) return;
  for (Claim& claim : claims) {
    claim.asked = std::max(claim.asked, claim.at_least);
    claim.at_least = 0;
  }
}

}  // namespace

// Water filling: the level of the water rises. The part of a claim is its weight times the level,
// from the level of its floor to that of what it asks for.
void divide(std::span<const Claim> claims, std::uint64_t total, std::span<std::uint64_t> parts) {
  Wide floors = 0;
  for (const Claim& claim : claims) floors += std::min(claim.at_least, total);
  std::vector<Mark> marks;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const auto& [asked, weight, at_least] = claims[i];
    parts[i] = std::min(at_least, total);
    if (floors > total) parts[i] = static_cast<std::uint64_t>(Wide{parts[i]} * total / floors);
    if (asked <= parts[i] || weight == 0) continue;
    marks.push_back({i, parts[i], false});
    marks.push_back({i, asked, true});
  }
  if (floors >= total) return;
  const auto lower = [&](const Mark& a, const Mark& b) {
    return Wide{a.part} * claims[b.claim].weight < Wide{b.part} * claims[a.claim].weight;
  };
  std::ranges::stable_sort(marks, lower);
  // For the claims whose part rises at this level.
  Wide left = total - floors;
  Wide weights = 0;
  std::vector<bool> rises(claims.size());
  for (const auto& [i, part, is_full] : marks) {
    if (weights * part > left * claims[i].weight) break;
    rises[i] = !is_full;
    parts[i] = part;
    left = is_full ? left - part : left + part;
    weights = is_full ? weights - claims[i].weight : weights + claims[i].weight;
  }
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (rises[i]) parts[i] = static_cast<std::uint64_t>(left * claims[i].weight / weights);
  }
}

std::uint64_t Allocator::Subscriber::held() const noexcept {
  std::uint64_t most = last.part;
  for (const Sent& sent : replaced) most = std::max(most, sent.part);
  return most;
}

void Allocator::ask(Id id, const Claim& claim) {
  Subscriber& one = all_[id];
  one.is_gone = false;  // it may have come back
  const std::uint64_t used = std::min(one.claim.asked, one.assigned);
  one.claim = claim;
  one.claim.asked = std::max(claim.asked, used / 2);
}

void Allocator::report(Id id, const Claim& claim, Instant now) {
  ask(id, claim);
  Subscriber& one = all_[id];
  // Nothing from before the latest part that has surely arrived is used.
  const auto has_arrived = [&](const Sent& sent) { return now - sent.at >= latency_; };
  if (has_arrived(one.last)) return one.replaced.clear();
  const auto arrived = std::ranges::find_if(one.replaced, has_arrived);
  if (arrived != one.replaced.end()) one.replaced.erase_after(arrived, one.replaced.end());
}

void Allocator::expire(Instant now) {
  for (auto at = all_.begin(); at != all_.end();) {
    Subscriber& one = at->second;
    one.replaced.remove_if([&](const Sent& sent) { return sent.until <= now; });
    const bool has_none = one.last.until <= now;
    if (has_none) {
      one.last.part = 0;
      one.assigned = 0;
    }
    at = one.is_gone && has_none && one.replaced.empty() ? all_.erase(at) : std::next(at);
  }
}

std::vector<Allocator::Id> Allocator::plan(std::uint64_t total, Instant now,
                                           std::uint64_t unclaimed) {
  expire(now);
  std::vector<Id> ids;
  std::vector<Subscriber*> subscribers;
  std::vector<Claim> claims;
  std::uint64_t held = 0;
  std::uint64_t gone = 0;
  std::uint64_t back = 0;
  for (auto& [id, one] : all_) {
    held += one.held();
    if (one.is_gone) {
      gone += one.held();
      continue;
    }
    if (one.is_back) back += std::min(one.claim.asked, total);
    ids.push_back(id);
    subscribers.push_back(&one);
    claims.push_back(one.claim);
  }
  has_gone_ = gone > 0;
  const std::uint64_t left = total - std::min(gone - std::min(gone, back), total);
  fit_least(claims, left, fits_);
  std::vector<std::uint64_t> parts(claims.size());
  divide(claims, left, parts);
  spare_ = left - std::min(left, std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}));
  spare_ += unclaimed;
  level_ = kNoLevel;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] >= claims[i].asked || claims[i].weight == 0) continue;
    level_ = std::min(level_, parts[i] / claims[i].weight);
  }
  if (level_ < kNoLevel && total > 0) {
    level_ = static_cast<std::uint64_t>(Wide{level_} * (total + unclaimed) / total);
  }
  const std::uint64_t free = total > held ? total - held : 0;
  std::vector<Claim> raises(claims.size(), Claim{0, 1, 0});
  std::uint64_t wanted = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Subscriber& one = *subscribers[i];
    if (parts[i] <= one.held()) continue;
    raises[i] = {parts[i] - one.held(), claims[i].weight, 0};
    wanted += raises[i].asked;
  }
  std::vector<Id> changed;
  std::vector<std::uint64_t> added(claims.size());
  divide(raises, free, added);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Subscriber& one = *subscribers[i];
    const std::uint64_t next = raises[i].asked > 0 ? one.held() + added[i] : parts[i];
    const std::uint64_t step = one.assigned / 32;
    const bool is_raise = next > one.assigned;
    // A change costs the units that the other part begins with. A raise must be worth that; a part
    // is lowered as soon as another subscriber, or less total, needs it.
    const bool is_needed = is_raise ? next - one.assigned >= step
                                    : wanted > free || held > total || one.assigned - next > step;
    one.planned = is_needed ? next : one.assigned;
    if (one.planned != one.assigned) changed.push_back(ids[i]);
  }
  return changed;
}

const Allocator::Subscriber& Allocator::of(Id id) const {
  static const Subscriber kNone;
  const auto found = all_.find(id);
  return found == all_.end() ? kNone : found->second;
}

void Allocator::sent(Id id, std::uint64_t part, Duration ttl, Instant now) {
  const auto found = all_.find(id);
  if (found == all_.end()) return;
  Subscriber& one = found->second;
  one.assigned = one.planned = part;
  one.is_back = false;
  // The same again only lasts longer. Its message may be lost, so it never lasts less long.
  const Instant until = now + ttl + latency_;
  if (one.last.until > now && one.last.part == part) {
    one.last.until = std::max(one.last.until, until);
    return;
  }
  if (one.last.until > now) one.replaced.push_front(one.last);
  one.last = {part, now, until};
}

void Allocator::come_back(Id id) {
  if (const auto found = all_.find(id); found != all_.end()) found->second.is_back = true;
}

void Allocator::remove(Id id) {
  if (const auto found = all_.find(id); found != all_.end()) found->second.is_gone = true;
}

std::uint64_t Allocator::available(Id id) const {
  const auto found = all_.find(id);
  if (found == all_.end()) return kNoLevel;
  const Subscriber& one = found->second;
  if (level_ < kNoLevel) return std::max(one.planned, level_ * one.claim.weight);
  return std::min(std::max(one.planned, one.claim.asked) + spare_, kNoLevel);
}

Instant Allocator::expires(Id id) const {
  const Instant until = of(id).last.until;
  return until == Instant{} ? until : until - latency_;
}

std::uint64_t Allocator::held(Instant now) {
  expire(now);
  return std::accumulate(
      all_.begin(), all_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& one) { return sum + one.second.held(); });
}

Instant Allocator::last_use() const {
  Instant last{};
  for (const auto& [id, one] : all_) {
    last = std::max(last, one.last.until);
    for (const Sent& sent : one.replaced) last = std::max(last, sent.until);
  }
  return last;
}

bool Allocator::empty(Instant now) {
  expire(now);
  return all_.empty();
}

}  // namespace sluice::quota
