#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/store.h"

namespace sluice {

// A store that returns a given answer and counts its requests.
class TestStore final : public Store {
 public:
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override {
    ++asked;
    last_verb = action.verb;
    last_now = now;
    last_charges = charges.size();
    last_cost = charges.empty() ? 0 : charges[0].cost;
    if (before_answer) before_answer();
    std::fill(each.begin(), each.end(), answer);
    return answer;
  }
  void fail(Reason reason) { answer = Decision::refused(reason); }
  void work() { answer = {}; }

  Decision answer;
  std::function<void()> before_answer;
  int asked = 0;
  Verb last_verb = Verb::kTake;
  std::optional<Instant> last_now;
  std::size_t last_charges = 0;
  std::uint64_t last_cost = 0;  // of the first charge
};

// Records the events.
class TestObserver final : public StoreObserver {
 public:
  void on(const StoreEvent& event) noexcept override {
    const std::lock_guard lock(mutex_);
    events_.push_back({event.kind, std::string(event.why)});
    last_lasted_ = event.lasted;
  }
  std::vector<StoreEventKind> kinds() const {
    const std::lock_guard lock(mutex_);
    std::vector<StoreEventKind> out;
    for (const auto& event : events_) out.push_back(event.first);
    return out;
  }
  std::string last_why() const {
    const std::lock_guard lock(mutex_);
    return events_.empty() ? "" : events_.back().second;
  }
  Duration last_lasted() const {
    const std::lock_guard lock(mutex_);
    return last_lasted_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<StoreEventKind, std::string>> events_;
  Duration last_lasted_{};
};

}  // namespace sluice
