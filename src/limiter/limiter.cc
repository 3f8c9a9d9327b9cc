#include <array>

#include "limiter/waits.h"
#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice {

std::string_view to_string(StoreEventKind kind) noexcept {
  constexpr std::array<std::string_view, kStoreEventKinds> kNames = {
      "connected",     "connection_lost", "connect_failed",  "topology_changed", "request_failed",
      "script_loaded", "breaker_opened",  "breaker_probing", "breaker_closed",
  };
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : std::string_view("unknown");
}

Decision Store::apply_one(Action action, const Charge& charge,
                          std::optional<Instant> now) noexcept {
  Decision decision;
  return apply(action, {&charge, 1}, now, {&decision, 1});
}

namespace {

// Where nobody reads the single answers. Few charges keep the frame small: clearing room for 64
// answers costs more than deciding three.
template <std::size_t N>
Decision apply_unread(Store& store, Action action, std::span<const Charge> charges,
                      std::optional<Instant> now) noexcept {
  std::array<Decision, N> unread;
  return store.apply(action, charges, now, std::span(unread).first(charges.size()));
}

class WaitingCharges final : public detail::WaitingThread {
 public:
  WaitingCharges(Store& store, std::span<const Charge> charges, std::span<Decision> each)
      : store_(store), charges_(charges), each_(each) {}

  Decision ask(Action action) noexcept override {
    return store_.apply(action, charges_, {}, each_);
  }
  void give_back() noexcept override {
    for (std::size_t i = 0; i < charges_.size(); ++i) {
      const bool is_permit = holds_permits(charges_[i].limit.algorithm());
      if (!is_permit && !detail::took_units(each_[i])) continue;
      store_.apply_one(is_permit ? Verb::kRelease : Verb::kRefund, charges_[i], {});
    }
    detail::released(store_, charges_);
  }
  std::span<const Charge> charges() noexcept override { return charges_; }
  std::span<Decision> each() noexcept override { return each_; }

 private:
  Store& store_;
  const std::span<const Charge> charges_;
  const std::span<Decision> each_;
};

}  // namespace

Decision Limiter::acquire(std::string_view key, const Limit& limit, std::uint64_t cost,
                          Deadline deadline) noexcept {
  const Charge charge{key, limit, cost};
  Decision each;
  return acquire({&charge, 1}, {&each, 1}, deadline);
}

Decision Limiter::acquire(std::span<const Charge> charges, std::span<Decision> each,
                          Deadline deadline) noexcept {
  std::array<Decision, kMaxCharges> unread;
  const bool is_short = each.size() < charges.size() && !each.empty();
  if (is_short || charges.size() > kMaxCharges) return Decision::refused(Reason::kInvalid);
  const std::span<Decision> answers = each.empty() ? std::span<Decision>(unread) : each;
  WaitingCharges call(*store_, charges, answers.first(charges.size()));
  return detail::acquire(*store_, call, deadline.at());
}

Decision Limiter::apply(Action action, std::span<const Charge> charges, std::span<Decision> each,
                        std::optional<Instant> now) noexcept {
  const bool is_read = each.size() >= charges.size();
  const bool is_short = !is_read && (!each.empty() || charges.size() > kMaxCharges);
  if (is_short) return Decision::refused(Reason::kInvalid);
  const auto ask = [&] {
    if (is_read) return store_->apply(action, charges, now, each.first(charges.size()));
    if (charges.size() <= 4) return apply_unread<4>(*store_, action, charges, now);
    return apply_unread<kMaxCharges>(*store_, action, charges, now);
  };
  if (action.verb != Verb::kRelease) return ask();
  const Decision said = ask();
  detail::released(*store_, charges);
  return said;
}

}  // namespace sluice
