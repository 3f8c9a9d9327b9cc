#include "sluice/redis_chain.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "limiter/forks.h"
#include "sluice/leased_store.h"
#include "stores/policy/chain.h"

namespace sluice {

class RedisChain::Impl {
 public:
  Impl(const RedisChainOptions& options, StoreObserver* observer)
      : shared(options.breaker, options.deny_cache, options.local, observer),
        leases(options.leases) {}

  // A process that was forked off has neither the threads nor a right to the leases.
  bool is_of_parent() const noexcept { return forks != detail::forks(); }
  Store& store() noexcept { return is_of_parent() ? chain->store() : *leased; }
  AsyncStore& async_store() noexcept {
    return is_of_parent() ? async_chain->store() : *async_leased;
  }

  const std::uint64_t forks = detail::forks();
  policy::Shared shared;
  Leases leases;
  // First what gives back to Redis, then Redis: it ends the requests, which the chains answer.
  ~Impl() {
    leased.reset();
    redis.reset();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::unique_ptr<RedisStore> redis;
  std::optional<policy::Chain> chain;
  std::optional<policy::AsyncChain> async_chain;
  std::optional<LeasedStore> leased;
  std::optional<AsyncLeasedStore> async_leased;
};

RedisChain::RedisChain(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RedisChain::~RedisChain() {
  if (!impl_->is_of_parent()) return;
  [[maybe_unused]] const Impl* const kept = impl_.release();  // as RedisStore does
}

Expected<std::unique_ptr<RedisChain>> RedisChain::open(const RedisChainOptions& options,
                                                       StoreObserver* observer) {
  auto impl = std::make_unique<Impl>(options, observer);
  auto redis = RedisStore::open(options.redis, &impl->shared);
  if (!redis) return Unexpected{redis.error()};
  impl->redis = std::move(*redis);
  impl->chain.emplace(*impl->redis, impl->shared, options.on_store_error);
  impl->async_chain.emplace(*impl->redis, impl->shared, options.on_store_error);
  impl->leased.emplace(impl->chain->store(), impl->leases);
  impl->async_leased.emplace(impl->async_chain->store(), impl->leases);
  return std::unique_ptr<RedisChain>(new RedisChain(std::move(impl)));
}

Expected<std::unique_ptr<RedisChain>> RedisChain::open(std::string_view url,
                                                       StoreObserver* observer) {
  RedisChainOptions options;
  options.redis.url = url;
  return open(options, observer);
}

Decision RedisChain::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  return impl_->store().apply(action, charges, now, each);
}

Decision RedisChain::apply_one(Action action, const Charge& charge,
                               std::optional<Instant> now) noexcept {
  return impl_->store().apply_one(action, charge, now);
}

void RedisChain::async_apply(Action action, std::span<const Charge> charges,
                             std::optional<Instant> now, std::span<Decision> each,
                             Completion& completion) noexcept {
  impl_->async_store().async_apply(action, charges, now, each, completion);
}

Status RedisChain::wait_until_ready(std::chrono::milliseconds at_most) {
  return impl_->redis->wait_until_ready(at_most);
}

RedisChainStatus RedisChain::status() const {
  const policy::Shared& shared = impl_->shared;
  return {.redis = impl_->redis->stats(),
          .breaker = shared.breaker.state(),
          .refused = shared.breaker.refused(),
          .deny_cache_hits = shared.deny_cache ? shared.deny_cache->hits() : 0,
          .local = shared.local.stats(),
          .leases = impl_->leases.stats()};
}

}  // namespace sluice
