#include "server/storage/redis_stores.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <utility>

#include "server/storage/fiber_store.h"
#include "server/storage/loop_leases.h"
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
  sum.gave_back += one.gave_back;
}

policy::Shared::Options shared_options(const Config& config) {
  policy::Shared::Options options{
      .breaker = config.redis.breaker,
      .local = {.nodes = static_cast<std::uint32_t>(config.redis.nodes),
                .memory = {.max_keys = config.max_keys, .max_log_bytes = config.max_log_bytes}}};
  if (config.redis.deny_cache_enabled) options.deny_cache = config.redis.deny_cache;
  return options;
}

LeaseOptions lease_options(const Config& config) {
  return {.nodes = static_cast<std::uint32_t>(config.redis.nodes),
          .share = static_cast<double>(config.redis.lease_percent) / 100,
          .max_keys = config.redis.lease_keys};
}

}  // namespace

// The stores of one loop.
class RedisStores::Chain final : public LoopStores {
 public:
  Chain(RedisStores& all, boost::asio::io_context& loop)
      : all_(all),
        redis_(loop, all.target_, &all.shared_.client_events),
        fibers_(redis_),
        chain_(fibers_, all.shared_),
        returns_(redis_, all.shared_),
        leased_(loop, chain_.store(), returns_.store(), all.leases_),
        limiter_(leased_) {
    all_.add(*this);
  }
  ~Chain() override { stop(); }

  Limiter& limiter() override { return limiter_; }
  Store* shadow() override { return &chain_.uncached(); }
  Store* local() override { return &all_.shared_.local; }
  redis::Client* redis() override { return &redis_.client(); }
  void stop() override {
    if (std::exchange(is_stopped_, true)) return;
    leased_.stop();
    all_.remove(*this);
    redis_.close();
  }

  const redis::LoopStore& store() const noexcept { return redis_; }
  const metrics::Durations& durations() const noexcept { return fibers_.durations(); }

 private:
  RedisStores& all_;
  bool is_stopped_ = false;
  redis::LoopStore redis_;
  FiberStore fibers_;
  policy::Chain chain_;
  policy::AsyncChain returns_;  // takes back what leases did not use
  LoopLeases leased_;
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
      shared_(shared_options(config), observer),
      leases_(lease_options(config)) {}

RedisStores::~RedisStores() {
  if (!leases_.next_end()) return;
  try {
    boost::asio::io_context loop;
    redis::LoopStore redis(loop, target_, nullptr);
    AsyncLeasedStore(redis, leases_).give_back(LeaseEnd::kAll);
    for (int i = 0; i < 100 && redis.stats().pending > 0; ++i) {
      loop.run_for(std::chrono::milliseconds(10));
    }
  } catch (const std::exception&) {  // they stay taken
  }
}

std::unique_ptr<LoopStores> RedisStores::make(boost::asio::io_context& loop) {
  return std::make_unique<Chain>(*this, loop);
}

void RedisStores::add(const Chain& chain) {
  const std::lock_guard lock(mutex_);
  chains_.push_back(&chain);
}

void RedisStores::remove(const Chain& chain) {
  const std::lock_guard lock(mutex_);
  add_counts(past_, chain.store().stats());
  chain.durations().add_to(past_durations_);
  std::erase(chains_, &chain);
}

RedisStoreStats RedisStores::stats() const {
  const std::lock_guard lock(mutex_);
  RedisStoreStats sum = past_;
  for (const Chain* const chain : chains_) {
    const RedisStoreStats one = chain->store().stats();
    add_counts(sum, one);
    sum.connected += one.connected;
    sum.pending += one.pending;
  }
  return sum;
}

metrics::DurationCounts RedisStores::durations() const {
  const std::lock_guard lock(mutex_);
  metrics::DurationCounts sum = past_durations_;
  for (const Chain* const chain : chains_) chain->durations().add_to(sum);
  return sum;
}

}  // namespace sluice::server
