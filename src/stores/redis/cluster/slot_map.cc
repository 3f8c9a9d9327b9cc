#include "stores/redis/cluster/slot_map.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

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

}  // namespace sluice::redis
