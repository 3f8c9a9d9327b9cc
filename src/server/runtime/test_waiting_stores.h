#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>

#include "server/net/fiber.h"
#include "server/runtime/loop.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {

// A memory store that waits before it decides, like a store on the network.
//
// Thread-safety: the loop's thread only, except for the numbers.
class WaitingStore final : public Store {
 public:
  enum class Waits {
    kNot,      // has the answer before the request waits
    kForMs,    // 1 to 20 ms
    kForTest,  // until release()
  };

  explicit WaitingStore(boost::asio::io_context& loop) : loop_(loop) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    if (!stopped_ && net::current_fiber() != nullptr) wait();
    if (!stopped_ && net::current_fiber() != nullptr)
      return memory_.apply(action, charges, now, each);
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), refusal);
    return refusal;
  }

  // Resumes the request that has waited longest, or the newest one.
  void release(bool newest = false) {
    if (waiting_.empty()) return;
    finish(newest ? waiting_.rbegin()->first : waiting_.begin()->first);
  }
  void stop() {
    stopped_ = true;
    while (!waiting_.empty()) release();
  }

  std::atomic<Waits> waits = Waits::kNot;
  std::atomic<std::size_t> asked = 0;
  std::atomic<std::size_t> under_way = 0;
  std::atomic<std::size_t> most_under_way = 0;

 private:
  void wait() {
    net::FiberWait wait;
    const std::uint64_t id = next_++;
    waiting_.emplace(id, &wait);
    most_under_way = std::max<std::size_t>(most_under_way, ++under_way);
    std::optional<boost::asio::steady_timer> timer;
    switch (waits) {
      case Waits::kNot: finish(id); break;
      case Waits::kForTest: break;
      case Waits::kForMs:
        timer.emplace(loop_, std::chrono::milliseconds(1 + random_() % 20));
        timer->async_wait([this, id](const boost::system::error_code&) { finish(id); });
    }
    wait.wait();
  }
  void finish(std::uint64_t id) {
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;  // ended by stop()
    net::FiberWait& wait = *found->second;
    waiting_.erase(found);
    --under_way;
    wait.finish();
  }

  boost::asio::io_context& loop_;
  testing::ManualClock clock_;
  MemoryStore memory_{{}, clock_};
  std::map<std::uint64_t, net::FiberWait*> waiting_;
  std::uint64_t next_ = 0;
  std::minstd_rand random_;
  bool stopped_ = false;
};

// The three stores of a loop. Those for shadow rules and for the local share never wait for the
// test.
class WaitingStores final : public LoopStores {
 public:
  explicit WaitingStores(boost::asio::io_context& in)
      : loop(in), store(in), shadow_store(in), local_store(in) {}

  Limiter& limiter() override { return limiter_; }
  Store* shadow() override { return &shadow_store; }
  Store* local() override { return &local_store; }
  void stop() override {
    for (WaitingStore* one : {&store, &shadow_store}) one->stop();
  }

  boost::asio::io_context& loop;
  WaitingStore store;
  WaitingStore shadow_store;
  WaitingStore local_store;

 private:
  Limiter limiter_{store};
};

}  // namespace sluice::server
