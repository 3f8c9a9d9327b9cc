#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "stores/redis/client/clients.h"
#include "stores/redis/client/target.h"
#include "tests/redis/redis_cluster.h"
#include "tests/support/wait_until.h"

// A cluster's client for tests: they use it from their thread, and its loop runs on another.
namespace sluice_redis {

using sluice::redis::Answer;
using sluice::redis::Command;
using sluice::redis::Failure;

// Runs INCR on each key, all or none. Returns the last count.
inline constexpr sluice::redis::Script kCountAll = {
    "count_all", "local n for _, key in ipairs(KEYS) do n = redis.call('INCR', key) end return n",
    "6bca8dca9bf8c0b5b1a5b20c613f8212d95c07a2"};

class EventCounter final : public sluice::StoreObserver {
 public:
  void on(const sluice::StoreEvent& event) noexcept override {
    ++counts_[static_cast<std::size_t>(event.kind)];
  }
  std::uint64_t of(sluice::StoreEventKind kind) const noexcept {
    return counts_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<std::atomic<std::uint64_t>, sluice::kStoreEventKinds> counts_{};
};

struct Outcome {
  Failure failure = Failure::kNone;
  std::string text;  // the failure's or the reply's text
  long long number = 0;
};

class ClusterCaller {
 public:
  ClusterCaller(const std::string& url, std::chrono::milliseconds deadline) {
    sluice::RedisOptions options;
    options.url = url;
    options.deadline = deadline;
    auto target = sluice::redis::make_target(options);
    if (!target) throw std::runtime_error(target.error());
    client_ = sluice::redis::make_cluster_client(
        sluice::redis::make_asio_event_loop(loop_, *target), *target, &events);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ClusterCaller() {  // NOLINT(bugprone-exception-escape): ends the test
    on_loop([this] { client_.reset(); });
    work_.reset();
    thread_.join();
  }
  ClusterCaller(const ClusterCaller&) = delete;
  ClusterCaller& operator=(const ClusterCaller&) = delete;

  // Both wait for the answer. The keys are in one slot, except in tests of that error.
  Outcome run(std::initializer_list<std::string_view> words, std::optional<std::uint16_t> slot) {
    Call call;
    for (const std::string_view word : words) call.append(word);
    call.slot = slot;
    return wait_for(call).get();
  }
  Outcome count(std::initializer_list<std::string_view> keys) {
    Call call;
    prepare_count(call, keys);
    return wait_for(call).get();
  }

  static void prepare_count(Command& command, std::initializer_list<std::string_view> keys) {
    command.script = &kCountAll;
    command.append(static_cast<std::uint64_t>(keys.size()));
    for (const std::string_view key : keys) command.append(key);
    command.slot = sluice::redis::slot_of(*keys.begin());
  }

  template <typename Work>
  std::invoke_result_t<Work> on_loop(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto done = task.get_future();
    boost::asio::post(loop_, std::move(task));
    return done.get();
  }
  bool is_ready() {
    return on_loop([this] { return client_->ready(); });
  }
  std::string why() {
    return on_loop([this] { return client_->why(); });
  }
  sluice::RedisStoreStats stats() const { return client_->stats(); }
  sluice::redis::Client& client() noexcept { return *client_; }
  boost::asio::io_context& loop() noexcept { return loop_; }

  EventCounter events;

 private:
  struct Call final : public Command {
    void done(const Answer& answer) noexcept override {
      Outcome out{answer.failure, std::string(answer.text), 0};
      if (answer.failure == Failure::kNone) {
        out.number = answer.reply->integer;
        out.text = answer.reply->text;
      }
      auto kept = std::move(outcome);  // the waiting caller destroys this object
      kept.set_value(std::move(out));
    }
    std::promise<Outcome> outcome;
  };

  std::future<Outcome> wait_for(Call& call) {
    auto outcome = call.outcome.get_future();
    boost::asio::post(loop_, [this, &call] { client_->submit(call); });
    return outcome;
  }

  boost::asio::io_context loop_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop_.get_executor()};
  std::unique_ptr<sluice::redis::Client> client_;
  std::thread thread_;
};

// Counts on each of its keys continuously, with one request per key in progress, until stopped.
class Load {
 public:
  struct Count {
    std::string key;
    std::uint64_t done = 0;     // acknowledged
    std::uint64_t refused = 0;  // certainly not executed
    std::uint64_t unknown = 0;  // without an answer
    long long last = 0;         // the last answer
    std::string why;            // the last failure
  };

  Load(ClusterCaller& caller, const std::vector<std::string>& keys)
      : caller_(caller), under_way_(keys.size()) {
    for (const std::string& key : keys) workers_.push_back(std::make_unique<Worker>(*this, key));
    caller_.on_loop([this] {
      for (const auto& worker : workers_) worker->begin();
    });
  }
  ~Load() { stop(); }  // NOLINT(bugprone-exception-escape): ends the test
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  void stop() {
    is_stopping_ = true;
    sluice::testing::wait_until("the load has stopped", [this] { return under_way_ == 0; });
  }
  std::vector<Count> counts() {
    return caller_.on_loop([this] {
      std::vector<Count> counts;
      for (const auto& worker : workers_) counts.push_back(worker->count);
      return counts;
    });
  }
  std::uint64_t done(std::string_view key) {
    for (const Count& count : counts()) {
      if (count.key == key) return count.done;
    }
    throw std::runtime_error("no load on that key");
  }

 private:
  struct Worker final : public Command {
    Worker(Load& owner, const std::string& key) : load(owner), pause(owner.caller_.loop()) {
      count.key = key;
      ClusterCaller::prepare_count(*this, {key});
    }
    void begin() {
      if (load.is_stopping_) {
        --load.under_way_;
        return;
      }
      load.caller_.client().submit(*this);
    }
    // NOLINTNEXTLINE(bugprone-exception-escape): ends the test
    void done(const Answer& answer) noexcept override {
      if (answer.failure == Failure::kNone) {
        ++count.done;
        count.last = answer.reply->integer;
        boost::asio::post(load.caller_.loop(), [this] { begin(); });
        return;
      }
      const bool is_unknown =
          answer.failure == Failure::kTimeout || answer.failure == Failure::kLost;
      ++(is_unknown ? count.unknown : count.refused);
      count.why = answer.text;
      pause.expires_after(std::chrono::milliseconds(2));
      pause.async_wait([this](const boost::system::error_code&) { begin(); });
    }

    Load& load;
    boost::asio::steady_timer pause;
    Count count;
  };

  ClusterCaller& caller_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<std::size_t> under_way_{0};
  std::atomic<bool> is_stopping_{false};
};

// Returns the requested number of keys with slots from `first` to `last`, each in a different slot.
inline std::vector<std::string> keys_in(int first, int last, std::size_t count) {
  std::vector<std::string> keys;
  std::set<int> slots;
  for (int i = 0; keys.size() < count; ++i) {
    const std::string key = "key:" + std::to_string(i);
    const int slot = sluice::redis::slot_of(key);
    if (slot >= first && slot <= last && slots.insert(slot).second) keys.push_back(key);
  }
  return keys;
}

inline long long stored(RedisCluster& cluster, const std::string& key, std::size_t asked = 0) {
  const std::size_t master = cluster.master_of(sluice::redis::slot_of(key), asked);
  const std::string text = cluster.text(master, {"GET", key});
  return text.empty() ? 0 : std::stoll(text);
}

// Checks that no count is lost or counted twice: the stored count is at least the acknowledged
// count and at most that plus the unanswered requests.
inline void expect_exact(RedisCluster& cluster, const Load::Count& count, std::size_t asked = 0) {
  const auto value = static_cast<std::uint64_t>(stored(cluster, count.key, asked));
  EXPECT_GE(value, count.done) << count.key << ": " << count.why;
  EXPECT_LE(value, count.done + count.unknown) << count.key << ": " << count.why;
}

// Returns when the load on this key has continued.
inline void advance(Load& load, const std::string& key) {
  const std::uint64_t before = load.done(key);
  sluice::testing::wait_until("the load on " + key + " continues",
                              [&] { return load.done(key) > before + 10; });
}

}  // namespace sluice_redis
