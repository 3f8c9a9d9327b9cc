#pragma once

#include <deque>
#include <string>
#include <vector>

#include "core/algorithms.h"
#include "stores/redis/store/operation.h"

namespace sluice::redis {

// A request without scripts (`scripting: off`). Each slice of the clock has a key; a fixed window
// is one slice. A take sends SET NX PX and INCRBY for the newest slice and MGET for the others in
// one write, and DECRBY if a limit denies. A refund and a reset read first. A full server counts
// nothing: the take then only reads. docs/state-format.md
// describes what is lost compared with scripts.
class CounterOperation final : public Operation {
 public:
  explicit CounterOperation(const OperationOptions& options) : options_(options) {}

  bool prepare(const Request& request) noexcept override;
  void start(Client& client, Owner& owner) noexcept override;

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
  enum class Kind : std::uint8_t { kCreate, kIncrement, kRead, kWrite };
  struct Step final : public Command {
    void done(const Answer& answer) noexcept override { operation->step_done(*this, answer); }

    CounterOperation* operation = nullptr;
    Counter* counter = nullptr;
    Kind kind = Kind::kRead;
    bool is_counted = false;  // an increment that was acknowledged
  };

  bool add(const Charge& charge);
  void begin(Counter& counter);
  Step& add_step(Counter& counter, Kind kind);
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
  static bool take_counts(Counter& counter, const redisReply& reply) noexcept;
  void failed(const Answer& answer) noexcept;
  void next() noexcept;
  void give_back() noexcept;
  void give_back(const Step& step) noexcept;
  void decide(Counter& counter, std::uint64_t cost) noexcept;
  std::vector<std::uint32_t> counts_after_refund(const Counter& counter) const;
  void fail() noexcept;
  void finish() noexcept;

  const OperationOptions& options_;
  Request request_;
  core::Ticks now_ = 0;
  std::deque<Counter> counters_;
  std::vector<std::size_t> counter_of_;  // of each charge
  std::deque<Step> steps_;               // cleared by the next prepare(): the client borrows them
  std::size_t under_way_ = 0;
  bool is_second_round_ = false;  // of a refund, a reset, or a take that a full server refuses
  Reason failure_ = Reason::kOk;
  Client* client_ = nullptr;
  Owner* owner_ = nullptr;
};

}  // namespace sluice::redis
