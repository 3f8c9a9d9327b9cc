#include "server/storage/redis_stores.h"

#include <algorithm>
#include <utility>

#include "server/storage/fiber_store.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

void add_counts(RedisStoreStats& sum, const RedisStoreStats& one) {
  sum.requests += one.requests;
  sum.timeouts += one.timeouts;
  sum.errors += one.errors;
  sum.connects += one.connects;
  sum.scripts_sent += one.scripts_sent;
  sum.redirects += one.redirects;
}

policy::Shared::Options shared_options(const Config& config) {
  policy::Shared::Options options{
      .breaker = config.redis.breaker,
      .local = {.nodes = static_cast<std::uint32_t>(config.redis.nodes),
                .memory = {.max_keys = config.max_keys, .max_log_bytes = config.max_log_bytes}}};
  if (config.redis.deny_cache_enabled) options.deny_cache = config.redis.deny_cache;
  return options;
}

}  // namespace

// The stores of one loop.
class RedisStores::Chain final : public LoopStores {
 public:
  Chain(RedisStores& all, boost::asio::io_context& loop)
      : all_(all),
        client_(redis::make_client(loop, all.target_, &all.shared_.client_events)),
        redis_(*client_, all.options_),
        chain_(redis_, all.shared_),
        limiter_(chain_.store()) {
    all_.add(*client_);
  }
  ~Chain() override { stop(); }

  Limiter& limiter() override { return limiter_; }
  Store* shadow() override { return &chain_.uncached(); }
  Store* local() override { return &all_.shared_.local; }
  void stop() override {
    if (!client_) return;
    redis_.stop();
    all_.remove(*client_);
    client_.reset();
  }

 private:
  RedisStores& all_;
  std::unique_ptr<redis::Client> client_;
  FiberStore redis_;
  policy::Chain chain_;
  Limiter limiter_;
};

Expected<std::unique_ptr<RedisStores>> RedisStores::open(const Config& config,
                                                         StoreObserver* observer) {
  const auto options = redis_options(config);
  if (!options) return Unexpected{options.error()};
  auto target = redis::make_target(*options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<RedisStores>(new RedisStores(config, std::move(*target), observer));
}

RedisStores::RedisStores(const Config& config, std::shared_ptr<const redis::Target> target,
                         StoreObserver* observer)
    : target_(std::move(target)),
      options_(redis::operation_options(*target_)),
      shared_(shared_options(config), observer) {
  options_.gave_back = &gave_back_;
}

std::unique_ptr<LoopStores> RedisStores::make(boost::asio::io_context& loop) {
  return std::make_unique<Chain>(*this, loop);
}

void RedisStores::add(const redis::Client& client) {
  const std::lock_guard lock(mutex_);
  clients_.push_back(&client);
}

void RedisStores::remove(const redis::Client& client) {
  const std::lock_guard lock(mutex_);
  add_counts(past_, client.stats());
  std::erase(clients_, &client);
}

RedisStoreStats RedisStores::stats() const {
  const std::lock_guard lock(mutex_);
  RedisStoreStats sum = past_;
  for (const redis::Client* client : clients_) {
    const RedisStoreStats one = client->stats();
    add_counts(sum, one);
    sum.connected += one.connected;
    sum.pending += one.pending;
  }
  sum.gave_back = gave_back_.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace sluice::server
