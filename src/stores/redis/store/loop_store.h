#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/algorithms.h"
#include "sluice/clock.h"
#include "sluice/redis_store.h"
#include "sluice/store.h"
#include "stores/redis/client/client.h"
#include "stores/redis/script/plan.h"

namespace boost::asio {
class io_context;
}

namespace sluice::redis {

// One request from beginning to end: what to send, what the answers mean, what must be given back.
// It neither waits nor locks: call prepare() in any thread, then start() in the client's thread,
// which calls `finished`, perhaps before start() returns.
//
// Serves one request after the other, and keeps its buffers. Ownership: borrows its arguments until
// it calls `finished`.
class Operation {
 public:
  struct Request {
    Action action = Verb::kTake;
    std::span<const Charge> charges;
    std::optional<Instant> now;
    std::span<Decision> each;  // one for every charge
  };
  // Both outlive it. `gave_back` counts requests that were undone.
  Operation(const RequestOptions& options, std::atomic<std::uint64_t>& gave_back) noexcept
      : options_(options), gave_back_(gave_back) {}
  virtual ~Operation() = default;

  // False: there is nothing to start; decision() has the reason.
  virtual bool prepare(const Request& request) noexcept = 0;
  // `finished` must not throw, and is called once.
  void start(Client& client, std::function<void()> finished) noexcept {
    client_ = &client;
    finished_ = std::move(finished);
    send();
  }

  const Decision& decision() const noexcept { return decision_; }

  // For the store that the operation belongs to.
  Operation* next = nullptr;  // in an OperationQueue
  AsyncStore::Completion* completion = nullptr;

 protected:
  virtual void send() noexcept = 0;
  // Answers the request and each charge with a reason of this process.
  void refuse(Reason reason, std::span<Decision> each) noexcept;
  // Keeps the gravest of several failures. A command without a reply of the server may have been
  // executed, unless it was not sent.
  void failed(Reason reason) noexcept;
  void failed_without_reply(Failure failure) noexcept;
  void end() noexcept { std::exchange(finished_, nullptr)(); }  // which may start it again

  const RequestOptions& options_;
  std::atomic<std::uint64_t>& gave_back_;
  Decision decision_;
  Client* client_ = nullptr;
  std::function<void()> finished_;
  std::size_t under_way_ = 0;  // commands
  Reason failure_ = Reason::kOk;
};

// A request as one script call; in a cluster as one call per slot, all at the same time, and as one
// per key while its slot moves. Units that one call took are given back if another denies or fails.
class ScriptOperation final : public Operation {
 public:
  using Operation::Operation;

  bool prepare(const Request& request) noexcept override;
  void send() noexcept override;

 private:
  // The call for one slot, or for one key.
  struct Part final : public Command {
    void done(const Answer& answer) noexcept override { operation->part_done(*this, answer); }
    bool expects(const Reply& reply) noexcept override { return operation->read(*this, reply); }
    void append_for_module(std::string& out) override {
      operation->plan_.append_for_module(index, out);
    }

    ScriptOperation* operation = nullptr;
    std::size_t index = 0;
    Plan::Read answered = Plan::Read::kMalformed;  // as if it failed, until it has an answer
    std::uint8_t repeats = 0;  // because the script needed other windows of a calendar
  };

  void add_part(std::size_t index);
  void part_done(Part& part, const Answer& answer) noexcept;
  // Returns whether the reply can be one of our scripts.
  bool read(Part& part, const Reply& reply) noexcept;
  bool repeat(Part& part) noexcept;
  bool divide(Part& part) noexcept;
  void part_failed(Part& part, const Answer& answer) noexcept;
  void finish() noexcept;
  bool any(Plan::Read answered) const noexcept;
  void give_back() noexcept;

  Plan plan_;
  std::deque<Part> parts_;  // never shrinks: a part is borrowed by the client while it is under way
  std::size_t used_ = 0;    // of parts_
  Verb verb_ = Verb::kTake;
  std::span<Decision> each_;
};

// A request without scripts (`scripting: off`). Each slice of the clock has a key; a fixed window
// is one slice. A take sends SET NX PX and INCRBY for the newest slice and MGET for the others in
// one write, and DECRBY if a limit denies. A refund and a reset read first. A full server counts
// nothing: the take then only reads. docs/reference/state-format.md
// describes what is lost compared with scripts.
class CounterOperation final : public Operation {
 public:
  using Operation::Operation;

  bool prepare(const Request& request) noexcept override;
  void send() noexcept override;

 private:
  // All charges on one counter.
  struct Counter {
    const Charge* charge = nullptr;
    std::uint64_t cost = 0;
    std::string base;  // its keys without the number of the slice
    std::uint64_t slice = 0;
    std::vector<std::uint32_t> counts;  // newest slice first, without this request's cost
    std::vector<bool> is_there;         // whether each slice exists, if it was read
    core::Answer answer;
  };
  struct Step final : public Command {
    void done(const Answer& answer) noexcept override { operation->step_done(*this, answer); }

    CounterOperation* operation = nullptr;
    Counter* counter = nullptr;
    bool reads = false;       // counts of slices
    bool increments = false;  // the newest slice
    bool is_counted = false;  // an increment that was acknowledged
  };

  bool add(const Charge& charge);
  void begin(Counter& counter);
  Step& add_step(Counter& counter);
  Step& add_read(Counter& counter);
  static std::string key_of(const Counter& counter, std::uint64_t age);
  std::uint64_t expiry_ms(const Counter& counter, std::uint64_t age) const noexcept;
  void read_older(Counter& counter);
  void increment(Counter& counter);
  void read_uncounted();
  void refund(Counter& counter);
  void forget(Counter& counter);
  void submit_from(std::size_t first) noexcept;
  void step_done(Step& step, const Answer& answer) noexcept;
  void take_reply(Step& step, const Answer& answer) noexcept;
  static bool take_counts(Counter& counter, const Reply& reply) noexcept;
  void step_failed(const Answer& answer) noexcept;
  void next() noexcept;
  void give_back() noexcept;
  void give_back(const Step& step) noexcept;
  void decide(Counter& counter, std::uint64_t cost) noexcept;
  std::vector<std::uint32_t> counts_after_refund(const Counter& counter) const;
  void fail() noexcept;
  void finish() noexcept;

  Request request_;
  core::Ticks now_ = 0;
  std::deque<Counter> counters_;
  std::vector<std::size_t> counter_of_;  // of each charge
  std::deque<Step> steps_;               // cleared by the next prepare(): the client borrows them
  bool is_second_round_ = false;  // of a refund, a reset, or a take that a full server refuses
};

// A queue from many threads to one.
class OperationQueue {
 public:
  // Returns whether it was empty, so that the reader must be woken.
  bool push(Operation& operation) noexcept {
    Operation* head = newest_.load(std::memory_order_relaxed);
    do {
      operation.next = head;
    } while (!newest_.compare_exchange_weak(head, &operation, std::memory_order_release,
                                            std::memory_order_relaxed));
    return head == nullptr;
  }
  // Removes all. Returns the newest, from which `next` leads to the oldest.
  Operation* take_newest() noexcept { return newest_.exchange(nullptr, std::memory_order_acquire); }
  // Removes all. Returns the oldest, from which `next` leads to the newest.
  Operation* take() noexcept {
    Operation* newest = take_newest();
    Operation* oldest = nullptr;
    while (newest != nullptr) {
      Operation* const next = std::exchange(newest->next, oldest);
      oldest = std::exchange(newest, next);
    }
    return oldest;
  }

 private:
  std::atomic<Operation*> newest_{nullptr};
};

// The Redis store of one event loop: a client, and the operations, which it reuses. RedisStore,
// AsyncRedisStore and the server's stores are made of it.
//
// Thread-safety: the loop's thread only, except for prepare() and stats(). Ownership: borrows the
// loop and the observer.
class LoopStore final : public AsyncStore {
 public:
  LoopStore(boost::asio::io_context& loop, std::shared_ptr<const Target> target,
            StoreObserver* observer);
  // As close().
  ~LoopStore() override { close(); }
  LoopStore(const LoopStore&) = delete;
  LoopStore& operator=(const LoopStore&) = delete;

  void async_apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                   std::span<Decision> each, Completion& completion) noexcept override {
    Operation* const operation = prepare({action, charges, now, each}, completion);
    if (operation != nullptr) start(*operation);
  }
  // The first half of async_apply(), for any thread. Null: the request was answered, because it is
  // kInvalid or there is no memory.
  Operation* prepare(const Operation::Request& request, Completion& completion) noexcept;
  void start(Operation& operation) noexcept {
    operation.start(*client_, [this, &operation] { end(operation); });
  }

  // Ends all requests under way. From then on, requests return kStoreError.
  void close() noexcept;

  // For other commands. It changes with close().
  Client& client() noexcept { return *client_; }
  bool ready() const noexcept { return client_->ready(); }
  std::string why() const { return client_->why(); }
  // From any thread, but not during close().
  RedisStoreStats stats() const noexcept;

 private:
  Operation* get_operation() noexcept;
  // Takes the operation back, then answers. Takes no lock.
  void end(Operation& operation) noexcept;

  const RequestOptions options_;
  std::atomic<std::uint64_t> gave_back_{0};
  OperationQueue returned_;
  std::mutex mutex_;  // protects the two members below
  Operation* free_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;

  std::unique_ptr<Client> open_;
  Client* client_;
};

}  // namespace sluice::redis
