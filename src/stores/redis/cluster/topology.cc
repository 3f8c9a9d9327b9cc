#include "stores/redis/cluster/topology.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {
namespace {

// Questions at the same time, while servers do not answer.
constexpr std::size_t kMostAsked = 3;
// Servers asked in one round; the next round begins with others.
constexpr std::size_t kMostCandidates = 16;
// Of these, the seeds that are asked whatever the map says.
constexpr std::size_t kSeedsOfARound = 4;

// Adds those of `count` servers that fit, beginning with another one in each round.
template <typename At>
void add_rotated(std::vector<ServerAddress>& to, std::size_t room, std::size_t count, const At& at,
                 std::uint64_t round) {
  for (std::size_t i = 0; i < count && to.size() < room; ++i) add_once(to, at((round + i) % count));
}

}  // namespace

Topology::Topology(std::vector<ServerAddress> seeds, TopologyOptions options, Random random)
    : seeds_(std::move(seeds)), options_(options), random_(std::move(random)) {}

Time Topology::drawn(Time from, TopologyOptions::Duration wait) {
  const auto half = static_cast<std::uint64_t>(wait.count() / 2);
  const std::uint64_t more = random_() % (static_cast<std::uint64_t>(wait.count()) - half + 1);
  return from + TopologyOptions::Duration(static_cast<std::int64_t>(half + more));
}

Topology::Action Topology::next(Time now) {
  if (!in_round_) {
    if (now < due_) return {.until = due_};
    begin_round();
  }
  const bool has_more = next_candidate_ < candidates_.size() && asked_ < kMostAsked;
  if (has_more && (asked_ == 0 || now >= ask_next_at_)) {
    ++asked_;
    ask_next_at_ = now + options_.patience;
    return {Action::Kind::kAsk, candidates_[next_candidate_++], next_question_++};
  }
  return {.until = has_more ? ask_next_at_ : Time::max()};
}

void Topology::begin_round() {
  in_round_ = true;
  is_hinted_ = false;
  is_answered_ = false;
  best_.reset();
  asked_ = 0;
  first_question_ = next_question_;
  candidates_.clear();
  next_candidate_ = 0;
  const auto add = [this](std::size_t room, std::size_t count, const auto& at) {
    add_rotated(candidates_, room, count, at, rounds_);
  };
  const std::size_t known = kMostCandidates - std::min(seeds_.size(), kSeedsOfARound);
  add(known, reachable_.size(), [this](std::size_t i) { return reachable_[i]; });
  const auto& masters = map_.masters();
  const auto& replicas = map_.replicas();
  add(known, masters.size() + replicas.size(), [&](std::size_t i) {
    return i < masters.size() ? masters[i] : replicas[i - masters.size()];
  });
  add(kMostCandidates, seeds_.size(), [this](std::size_t i) { return seeds_[i]; });
  ++rounds_;
}

void Topology::end_round(bool is_answered, Time now) {
  in_round_ = false;
  if (is_answered) {
    failures_ = 0;
    earliest_ = drawn(now, options_.shortest_interval);
    due_ = is_hinted_ ? earliest_ : drawn(now, options_.longest_interval);
    return;
  }
  TopologyOptions::Duration wait = options_.first_backoff;
  for (unsigned i = 0; i < failures_ && wait < options_.longest_backoff; ++i) wait *= 2;
  ++failures_;
  earliest_ = due_ = drawn(now, std::min(wait, options_.longest_backoff));
}

// Ends the round if all servers were asked. True: the map has changed.
bool Topology::end_if_exhausted(Time now) {
  if (asked_ > 0 || next_candidate_ < candidates_.size()) return false;
  end_round(is_answered_, now);
  return best_ && adopt(std::move(*best_));
}

Time Topology::hint(Time now) {
  is_hinted_ = true;
  if (in_round_) return Time::max();
  due_ = std::min(due_, std::max(now, earliest_));
  return due_;
}

void Topology::set_reachable(const ServerAddress& address, bool reachable) {
  if (reachable) return add_once(reachable_, address);
  std::erase(reachable_, address);
}

// False: the question belongs to an earlier round.
bool Topology::take_back(std::uint64_t question) noexcept {
  if (!in_round_ || question < first_question_) return false;
  --asked_;
  return true;
}

bool Topology::adopt(SlotMap map) {
  const bool is_other = !is_known_ || has_moved_ || !map.serves_as(map_);
  is_known_ = true;
  has_moved_ = false;
  map_ = std::move(map);
  best_.reset();
  return is_other;
}

bool Topology::answered(std::uint64_t question, SlotMap map, Time now) {
  if (!take_back(question)) return false;
  is_answered_ = true;
  const std::size_t covered = map.covered();
  if (covered == SlotMap::kSlots) {
    end_round(true, now);
    return adopt(std::move(map));
  }
  // A server that reports fewer slots than before may be cut off: the others are asked first.
  bool is_other = false;
  if (!is_known_ || covered >= map_.covered()) {
    is_other = adopt(std::move(map));
  } else if (!best_ || covered > best_->covered()) {
    best_ = std::move(map);
  }
  return end_if_exhausted(now) || is_other;
}

bool Topology::failed(std::uint64_t question, std::string_view why, Time now) {
  why_ = why;
  return take_back(question) && end_if_exhausted(now);
}

void Topology::moved(std::uint16_t slot, const ServerAddress& address) {
  map_.move(slot, address);
  has_moved_ = true;
}

}  // namespace sluice::redis
