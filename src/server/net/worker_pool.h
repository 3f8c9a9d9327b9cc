#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "server/net/fiber.h"

namespace sluice::server::net {

// The workers of one event loop: handlers of requests, each with its own buffers.
//
// Workers that never wait are one worker, which works on the loop's own stack. Workers that may
// wait for something outside the process work on fibers; the pool makes them as they are needed,
// and a request that finds none free waits in a queue.
//
// `Worker` needs two members: follow_rules(), which releases rules that are no longer active, and
// recycle(), which clears the buffers after a request.
//
// Thread-safety: the loop's thread only, except for the constructor. Ownership: owns the workers;
// no request may be in progress when it is destroyed. Cost: about 100 ns a request on a fiber; a
// worker keeps its stack, as much of it as was used, and its buffers.
template <typename Worker>
class WorkerPool {
 public:
  // A request to answer. A connection or a call derives from it.
  class Task {
   public:
    virtual ~Task() = default;
    // Answers the request. Runs on a fiber and may wait, if the workers do.
    virtual void work(Worker& worker) = 0;
    // Takes the answer: runs after work() on the loop's stack. Returns whether resume() may follow;
    // false if the request may no longer exist. Must not call submit().
    virtual bool finish(Worker& worker) = 0;
    // Runs after finish() with the worker free again, but only if submit() had returned before. May
    // call submit(), and may destroy the request.
    virtual void resume() {}
    // Whether a request in the queue still needs an answer. If not, the pool calls dropped()
    // instead of work().
    virtual bool wanted() const { return true; }
    virtual void dropped() {}
  };

  // Without `fibers` the workers never wait. Errors: std::bad_alloc, and what `make` throws.
  WorkerPool(std::function<std::unique_ptr<Worker>()> make,
             const std::optional<FiberPool::Options>& fibers)
      : make_(std::move(make)), most_(fibers ? std::max<std::size_t>(fibers->most, 1) : 1) {
    if (fibers) fibers_.emplace(*fibers);
    add();
  }
  ~WorkerPool() { assert(waiting_.empty() && free_.size() == all_.size()); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  bool waits() const noexcept { return fibers_.has_value(); }
  // The worker of a pool that never waits.
  Worker& only() { return *all_.front()->worker; }

  // Returns true if the request is finished. Otherwise the request must stay in its place until
  // resume().
  bool submit(Task& task) {
    if (!waits()) {
      Worker& worker = only();
      task.work(worker);
      static_cast<void>(task.finish(worker));
      worker.recycle();
      return true;
    }
    bool finished = false;
    if (!waiting_.empty() || !start(task, &finished)) waiting_.push_back(&task);
    return finished;
  }

  // Call it when the rules have changed. Workers on fibers are replaced by new ones, those that are
  // busy when they are done. There is always at least one.
  void follow_rules() {
    if (!waits()) return only().follow_rules();
    ++generation_;
    for (Slot* const slot : std::exchange(free_, {})) drop(*slot);
    if (all_.empty()) add();
  }

 private:
  // A worker and the request that it answers.
  struct Slot {
    Slot(WorkerPool& owner, std::unique_ptr<Worker> made, std::uint64_t when)
        : generation(when),
          worker(std::move(made)),
          job{[this] { task->work(*worker); }, [this, &owner] { owner.finished(*this); }} {}

    const std::uint64_t generation;
    const std::unique_ptr<Worker> worker;
    FiberJob job;
    Task* task = nullptr;
    bool* at_once = nullptr;  // set if the request is finished before submit() returns
  };

  void add() {
    free_.reserve(all_.size() + 1);  // release() needs no memory
    all_.push_back(std::make_unique<Slot>(*this, make_(), generation_));
    free_.push_back(all_.back().get());
  }

  bool add_if_there_is_memory() {
    try {
      add();
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Returns false if no worker is free.
  bool start(Task& task, bool* at_once) {  // NOLINT(readability-non-const-parameter): a slot writes
    if (free_.empty() && (all_.size() >= most_ || !add_if_there_is_memory())) return false;
    Slot& slot = *free_.back();
    free_.pop_back();
    slot.task = &task;
    slot.at_once = at_once;
    if (!fibers_->run(slot.job)) {  // no memory for another stack
      free_.push_back(&slot);
      return false;
    }
    // If the request is finished, the slot may have the next request by now, or be destroyed.
    if (at_once == nullptr || *at_once) return true;
    slot.at_once = nullptr;
    return true;
  }

  void finished(Slot& slot) {
    Task& task = *slot.task;
    bool* const at_once = slot.at_once;
    const bool resumes = task.finish(*slot.worker);
    release(slot);
    serve_waiting();
    if (at_once != nullptr) {
      *at_once = true;
    } else if (resumes) {
      task.resume();
    }
  }

  void release(Slot& slot) {
    if (slot.generation == generation_) {
      slot.worker->recycle();
      return free_.push_back(&slot);
    }
    drop(slot);
    if (all_.empty()) add();
  }

  // Requests in the queue start before those that resume() submits.
  void serve_waiting() {
    if (std::exchange(serving_, true)) return;
    while (!waiting_.empty()) {
      Task& first = *waiting_.front();
      if (!first.wanted()) {
        waiting_.pop_front();
        first.dropped();
        continue;
      }
      if (!start(first, nullptr)) break;
      waiting_.pop_front();
    }
    serving_ = false;
  }

  void drop(const Slot& slot) {
    std::erase_if(all_, [&](const auto& one) { return one.get() == &slot; });
  }

  const std::function<std::unique_ptr<Worker>()> make_;
  const std::size_t most_;
  std::optional<FiberPool> fibers_;
  std::vector<std::unique_ptr<Slot>> all_;
  std::vector<Slot*> free_;  // the one that was used last is taken first
  std::deque<Task*> waiting_;
  std::uint64_t generation_ = 0;
  bool serving_ = false;
};

}  // namespace sluice::server::net
