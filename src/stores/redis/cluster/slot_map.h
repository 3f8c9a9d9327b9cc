#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/expected.h"
#include "stores/redis/client/server_address.h"

struct redisReply;

namespace sluice::redis {

// Adds the address unless it is there already.
void add_once(std::vector<ServerAddress>& to, ServerAddress address);

// Which master serves which slot of a cluster, as reported by one of its servers.
//
// A value of 32 KiB and the addresses. Masters are numbered in the order of the report. Reading
// takes time in proportion to the report, whatever it says.
class SlotMap {
 public:
  static constexpr std::size_t kSlots = 16'384;
  static constexpr std::uint16_t kNobody = 0xFFFF;
  static constexpr std::size_t kMostReplicas = 64;

  SlotMap() { owners_.fill(kNobody); }

  // Reads the answer to CLUSTER SLOTS. A server without an address is the one that was asked.
  // Errors: not such an answer, or no slot is served.
  static Expected<SlotMap> read(const redisReply& reply, const ServerAddress& asked);

  // The number of the slot's master; kNobody: none, or unknown.
  std::uint16_t owner_of(std::uint16_t slot) const noexcept { return owners_[slot % kSlots]; }
  const std::vector<ServerAddress>& masters() const noexcept { return masters_; }
  // They know the map too, but get no commands. Of many, the first kMostReplicas.
  const std::vector<ServerAddress>& replicas() const noexcept { return replicas_; }
  // How many slots are served: 0 to 16384.
  std::size_t covered() const noexcept { return covered_; }

  // The number of the master at the address; kNobody if there is none.
  std::uint16_t find(const ServerAddress& address) const noexcept;
  // Enters that the slot has moved to the address. The numbers of masters do not change.
  void move(std::uint16_t slot, const ServerAddress& address);

  // Whether the same slots are served at the same addresses.
  bool serves_as(const SlotMap& other) const noexcept;

 private:
  struct Hash {
    std::size_t operator()(const ServerAddress& address) const noexcept {
      return std::hash<std::string>()(address.host) + address.port;
    }
  };

  std::uint16_t number_of(const ServerAddress& address);
  void assign(std::size_t slot, std::uint16_t owner) noexcept;
  bool read_range(const redisReply& range, const ServerAddress& asked);

  std::array<std::uint16_t, kSlots> owners_;
  std::vector<ServerAddress> masters_;
  std::unordered_map<ServerAddress, std::uint16_t, Hash> numbers_;  // of the masters
  std::vector<ServerAddress> replicas_;
  std::size_t covered_ = 0;
};

}  // namespace sluice::redis
