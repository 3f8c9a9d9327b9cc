#include "server/net/trusted_proxies.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/quoted.h"

namespace sluice::server {
namespace {

bool is_port(std::string_view text) noexcept { return text.size() <= 5 && base::is_digits(text); }

}  // namespace

std::string_view without_port(std::string_view text) noexcept {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return text;
    const std::string_view rest = text.substr(end + 1);
    const bool has_port = rest.starts_with(':') && is_port(rest.substr(1));
    return rest.empty() || has_port ? text.substr(1, end - 1) : text;
  }
  const std::size_t colon = text.find(':');
  if (colon == text.npos || !is_port(text.substr(colon + 1))) return text;
  return text.substr(0, colon);
}

namespace {

using base::in_quotes;

constexpr unsigned kAllBits = 128;

// Reads the length of a prefix, written in plain digits.
std::optional<unsigned> read_bits(std::string_view text, unsigned least, unsigned most) noexcept {
  const auto bits = base::read_number<unsigned>(text);
  if (!bits || *bits < least || *bits > most) return std::nullopt;
  return text.size() > 1 && text.front() == '0' ? std::nullopt : bits;
}

}  // namespace

Expected<TrustedProxies> TrustedProxies::parse(std::span<const std::string> networks) {
  TrustedProxies proxies;
  for (const std::string& text : networks) {
    if (std::string error = proxies.add(text); !error.empty()) return Unexpected{std::move(error)};
  }
  return proxies;
}

// Adds a network. Returns the error, or an empty text.
std::string TrustedProxies::add(std::string_view text) {
  if (text == "unix") {
    unix_ = true;
    return {};
  }
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::string_view host = text.substr(0, slash);
  const auto address = IpAddress::parse(host);
  if (!address) {
    return in_quotes(text) +
           " is not an address; expected one such as 10.0.0.1, a network such as 10.0.0.0/8, or "
           "unix";
  }
  // The prefix length of "10.0.0.0/8" counts from the end of the mapped prefix, that of
  // "::ffff:10.0.0.0/104" from its beginning.
  const unsigned skipped = host.find(':') == host.npos ? IpAddress::kMappedBits : 0;
  const unsigned least = address->is_v4() ? IpAddress::kMappedBits - skipped : 0;
  const unsigned most = kAllBits - skipped;
  const auto bits = slash < text.size() ? read_bits(text.substr(slash + 1), least, most) : most;
  if (!bits) {
    return in_quotes(text) + " has an invalid prefix length; expected " + std::to_string(least) +
           " to " + std::to_string(most) + " after the '/'";
  }
  const unsigned all = skipped + *bits;
  if (address->has_bits_from(all)) {
    const auto v4_bits = static_cast<std::uint8_t>(all - std::min(all, IpAddress::kMappedBits));
    const auto network = address->network({v4_bits, static_cast<std::uint8_t>(all)});
    return in_quotes(text) + " has bits beyond its prefix; expected '" +
           std::string(network.view()) + "' or a single address";
  }
  networks_.emplace_back(*address, all);
  return {};
}

bool TrustedProxies::contains(std::string_view address) const noexcept {
  if (address.empty()) return unix_;
  if (networks_.empty()) return false;
  const auto parsed = IpAddress::parse(address);
  return parsed && contains(*parsed);
}

bool TrustedProxies::knows_stranger(Instant now) const noexcept {
  const Instant seen = strangers_->seen.load(std::memory_order_relaxed);
  return seen <= now && seen > now - std::chrono::seconds{1};
}

bool TrustedProxies::add_stranger(std::string_view peer, Instant now) const {
  if (peer.empty()) peer = "unix";
  const std::lock_guard lock(strangers_->mutex);
  Stranger& latest = strangers_->latest;
  const Instant seen = strangers_->seen.exchange(now, std::memory_order_relaxed);
  if (seen <= now - kShown || latest.peer != peer) latest = {std::string(peer), now};
  return seen == Instant::min();
}

std::optional<TrustedProxies::Stranger> TrustedProxies::stranger(Instant now) const {
  const std::lock_guard lock(strangers_->mutex);
  if (strangers_->seen.load(std::memory_order_relaxed) <= now - kShown) return std::nullopt;
  return strangers_->latest;
}

// A short prefix of IPv6 does not contain IPv4 addresses, although these are stored as IPv6.
bool TrustedProxies::contains(const IpAddress& address) const noexcept {
  const bool v4 = address.is_v4();
  return std::any_of(networks_.begin(), networks_.end(), [&](const auto& network) {
    const auto& [prefix, bits] = network;
    return (!v4 || bits >= IpAddress::kMappedBits) && address.shares_prefix(prefix, bits);
  });
}

}  // namespace sluice::server
