#include <semaphore.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "sluice/async_redis_store.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/target.h"
#include "stores/redis/store/loop_store.h"

namespace sluice {

AsyncRedisStore::AsyncRedisStore(std::unique_ptr<redis::LoopStore> store)
    : store_(std::move(store)) {}
AsyncRedisStore::~AsyncRedisStore() = default;

Expected<std::unique_ptr<AsyncRedisStore>> AsyncRedisStore::open(boost::asio::io_context& loop,
                                                                 const RedisOptions& options,
                                                                 StoreObserver* observer) {
  auto target = redis::make_target(options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<AsyncRedisStore>(
      new AsyncRedisStore(std::make_unique<redis::LoopStore>(loop, std::move(*target), observer)));
}

void AsyncRedisStore::async_apply(Action action, std::span<const Charge> charges,
                                  std::optional<Instant> now, std::span<Decision> each,
                                  Completion& completion) noexcept {
  store_->async_apply(action, charges, now, each, completion);
}

bool AsyncRedisStore::ready() const noexcept { return store_->ready(); }
std::string AsyncRedisStore::why() const { return store_->why(); }
RedisStoreStats AsyncRedisStore::stats() const { return store_->stats(); }

namespace {

// Lets a thread sleep until its request is answered.
class Sleeper final : public AsyncStore::Completion {
 public:
  Sleeper() { ::sem_init(&done_, 0, 0); }
  ~Sleeper() { ::sem_destroy(&done_); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  // Sleeps at once. A round trip is long, and std::atomic::wait() spins and yields first, which
  // takes as much time as everything else if there are many callers.
  Decision wait() noexcept {
    while (::sem_wait(&done_) != 0) {
    }
    return decision_;
  }
  void done(const Decision& decision) noexcept override {
    decision_ = decision;
    ::sem_post(&done_);
  }

 private:
  Decision decision_;
  ::sem_t done_;
};

}  // namespace

class RedisStore::Impl {
 public:
  Impl(std::shared_ptr<const redis::Target> target, StoreObserver* observer)
      : store_(loop_, std::move(target), observer), thread_([this] { loop_.run(); }) {}

  // Answers all requests that are under way first, also those that have not been started yet.
  ~Impl() {  // NOLINT(bugprone-exception-escape): without memory the process ends
    is_closing_.store(true, std::memory_order_relaxed);
    boost::asio::post(loop_, [this] { store_.close(); });
    const std::unique_lock no_caller(callers_);
    boost::asio::post(loop_, [this] { loop_.stop(); });
    thread_.join();
  }

  Decision apply(const redis::Operation::Request& request) noexcept {
    const std::shared_lock inside(callers_);
    Sleeper sleeper;
    async_apply(request, sleeper);
    return sleeper.wait();
  }

  void async_apply(const redis::Operation::Request& request,
                   AsyncStore::Completion& completion) noexcept {
    redis::Operation* const operation = store_.prepare(request, completion);
    if (operation != nullptr && queue_.push(*operation)) wake();
  }

  Status wait_until_ready(std::chrono::milliseconds at_most) {
    const std::shared_lock inside(callers_);
    const auto end = std::chrono::steady_clock::now() + at_most;
    for (;;) {
      std::promise<std::string> said;
      boost::asio::post(loop_, [&] {
        said.set_value(store_.ready() ? std::string() : store_.why().insert(0, 1, ' '));
      });
      const std::string why = said.get_future().get();
      if (why.empty()) return {};
      const bool is_closing = is_closing_.load(std::memory_order_relaxed);
      if (is_closing || std::chrono::steady_clock::now() >= end) {
        return Unexpected{why.size() > 1 ? why.substr(1) : "it has not answered yet"};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  RedisStoreStats stats() const noexcept { return store_.stats(); }

 private:
  void wake() noexcept {
    for (;;) try {
        return boost::asio::post(loop_, [this] { start_all(); });
      } catch (const std::bad_alloc&) {
        std::this_thread::yield();  // otherwise the queued requests would wait forever
      }
  }
  void start_all() noexcept {
    for (redis::Operation* operation = queue_.take(); operation != nullptr;) {
      redis::Operation* const next = operation->next;  // it may be reused as soon as it is started
      store_.start(*operation);
      operation = next;
    }
  }

  std::atomic<bool> is_closing_{false};
  std::shared_mutex callers_;  // shared by calls that wait for an answer; the destructor waits
  redis::OperationQueue queue_;
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  redis::LoopStore store_;
  std::thread thread_;
};

RedisStore::RedisStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RedisStore::~RedisStore() = default;

Expected<std::unique_ptr<RedisStore>> RedisStore::open(const RedisOptions& options,
                                                       StoreObserver* observer) {
  auto target = redis::make_target(options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<RedisStore>(
      new RedisStore(std::make_unique<Impl>(std::move(*target), observer)));
}

Decision RedisStore::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  return impl_->apply({action, charges, now, each});
}

void RedisStore::async_apply(Action action, std::span<const Charge> charges,
                             std::optional<Instant> now, std::span<Decision> each,
                             Completion& completion) noexcept {
  impl_->async_apply({action, charges, now, each}, completion);
}

Status RedisStore::wait_until_ready(std::chrono::milliseconds at_most) {
  return impl_->wait_until_ready(at_most);
}

RedisStoreStats RedisStore::stats() const { return impl_->stats(); }

}  // namespace sluice
