#include "stores/redis/store/loop_store.h"

#include <algorithm>
#include <new>
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
    : options_{.prefix = target->options.prefix,
               .by_slot = target->kind == Target::Kind::kCluster,
               .scripting = target->options.scripting,
               .explicit_expiry_ms =
                   static_cast<std::uint64_t>(target->options.explicit_timestamp_expiry.count()),
               .ledger_keep = target->options.ledger_keep,
               .uses_module = target->options.module == ModuleUse::kAuto},
      open_(make_client(loop, std::move(target), observer)),
      client_(open_.get()) {}

Operation* LoopStore::prepare(const Operation::Request& request, Completion& completion) noexcept {
  Operation* const operation = get_operation();
  if (operation == nullptr) {
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(request.each.begin(), request.each.end(), refusal);
    completion.done(refusal);
    return nullptr;
  }
  operation->completion = &completion;
  if (operation->prepare(request)) return operation;
  end(*operation);
  return nullptr;
}

void LoopStore::end(Operation& operation) noexcept {
  Completion& completion = *operation.completion;
  const Decision decision = operation.decision();
  returned_.push(operation);
  completion.done(decision);
}

Operation* LoopStore::get_operation() noexcept try {
  const std::lock_guard lock(mutex_);
  if (free_ == nullptr) free_ = returned_.take_newest();
  if (free_ != nullptr) return std::exchange(free_, free_->next);
  if (options_.scripting) {
    operations_.push_back(std::make_unique<ScriptOperation>(options_, gave_back_));
  } else {
    operations_.push_back(std::make_unique<CounterOperation>(options_, gave_back_));
  }
  return operations_.back().get();
} catch (const std::bad_alloc&) {
  return nullptr;
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
