#include "server/decide/recent_requests.h"

#include <algorithm>
#include <functional>
#include <new>

#include "rules/rule_set.h"

namespace sluice::server {
namespace {

constexpr std::size_t kMostAttributes = 100;   // of attributes
constexpr std::size_t kLongestValue = 2048;    // a longer one is cut
constexpr std::size_t kBytesOfAttribute = 64;  // besides long texts

}  // namespace

void RecentRequests::Lane::use(const RuleSet& rules, std::uint64_t version) {
  names_ = {"method", "path", "host", "ip"};
  for (const std::string& name : rules.impl().attributes.names()) {
    const bool known = std::ranges::find(names_, name) != names_.end();
    if (!known && names_.size() < kMostAttributes) names_.push_back(name);
  }
  version_ = version;
}

void RecentRequests::Lane::record(const RuleSet& rules, std::uint64_t version,
                                  const AttributeSource& attributes,
                                  const RequestCosts& costs) noexcept try {
  if (version != version_) use(rules, version);
  RecentRequest request;
  request.at = all_.clock_.now();
  const auto client = attributes.find("ip");
  const std::size_t hash =
      client ? std::hash<std::string_view>{}(*client) : std::hash<std::uint32_t>{}(unnamed_++);
  request.place = static_cast<std::uint32_t>(hash % 100);
  {
    const std::lock_guard lock(mutex_);
    if (request.place >= share_) return;
  }
  request.units = costs.units;
  request.only_if_wanted = costs.only_if_wanted;
  request.bytes = sizeof request;
  for (const std::string& name : names_) {
    const auto value = attributes.find(name);
    if (!value) continue;
    request.attributes.set(name, value->substr(0, kLongestValue));
    request.bytes += kBytesOfAttribute + std::min(value->size(), kLongestValue) + name.size();
  }
  for (const LimitCost& cost : costs.limits) {
    request.costs.emplace_back(cost.limit, cost.units);
    request.bytes += kBytesOfAttribute + cost.limit.size();
  }
  add(std::move(request));
} catch (const std::bad_alloc&) {  // it is not kept
}

void RecentRequests::Lane::add(RecentRequest request) {
  const std::lock_guard lock(mutex_);
  bytes_ += request.bytes;
  requests_.push_back(std::move(request));
  const auto drop_first = [this] {
    bytes_ -= requests_.front().bytes;
    requests_.pop_front();
  };
  while (requests_.front().at < requests_.back().at - kLongest) drop_first();
  if (bytes_ <= all_.bytes_of_lane_) return;
  if (share_ > 1 && requests_.back().at - requests_.front().at < kEnough) {
    share_ /= 2;
    std::erase_if(requests_, [this](const RecentRequest& one) {
      if (one.place >= share_) bytes_ -= one.bytes;
      return one.place >= share_;
    });
  }
  while (bytes_ > all_.bytes_of_lane_) drop_first();
}

void RecentRequests::want(bool wanted) {
  if (wanted_.exchange(wanted) == wanted || wanted) return;
  for (Lane& lane : lanes_) {
    const std::lock_guard lock(lane.mutex_);
    lane.requests_ = {};
    lane.bytes_ = 0;
    lane.share_ = 100;
  }
}

RecentRequests::Sample RecentRequests::read() const {
  Sample out;
  for (const Lane& lane : lanes_) {
    const std::lock_guard lock(lane.mutex_);
    out.share = std::min(out.share, lane.share_);
    out.requests.insert(out.requests.end(), lane.requests_.begin(), lane.requests_.end());
  }
  std::erase_if(out.requests, [&](const RecentRequest& one) { return one.place >= out.share; });
  std::ranges::stable_sort(out.requests, {}, &RecentRequest::at);
  return out;
}

}  // namespace sluice::server
