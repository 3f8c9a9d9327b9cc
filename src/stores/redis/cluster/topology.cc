#include "stores/redis/cluster/topology.h"

#include <hiredis/hiredis.h>
#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace sluice::redis {
namespace {

constexpr std::size_t kLongestHost = 1024;

std::span<redisReply* const> elements_of(const redisReply& reply) noexcept {
  if (reply.type != REDIS_REPLY_ARRAY) return {};
  return {reply.element, reply.elements};
}

std::optional<std::string_view> text_of(const redisReply& reply) noexcept {
  if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_STATUS) return std::nullopt;
  return std::string_view(reply.str, reply.len);
}

std::optional<std::uint16_t> number_of(const redisReply& reply, long long most) noexcept {
  if (reply.type != REDIS_REPLY_INTEGER || reply.integer < 0 || reply.integer > most) {
    return std::nullopt;
  }
  return static_cast<std::uint16_t>(reply.integer);
}

// ["ip", "127.0.0.1", "hostname", ...]: returns the value of `name`; empty if there is none.
std::string_view look_up(const redisReply& fields, std::string_view name) noexcept {
  const auto elements = elements_of(fields);
  for (std::size_t i = 0; i + 1 < elements.size(); i += 2) {
    if (text_of(*elements[i]) == name) return text_of(*elements[i + 1]).value_or("");
  }
  return {};
}

// Reads [host, port, id, further fields]. A null or empty host is the server that was asked. "?" is
// a server without its preferred name, whose address is in the further fields.
std::optional<ServerAddress> read_address(const redisReply& node, const ServerAddress& asked) {
  const auto elements = elements_of(node);
  if (elements.size() < 2) return std::nullopt;
  const auto port = number_of(*elements[1], 65'535);
  if (!port || *port == 0) return std::nullopt;
  if (elements[0]->type == REDIS_REPLY_NIL) return ServerAddress{asked.host, *port};
  const auto text = text_of(*elements[0]);
  if (!text || text->size() > kLongestHost) return std::nullopt;
  std::string_view host = *text;
  if (host == "?") {
    host = elements.size() > 3 ? look_up(*elements[3], "ip") : std::string_view();
    if (host.empty()) return std::nullopt;
  }
  return ServerAddress{host.empty() ? asked.host : std::string(host), *port};
}

}  // namespace

void add_once(std::vector<ServerAddress>& to, ServerAddress address) {
  if (std::find(to.begin(), to.end(), address) == to.end()) to.push_back(std::move(address));
}

Expected<SlotMap> SlotMap::read(const redisReply& reply, const ServerAddress& asked) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements > kSlots) {
    return Unexpected{"its answer to CLUSTER SLOTS is not a list of ranges"};
  }
  SlotMap map;
  for (const redisReply* const range : elements_of(reply)) {
    if (!map.read_range(*range, asked)) {
      return Unexpected{"its answer to CLUSTER SLOTS has an invalid range"};
    }
  }
  if (map.covered_ == 0) {
    return Unexpected{"it knows no master that serves a slot: it may not be in a cluster"};
  }
  return map;
}

// Reads [first slot, last slot, master, replica...]. A master without an address serves nothing.
bool SlotMap::read_range(const redisReply& range, const ServerAddress& asked) {
  const auto elements = elements_of(range);
  if (elements.size() < 3) return false;
  const auto first = redis::number_of(*elements[0], kSlots - 1);
  const auto last = redis::number_of(*elements[1], kSlots - 1);
  if (!first || !last || *first > *last || elements[2]->type != REDIS_REPLY_ARRAY) return false;
  if (const auto master = read_address(*elements[2], asked)) {
    const std::uint16_t owner = number_of(*master);
    for (std::size_t slot = *first; slot <= *last; ++slot) assign(slot, owner);
  }
  for (const redisReply* const node : elements.subspan(3)) {
    if (replicas_.size() == kMostReplicas) break;
    if (auto replica = read_address(*node, asked)) add_once(replicas_, std::move(*replica));
  }
  return true;
}

std::uint16_t SlotMap::find(const ServerAddress& address) const noexcept {
  const auto found = numbers_.find(address);
  return found == numbers_.end() ? kNobody : found->second;
}

// There are at most as many masters as ranges and moved slots, so the numbers suffice.
std::uint16_t SlotMap::number_of(const ServerAddress& address) {
  if (masters_.size() == kNobody) return find(address);
  const auto next = static_cast<std::uint16_t>(masters_.size());
  const auto [found, is_new] = numbers_.try_emplace(address, next);
  if (is_new) masters_.push_back(address);
  return found->second;
}

void SlotMap::assign(std::size_t slot, std::uint16_t owner) noexcept {
  if (owners_[slot] == kNobody && owner != kNobody) ++covered_;
  if (owners_[slot] != kNobody && owner == kNobody) --covered_;
  owners_[slot] = owner;
}

void SlotMap::move(std::uint16_t slot, const ServerAddress& address) {
  assign(slot % kSlots, number_of(address));
}

bool SlotMap::serves_as(const SlotMap& other) const noexcept {
  if (covered_ != other.covered_) return false;
  std::uint16_t last = kNobody;  // neighbours mostly have the same master
  std::uint16_t last_of_other = kNobody;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const std::uint16_t owner = owners_[slot];
    const std::uint16_t of_other = other.owners_[slot];
    if (owner == last && of_other == last_of_other) continue;
    if ((owner == kNobody) != (of_other == kNobody)) return false;
    if (owner != kNobody && masters_[owner] != other.masters_[of_other]) return false;
    last = owner;
    last_of_other = of_other;
  }
  return true;
}

namespace {

// Removes and returns the text before the first space.
std::string_view take_word(std::string_view& text) noexcept {
  const std::size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

std::optional<std::uint16_t> read_number(std::string_view text, std::uint16_t most) noexcept {
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > most) {
    return std::nullopt;
  }
  return number;
}

// "127.0.0.1:6379", "::1:6379", "[::1]:6379", "a.example:6379", or ":6379".
std::optional<ServerAddress> read_endpoint(std::string_view text, const ServerAddress& from) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = read_number(text.substr(colon + 1), 65'535);
  std::string_view host = text.substr(0, colon);
  if (!port || *port == 0 || host == "?") return std::nullopt;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return ServerAddress{host.empty() ? from.host : std::string(host), *port};
}

// Reads "<slot> <endpoint>". If it cannot be read, the map is stale.
Redirect read_target(Redirect::Kind kind, std::string_view rest, const ServerAddress& from) {
  const auto slot = read_number(take_word(rest), SlotMap::kSlots - 1);
  auto address = read_endpoint(take_word(rest), from);
  if (!slot || !address) return {Redirect::Kind::kStale};
  return {kind, *slot, std::move(*address)};
}

}  // namespace

Redirect read_redirect(std::string_view error, const ServerAddress& from) {
  const std::string_view word = take_word(error);
  if (word == "MOVED") return read_target(Redirect::Kind::kMoved, error, from);
  if (word == "ASK") return read_target(Redirect::Kind::kAsk, error, from);
  if (word == "TRYAGAIN") return {Redirect::Kind::kTryAgain};
  if (word == "CLUSTERDOWN" || word == "MASTERDOWN" || word == "LOADING" || word == "READONLY") {
    return {Redirect::Kind::kStale};
  }
  return {};
}

Step next_step(const Refused& command, Time now) {
  Redirect redirect = read_redirect(command.error, command.from);
  Step step;
  const bool is_moved = redirect.kind == Redirect::Kind::kMoved;
  step.refresh = is_moved || redirect.kind == Redirect::Kind::kStale;
  if (is_moved) step.moved = redirect.slot;
  step.address = std::move(redirect.address);
  if (is_moved || redirect.kind == Redirect::Kind::kAsk) {
    if (now >= command.deadline || command.redirects >= kMostRedirects) return step;
    step.kind = Step::Kind::kSend;
    step.asking = !is_moved;
    step.redirects = static_cast<std::uint8_t>(command.redirects + 1);
  } else if (redirect.kind == Redirect::Kind::kTryAgain && now + kPause < command.deadline) {
    step.kind = Step::Kind::kPause;  // only the deadline bounds it, so the count starts again
    step.until = now + kPause;
  }
  return step;
}

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
