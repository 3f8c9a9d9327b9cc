#include "server/storage/stores.h"

#include <utility>
#include <vector>

#include "server/storage/counter_snapshots.h"
#include "server/storage/redis_blocks.h"
#include "server/storage/redis_health.h"
#include "server/storage/redis_stores.h"
#include "server/storage/store_log.h"
#include "server/storage/store_metrics.h"
#include "sluice/memory_store.h"
#include "stores/redis/client/target.h"

namespace sluice::server {
namespace {

class InMemory final : public Stores {
 public:
  static Expected<std::unique_ptr<Stores>> open(const Config& config, Log& log,
                                                const Clock& steady) {
    auto made = std::make_unique<InMemory>(config, log, steady);
    if (!config.snapshot.empty()) {
      auto snapshots =
          CounterSnapshots::open(made->store_, {config.snapshot, config.snapshot_interval}, log);
      if (!snapshots) return Unexpected{snapshots.error()};
      made->snapshots_ = std::move(*snapshots);
    }
    return std::unique_ptr<Stores>(std::move(made));
  }
  InMemory(const Config& config, Log& log, const Clock& steady)
      : max_keys_(config.max_keys),
        max_log_bytes_(config.max_log_bytes),
        log_(log),
        steady_(steady),
        // A clock that is set counts at once here, as it does with a store in Redis.
        store_({.max_keys = config.max_keys, .max_log_bytes = config.max_log_bytes},
               SystemClock::instance()),
        limiter_(store_) {}

  Limiter& limiter() override { return limiter_; }
  std::unique_ptr<LoopStores> make(boost::asio::io_context&) override { return nullptr; }

  Expected<HeldBlocks> find_blocks(LoopStores*, std::size_t most) override {
    HeldBlocks found;
    for (BlockedKey& blocked : store_.blocked(most + 1)) {
      found.more = found.blocks.size() == most;
      if (!found.more) {
        found.blocks.push_back({std::move(blocked.key), std::move(blocked.tag), blocked.until});
      }
    }
    return found;
  }

  void follow(boost::asio::io_context&) override {
    if (snapshots_) snapshots_->start();
  }
  void stop_following() noexcept override {
    if (snapshots_) snapshots_->stop();
  }
  Expected<bool> lock_snapshot(std::vector<net::FileLock>&& inherited) override {
    return snapshots_ ? snapshots_->lock(std::move(inherited)) : true;
  }
  int snapshot_lock() const noexcept override {
    return snapshots_ ? snapshots_->lock_descriptor() : -1;
  }
  void unlock_snapshot() noexcept override {
    if (snapshots_) snapshots_->unlock();
  }
  void read_snapshot() override {
    if (snapshots_) snapshots_->read();
  }
  bool write_last_snapshot() override { return !snapshots_ || snapshots_->write_last(); }
  void continue_writing_snapshots() override {
    if (snapshots_) snapshots_->continue_writing();
  }

  void log_freed_keys() override {
    const std::uint64_t freed = store_.stats().freed_keys;
    if (freed == logged_freed_ || steady_.now() < next_line_) return;
    log_.warning("blocked keys were freed: blocks have reached their bound",
                 {{"keys", freed - logged_freed_},
                  {"bound_bytes", max_log_bytes_ / kBlockShare},
                  {"expected", "a larger memory.max_log_bytes"}});
    logged_freed_ = freed;
    next_line_ = steady_.now() + std::chrono::minutes{1};
  }

  void add_metrics(metrics::Registry& registry) override {
    add_memory_metrics(registry, [this] { return store_.stats(); });
    if (snapshots_) snapshots_->add_metrics(registry);
  }
  StoreStatus status() const override {
    const MemoryStoreStats stats = store_.stats();
    return {.kind = "memory",
            .numbers = {{"keys", stats.keys},
                        {"max_keys", max_keys_},
                        {"log_bytes", stats.log_bytes},
                        {"max_log_bytes", max_log_bytes_},
                        {"evictions", stats.evictions},
                        {"swept", stats.swept},
                        {"merged_logs", stats.merged_logs}}};
  }

 private:
  static constexpr std::size_t kBlockShare = 8;  // of max_log_bytes: see MemoryStoreOptions

  const std::size_t max_keys_;
  const std::size_t max_log_bytes_;
  Log& log_;
  const Clock& steady_;
  std::uint64_t logged_freed_ = 0;
  Instant next_line_{};  // of log_freed_keys(), at the earliest
  MemoryStore store_;
  Limiter limiter_;
  std::unique_ptr<CounterSnapshots> snapshots_;  // null: without a file
};

class InRedis final : public Stores {
 public:
  static Expected<std::unique_ptr<Stores>> open(const Config& config, Log& log) {
    auto made = std::make_unique<InRedis>(log);
    auto stores = RedisStores::open(config, &made->events_);
    if (!stores) return Unexpected{stores.error()};
    made->stores_ = std::move(*stores);
    made->health_ = std::make_unique<RedisHealth>(made->stores_->shared_target());
    return std::unique_ptr<Stores>(std::move(made));
  }
  explicit InRedis(Log& log) : events_(log) {}

  Limiter& limiter() override { return nowhere_; }
  std::unique_ptr<LoopStores> make(boost::asio::io_context& loop) override {
    return stores_->make(loop);
  }

  void follow(boost::asio::io_context& loop) override { health_->start(loop); }
  void stop_following() noexcept override { health_->stop(); }

  Expected<HeldBlocks> find_blocks(LoopStores* loop, std::size_t most) override {
    return server::find_blocks(*loop->redis(), stores_->target(), most);
  }

  void add_metrics(metrics::Registry& registry) override {
    add_store_metrics(registry, {.events = events_,
                                 .breaker = stores_->breaker(),
                                 .deny_cache = stores_->deny_cache(),
                                 .leases = stores_->leases(),
                                 .stats = [this] { return stores_->stats(); },
                                 .durations = [this] { return stores_->durations(); }});
    add_health_metrics(registry, *health_);
    add_memory_metrics(registry, [this] { return stores_->local().stats(); });
  }
  StoreStatus status() const override {
    const RedisStoreStats stats = stores_->stats();
    const bool asks = stores_->breaker().state() == CircuitBreaker::State::kClosed;
    StoreStatus status{.kind = "redis",
                       .address = stores_->target().shown,
                       .numbers = {{"connections", stats.connected},
                                   {"under_way", stats.pending},
                                   {"requests", stats.requests},
                                   {"timeouts", stats.timeouts},
                                   {"errors", stats.errors},
                                   {"gave_back", stats.gave_back},
                                   {"breaker_open", asks ? 0U : 1U}}};
    if (const DenyCache* cache = stores_->deny_cache()) {
      status.numbers.emplace_back("deny_cache_hits", cache->hits());
    }
    return status;
  }

 private:
  StoreLog events_;
  std::unique_ptr<RedisStores> stores_;
  std::unique_ptr<RedisHealth> health_;
  MemoryStore nothing_{{.max_keys = 1, .max_log_bytes = 1}};
  Limiter nowhere_{nothing_};  // for loops that have stores of their own
};

}  // namespace

Expected<std::unique_ptr<Stores>> Stores::open(const Config& config, Log& log,
                                               const Clock& steady) {
  if (config.store != "memory") return InRedis::open(config, log);
  return InMemory::open(config, log, steady);
}

}  // namespace sluice::server
