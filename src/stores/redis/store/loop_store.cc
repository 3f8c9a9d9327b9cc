#include "stores/redis/store/loop_store.h"

#include <utility>

#include "stores/redis/client/target.h"

namespace sluice::redis {
namespace {

// Replaces the client when the store is closed, and refuses all commands.
class Closed final : public Client {
 public:
  void submit(Command& command) noexcept override {
    command.done({Failure::kUnavailable, "the store is closed", nullptr});
  }
  bool ready() const noexcept override { return false; }
  std::string why() const override { return "the store is closed"; }
  RedisStoreStats stats() const noexcept override { return {}; }
};

Client& closed() noexcept {
  static Closed client;
  return client;
}

}  // namespace

LoopStore::LoopStore(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
                     StoreObserver* observer)
    : options_(operation_options(*target)),
      calls_(options_),
      open_(make_client(loop, std::move(target), observer)),
      client_(open_.get()) {
  options_.gave_back = &gave_back_;
}

void LoopStore::close() noexcept {
  client_ = &closed();  // requests that are answered by the next line may be followed by others
  open_.reset();
}

RedisStoreStats LoopStore::stats() const noexcept {
  RedisStoreStats stats = client_->stats();
  stats.gave_back = gave_back_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace sluice::redis
