#include "stores/redis/client/sentinels.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/quoted.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kMost = 64;

std::string_view text_in(const redisReply& reply) noexcept {
  const bool text = reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
  return text ? std::string_view(reply.str, reply.len) : std::string_view();
}

std::optional<ServerAddress> address_of(std::string_view host, std::string_view port) {
  ServerAddress out{.host = std::string(host), .port = 0};
  const auto result = std::from_chars(port.data(), port.data() + port.size(), out.port);
  const bool whole = result.ec == std::errc{} && result.ptr == port.data() + port.size();
  // A path would mean a Unix socket.
  if (!whole || out.port == 0 || host.empty() || host.starts_with('/')) return {};
  return out;
}

// One entry of SENTINEL SENTINELS: a list of names and values.
std::optional<ServerAddress> sentinel_of(const redisReply& fields) {
  if (fields.type != REDIS_REPLY_ARRAY) return {};
  std::string_view host;
  std::string_view port;
  for (std::size_t i = 0; i + 1 < fields.elements; i += 2) {
    const std::string_view name = text_in(*fields.element[i]);
    if (name == "ip") host = text_in(*fields.element[i + 1]);
    if (name == "port") port = text_in(*fields.element[i + 1]);
  }
  return address_of(host, port);
}

}  // namespace

Sentinels::Sentinels(std::vector<ServerAddress> seeds, std::string master)
    : all_(std::move(seeds)), seeds_(all_.size()), master_(std::move(master)) {}

void Sentinels::begin() {
  asked_ = 0;
  why_.clear();
}

const ServerAddress* Sentinels::to_ask() const noexcept {
  return asked_ < all_.size() ? &all_[next_] : nullptr;
}

void Sentinels::on_failed(std::string_view why) {
  if (!why_.empty()) why_.append("; ");
  why_.append("Sentinel ").append(all_[next_].to_string()).append(": ").append(why);
  next_ = (next_ + 1) % all_.size();
  ++asked_;
}

std::optional<ServerAddress> Sentinels::on_master(const redisReply& reply) {
  if (reply.type == REDIS_REPLY_NIL) {
    on_failed("it knows no master " + core::in_quotes(master_));
    return {};
  }
  std::optional<ServerAddress> out;
  if (reply.type == REDIS_REPLY_ARRAY && reply.elements == 2) {
    out = address_of(text_in(*reply.element[0]), text_in(*reply.element[1]));
  }
  if (!out) on_failed("its answer is not an address");
  return out;
}

void Sentinels::on_others(const redisReply& reply) {
  if (reply.type != REDIS_REPLY_ARRAY) return;
  const ServerAddress asked = all_[next_];
  all_.resize(seeds_);
  const auto learn = [this](const ServerAddress& one) {
    const bool known = std::find(all_.begin(), all_.end(), one) != all_.end();
    if (!known && all_.size() < std::max(kMost, seeds_ + 1)) all_.push_back(one);
  };
  learn(asked);  // it does not report itself
  for (std::size_t i = 0; i < reply.elements; ++i) {
    if (const auto one = sentinel_of(*reply.element[i])) learn(*one);
  }
  const auto at = std::find(all_.begin(), all_.end(), asked);
  next_ = static_cast<std::size_t>(at - all_.begin());
}

}  // namespace sluice::redis
