#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <climits>
#include <cstdint>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "limiter/forks.h"
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
    Sleeper sleeper(*this);
    async_apply(request, sleeper);
    return sleeper.wait();
  }

  void async_apply(const redis::Operation::Request& request,
                   AsyncStore::Completion& completion) noexcept {
    redis::Operation* const operation = store_.prepare(request, completion);
    if (operation != nullptr && queue_.push(*operation)) soon([this] { start_all(); });
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

  // Whether another process opened the store, which has its thread and uses its connections.
  bool is_of_parent() const noexcept { return forks_ != detail::forks(); }

 private:
  // Lets a thread sleep until its request is answered. Each sleeper has a bit of a word, and one
  // call of the system wakes all sleepers of a word that are answered. With a call for each, every
  // thread that wakes interrupts the loop: 64 threads then make half as many requests per second
  // (redis_store_bench), and take 6.5 us of processor time for each instead of 4.6.
  class Sleeper final : public AsyncStore::Completion {
   public:
    explicit Sleeper(Impl& store) noexcept
        : store_(store), number_(store.next_sleeper_.fetch_add(1, std::memory_order_relaxed)) {}

    // Sleeps at once. A round trip is long, and std::atomic::wait() spins and yields first, which
    // takes as much time as everything else if there are many callers.
    Decision wait() const noexcept {
      const std::atomic<std::uint32_t>& turn = store_.turns_[word()];
      for (;;) {
        const std::uint32_t seen = turn.load();
        if (is_done_.load()) return decision_;  // else it sleeps unless there was a turn meanwhile
        ::syscall(SYS_futex, &turn, FUTEX_WAIT_BITSET_PRIVATE, seen, nullptr, nullptr, bit());
      }
    }
    void done(const Decision& decision) noexcept override {
      Impl& store = store_;
      std::atomic<std::uint32_t>& answered = store.answered_[word()];
      const std::uint32_t own = bit();
      decision_ = decision;
      is_done_.store(true);  // from now on it may not exist
      answered.fetch_or(own);
      store.wake_soon();
    }

   private:
    std::size_t word() const noexcept { return number_ / 32 % kWords; }
    std::uint32_t bit() const noexcept { return std::uint32_t{1} << number_ % 32; }

    Impl& store_;
    const std::uint32_t number_;  // a sleeper with the same bit wakes too, and sleeps again
    Decision decision_;
    std::atomic<bool> is_done_{false};
  };

  void wake_soon() noexcept {
    if (!wakes_.exchange(true)) soon([this] { wake_answered(); });
  }
  // Wakes those of one word, and sends their next requests while the others wake.
  void wake_answered() noexcept {
    wakes_.store(false);
    const auto is_answered = [](const auto& bits) { return bits.load() != 0; };
    for (std::size_t tries = 0; tries < kWords; ++tries) {
      next_word_ = (next_word_ + 1) % kWords;
      const std::uint32_t bits = answered_[next_word_].exchange(0);
      if (bits == 0) continue;
      std::atomic<std::uint32_t>& turn = turns_[next_word_];
      turn.fetch_add(1);
      ::syscall(SYS_futex, &turn, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
      break;
    }
    start_all();
    if (std::any_of(answered_.begin(), answered_.end(), is_answered)) wake_soon();
  }
  template <typename Function>
  void soon(Function function) noexcept {
    for (;;) try {
        return boost::asio::post(loop_, function);
      } catch (const std::bad_alloc&) {
        std::this_thread::yield();  // otherwise the requests would wait forever
      }
  }
  void start_all() noexcept {
    for (redis::Operation* operation = queue_.take(); operation != nullptr;) {
      redis::Operation* const next = operation->next;  // it may be reused as soon as it is started
      store_.start(*operation);
      operation = next;
    }
  }

  static constexpr std::size_t kWords = 16;
  const std::uint64_t forks_ = detail::forks();
  std::array<std::atomic<std::uint32_t>, kWords> turns_{};     // how often its sleepers were woken
  std::array<std::atomic<std::uint32_t>, kWords> answered_{};  // bits of sleepers to be woken
  std::atomic<std::uint32_t> next_sleeper_{0};
  std::atomic<bool> wakes_{false};  // wake_answered() is about to run
  std::size_t next_word_ = 0;       // only the loop's thread changes it
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
RedisStore::~RedisStore() {
  if (!impl_->is_of_parent()) return;
  [[maybe_unused]] const Impl* const kept = impl_.release();  // its end would disturb the parent
}

Expected<std::unique_ptr<RedisStore>> RedisStore::open(const RedisOptions& options,
                                                       StoreObserver* observer) {
  auto target = redis::make_target(options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<RedisStore>(
      new RedisStore(std::make_unique<Impl>(std::move(*target), observer)));
}

namespace {

Decision refuse(std::span<Decision> each) noexcept {
  const Decision refusal = Decision::refused(Reason::kStoreError);
  std::fill(each.begin(), each.end(), refusal);
  return refusal;
}

}  // namespace

Decision RedisStore::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  if (impl_->is_of_parent()) return refuse(each);
  return impl_->apply({action, charges, now, each});
}

void RedisStore::async_apply(Action action, std::span<const Charge> charges,
                             std::optional<Instant> now, std::span<Decision> each,
                             Completion& completion) noexcept {
  if (impl_->is_of_parent()) return completion.done(refuse(each));
  impl_->async_apply({action, charges, now, each}, completion);
}

Status RedisStore::wait_until_ready(std::chrono::milliseconds at_most) {
  if (impl_->is_of_parent()) return Unexpected{"the store was opened before fork()"};
  return impl_->wait_until_ready(at_most);
}

RedisStoreStats RedisStore::stats() const { return impl_->stats(); }

}  // namespace sluice
