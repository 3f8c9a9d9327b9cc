#include "sluice/redis_store.h"

#include <semaphore.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "stores/redis/client/target.h"
#include "stores/redis/store/operation.h"

namespace sluice {
namespace {

using redis::Operation;

// One waiting caller. The store reuses it for later callers.
class Waiter final : public Operation::Owner {
 public:
  explicit Waiter(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {
    ::sem_init(&done_, 0, 0);
  }
  ~Waiter() override { ::sem_destroy(&done_); }

  Operation& operation() noexcept { return *operation_; }
  // Sleeps at once. A round trip is long, and std::atomic::wait() spins and yields first, which
  // takes as much time as everything else if there are many callers.
  void wait() noexcept {
    while (::sem_wait(&done_) != 0) {
    }
  }
  void finished(Operation&) noexcept override { ::sem_post(&done_); }

  Waiter* next = nullptr;  // in the queue to the store's thread

 private:
  std::unique_ptr<Operation> operation_;
  ::sem_t done_;
};

// A queue from many threads to one.
class Queue {
 public:
  // Returns whether it was empty, so that the reader must be woken.
  bool push(Waiter& waiter) noexcept {
    Waiter* head = newest_.load(std::memory_order_relaxed);
    do {
      waiter.next = head;
    } while (!newest_.compare_exchange_weak(head, &waiter, std::memory_order_release,
                                            std::memory_order_relaxed));
    return head == nullptr;
  }
  // Removes and returns all, oldest first.
  Waiter* take() noexcept {
    Waiter* newest = newest_.exchange(nullptr, std::memory_order_acquire);
    Waiter* oldest = nullptr;
    while (newest != nullptr) {
      Waiter* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  std::atomic<Waiter*> newest_{nullptr};
};

// Waiters that are not in use.
class Spares {
 public:
  explicit Spares(const redis::OperationOptions& options) : options_(options) {}

  Waiter* get() noexcept try {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      auto made = std::make_unique<Waiter>(redis::make_operation(options_));
      free_.reserve(all_.size() + 1);  // so that put() cannot fail
      all_.push_back(std::move(made));
      return all_.back().get();
    }
    Waiter* const waiter = free_.back();
    free_.pop_back();
    return waiter;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  void put(Waiter& waiter) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(&waiter);
  }

 private:
  const redis::OperationOptions& options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Waiter>> all_;
  std::vector<Waiter*> free_;
};

// Replaces the client when the store is closed, and refuses all commands.
class Closed final : public redis::Client {
 public:
  void submit(redis::Command& command) noexcept override {
    command.done({redis::Failure::kUnavailable, "the store is closed", nullptr});
  }
  bool ready() const noexcept override { return false; }
  std::string why() const override { return "the store is closed"; }
  RedisStoreStats stats() const noexcept override { return {}; }
};

// Counts the calls that are under way in a store; the destructor waits for them.
class Callers {
 public:
  class Guard {
   public:
    explicit Guard(Callers& callers) noexcept : callers_(callers) {
      callers_.inside_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Guard() { callers_.inside_.fetch_sub(1, std::memory_order_release); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Callers& callers_;
  };
  void wait_until_gone() const noexcept {
    while (inside_.load(std::memory_order_acquire) != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

 private:
  std::atomic<std::size_t> inside_{0};
};

}  // namespace

class RedisStore::Impl {
 public:
  Impl(std::shared_ptr<const redis::Target> target, StoreObserver* observer)
      : options_(redis::operation_options(*target)), spares_(options_) {
    options_.gave_back = &gave_back_;
    client_ = redis::make_client(loop_, std::move(target), observer, clock_);
    thread_ = std::thread([this] { loop_.run(); });
  }

  // Answers all calls that are under way first, also those that have not been submitted yet.
  ~Impl() {  // NOLINT(bugprone-exception-escape): without memory the process ends
    is_closing_.store(true, std::memory_order_relaxed);
    boost::asio::post(loop_, [this] {
      // Ends the commands that are under way.
      const auto client = std::exchange(client_, std::make_unique<Closed>());
    });
    callers_.wait_until_gone();
    boost::asio::post(loop_, [this] { loop_.stop(); });
    thread_.join();
  }

  Decision apply(const Operation::Request& request) noexcept {
    const Callers::Guard inside(callers_);
    Waiter* const waiter = spares_.get();
    Decision decision = Decision::refused(Reason::kStoreError);
    if (waiter == nullptr) {
      std::fill(request.each.begin(), request.each.end(), decision);
      return decision;
    }
    if (waiter->operation().prepare(request)) {
      if (queue_.push(*waiter)) wake();
      waiter->wait();
    }
    decision = waiter->operation().decision();
    spares_.put(*waiter);
    return decision;
  }

  Expected<bool> wait_until_ready(std::chrono::milliseconds at_most) {
    const Callers::Guard inside(callers_);
    const Instant end = clock_.now() + at_most;
    for (;;) {
      std::promise<std::string> said;
      boost::asio::post(loop_, [&] {
        const bool is_ready = client_->ready();
        said.set_value(is_ready ? std::string() : client_->why().insert(0, 1, ' '));
      });
      const std::string why = said.get_future().get();
      if (why.empty()) return true;
      const bool is_closing = is_closing_.load(std::memory_order_relaxed);
      if (is_closing || clock_.now() >= end) {
        return Unexpected{why.size() > 1 ? why.substr(1) : "it has not answered yet"};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  RedisStoreStats stats() const noexcept {
    RedisStoreStats stats = client_->stats();
    stats.gave_back = gave_back_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  void wake() noexcept {
    for (;;) try {
        return boost::asio::post(loop_, [this] { start_all(); });
      } catch (const std::bad_alloc&) {
        std::this_thread::yield();  // otherwise the queued requests would wait forever
      }
  }
  void start_all() noexcept {
    for (Waiter* waiter = queue_.take(); waiter != nullptr;) {
      Waiter* const next = waiter->next;  // it may be reused as soon as it is started
      waiter->operation().start(*client_, *waiter);
      waiter = next;
    }
  }

  const Clock& clock_ = SteadyClock::instance();
  redis::OperationOptions options_;
  std::atomic<std::uint64_t> gave_back_{0};
  std::atomic<bool> is_closing_{false};
  Callers callers_;
  Spares spares_;
  Queue queue_;
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  std::unique_ptr<redis::Client> client_;
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

Decision RedisStore::apply(Verb verb, std::span<const Charge> charges, std::optional<Instant> now,
                           std::span<Decision> each) noexcept {
  return impl_->apply({verb, charges, now, each});
}

Expected<bool> RedisStore::wait_until_ready(std::chrono::milliseconds at_most) {
  return impl_->wait_until_ready(at_most);
}

RedisStoreStats RedisStore::stats() const { return impl_->stats(); }

}  // namespace sluice
