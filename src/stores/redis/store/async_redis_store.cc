#include "sluice/async_redis_store.h"

#include <utility>

#include "stores/redis/client/target.h"
#include "stores/redis/store/loop_store.h"

namespace sluice {

class AsyncRedisStore::Impl {
 public:
  Impl(boost::asio::io_context& loop, std::shared_ptr<const redis::Target> target,
       StoreObserver* observer)
      : store(loop, std::move(target), observer) {}

  redis::LoopStore store;
};

AsyncRedisStore::AsyncRedisStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncRedisStore::~AsyncRedisStore() = default;

Expected<std::unique_ptr<AsyncRedisStore>> AsyncRedisStore::open(boost::asio::io_context& loop,
                                                                 const RedisOptions& options,
                                                                 StoreObserver* observer) {
  auto target = redis::make_target(options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<AsyncRedisStore>(
      new AsyncRedisStore(std::make_unique<Impl>(loop, std::move(*target), observer)));
}

void AsyncRedisStore::async_apply(Action action, std::span<const Charge> charges,
                                  std::optional<Instant> now, std::span<Decision> each,
                                  Completion& completion) noexcept {
  impl_->store.async_apply(action, charges, now, each, completion);
}

bool AsyncRedisStore::ready() const noexcept { return impl_->store.ready(); }
std::string AsyncRedisStore::why() const { return impl_->store.why(); }
RedisStoreStats AsyncRedisStore::stats() const { return impl_->store.stats(); }

}  // namespace sluice
