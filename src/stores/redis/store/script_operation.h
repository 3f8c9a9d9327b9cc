#pragma once

#include <deque>

#include "stores/redis/script/plan.h"
#include "stores/redis/store/operation.h"

namespace sluice::redis {

// A request as one script call; in a cluster as one call per slot, all at the same time. Units that
// one call took are given back if another denies or fails.
class ScriptOperation final : public Operation {
 public:
  explicit ScriptOperation(const OperationOptions& options) : options_(options) {}

  bool prepare(const Request& request) noexcept override;
  void start(Client& client, Owner& owner) noexcept override;

 private:
  enum class Outcome : std::uint8_t { kUnderWay, kAllowed, kDenied, kFailed };
  // The call for one slot.
  struct Part final : public Command {
    void done(const Answer& answer) noexcept override { operation->part_done(*this, answer); }
    bool expects(const redisReply& reply) noexcept override {
      return operation->read(*this, reply);
    }

    ScriptOperation* operation = nullptr;
    std::size_t index = 0;
    Outcome outcome = Outcome::kUnderWay;
    std::uint8_t repeats = 0;  // because the script needed other windows of a calendar
    bool is_to_repeat = false;
  };

  void part_done(Part& part, const Answer& answer) noexcept;
  // Returns whether the reply can be one of our scripts.
  bool read(Part& part, const redisReply& reply) noexcept;
  bool repeat(Part& part) noexcept;
  void part_failed(Part& part, const Answer& answer) noexcept;
  void failed(Reason reason) noexcept;
  void finish() noexcept;
  bool any(Outcome outcome) const noexcept;
  void give_back() noexcept;

  const OperationOptions& options_;
  Plan plan_;
  std::deque<Part> parts_;  // never shrinks: a part is borrowed by the client while it is under way
  std::size_t used_ = 0;    // of parts_
  std::size_t under_way_ = 0;
  Verb verb_ = Verb::kTake;
  std::span<Decision> each_;
  Reason failure_ = Reason::kOk;
  Client* client_ = nullptr;
  Owner* owner_ = nullptr;
};

}  // namespace sluice::redis
