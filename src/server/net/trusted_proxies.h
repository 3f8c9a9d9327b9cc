#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "sluice/clock.h"
#include "sluice/expected.h"

namespace sluice::server {

using base::IpAddress;

// Returns the address in "1.2.3.4:567", "[::1]:80" or "[::1]". Returns any other text unchanged.
std::string_view without_port(std::string_view text) noexcept;

// The networks of proxies that may report the client's address. None by default.
//
// Also remembers a gateway that should be one of them.
//
// Thread-safety: any thread. Cost: linear in the networks; nothing is allocated.
class TrustedProxies {
 public:
  TrustedProxies() = default;
  // Reads addresses ("10.0.0.1"), networks ("10.0.0.0/8", "fd00::/8"), and "unix" for peers on a
  // Unix socket. Errors: the invalid entry and what is expected.
  static Expected<TrustedProxies> parse(std::span<const std::string> networks);

  // `address` is a textual address, or empty for a Unix socket's peer.
  bool contains(std::string_view address) const noexcept;
  bool contains(const IpAddress& address) const noexcept;

  // A peer that is not trusted and says who its clients are.
  struct Stranger {
    std::string peer;  // an address, or "unix"
    Instant since{};
  };
  // Whether add_stranger() was called within the last second, in any thread, of any copy.
  bool knows_stranger(Instant now) const noexcept;
  // Remembers the peer for kShown. Returns whether it is the first one ever.
  static constexpr std::chrono::hours kShown{1};
  bool add_stranger(std::string_view peer, Instant now) const;
  // Returns the latest stranger if it asked within kShown.
  std::optional<Stranger> stranger(Instant now) const;

 private:
  // What all copies share.
  struct Strangers {
    std::atomic<Instant> seen{Instant::min()};  // when the latest was added
    std::mutex mutex;                           // of the next
    Stranger latest;
  };

  std::string add(std::string_view text);

  std::vector<std::pair<IpAddress, unsigned>> networks_;  // and how many of the 128 bits
  bool unix_ = false;
  std::shared_ptr<Strangers> strangers_ = std::make_shared<Strangers>();
};

}  // namespace sluice::server
