#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "sluice/expected.h"

namespace sluice::server {

using base::IpAddress;

// Returns the address in "1.2.3.4:567", "[::1]:80" or "[::1]". Returns any other text unchanged.
std::string_view without_port(std::string_view text) noexcept;

// The networks of proxies that may report the client's address. None by default.
//
// Thread-safety: const, so any thread. Cost: linear in the networks; nothing is allocated.
class TrustedProxies {
 public:
  TrustedProxies() = default;
  // Reads addresses ("10.0.0.1"), networks ("10.0.0.0/8", "fd00::/8"), and "unix" for peers on a
  // Unix socket. Errors: the invalid entry and what is expected.
  static Expected<TrustedProxies> parse(std::span<const std::string> networks);

  // `address` is a textual address, or empty for a Unix socket's peer.
  bool contains(std::string_view address) const noexcept;
  bool contains(const IpAddress& address) const noexcept;
  // A warning of a peer that is not trusted is written once, by any thread and any copy: whether it
  // has been, and whether the caller is to write it now.
  bool has_warned() const noexcept { return has_warned_->load(std::memory_order_relaxed); }
  bool warns() const noexcept { return !has_warned_->exchange(true); }

 private:
  struct Network {
    IpAddress address;
    unsigned bits;  // of the 128
  };

  std::string add(std::string_view text);

  std::vector<Network> networks_;
  bool unix_ = false;
  std::shared_ptr<std::atomic<bool>> has_warned_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace sluice::server
