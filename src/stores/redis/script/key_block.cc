#include "stores/redis/script/key_block.h"

#include "limiter/answer.h"
#include "stores/redis/client/command.h"
#include "stores/redis/script/format.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kSlots = 16384;

std::uint64_t flags_of(const KeyBlock::Asked& asked, const Charge& charge) noexcept {
  if (asked.action.verb == Verb::kBlock) return format::kBlocksByHand;
  if (asked.action.verb == Verb::kUnblock) return format::kUnblocksByHand;
  if (!asks(asked.action.verb) || asked.cost == 0) return 0;
  const bool counts = asked.may_fit && counts_denials(asked.action.verb, charge);
  return format::kDeniesIfBlocked + (counts ? format::kCountsDenials : 0);
}

}  // namespace

bool uses_blocks(Verb verb) noexcept {
  return asks(verb) || changes_block(verb) || verb == Verb::kReset;
}

std::uint32_t number_in_slot(std::uint16_t slot) {
  static const std::vector<std::uint32_t> numbers = [] {
    std::vector<std::uint32_t> found(kSlots, 0);
    std::size_t left = kSlots;
    for (std::uint32_t number = 1; left > 0; ++number) {
      std::uint32_t& of_slot = found[slot_of(std::to_string(number))];
      if (of_slot != 0) continue;
      of_slot = number;
      --left;
    }
    return found;
  }();
  return numbers[slot % kSlots];
}

void KeyBlock::begin(const Charge& charge, std::string_view prefix, std::string_view counter_key,
                     std::optional<std::uint16_t> slot) {
  charge_ = charge.block != nullptr ? &charge : nullptr;
  answer_ = {};
  if (charge_ == nullptr) return;
  key_.assign(prefix) += format::kOfBlocks;
  // The tag is that of the counter. A counter without one is in the slot of its whole key.
  if (slot && charge.tag.empty()) key_ += "{" + std::to_string(number_in_slot(*slot)) + "}";
  key_ += counter_key;
}

void KeyBlock::append_argument(const Asked& asked, std::string& out) const {
  const Block& block = *charge_->block;
  const bool is_by_hand = asked.action.verb == Verb::kBlock;
  const auto ticks = [](Duration time) { return static_cast<std::uint64_t>(time.count()); };
  format::kKeyBlockArgument.append(
      {.counter = asked.counter,
       .flags = flags_of(asked, *charge_),
       .after = block.after(),
       .within = ticks(block.within()),
       .time = ticks(is_by_hand ? asked.action.max_wait : block.time()),
       .growth = block.growth(),
       .at_most = ticks(block.at_most())},
      out);
}

bool KeyBlock::read(std::string_view bytes, core::Ticks now) {
  now_ = now;
  found_ = {};
  denials_.clear();
  if (bytes.empty()) return false;
  is_written_ = bytes.front() != 0;
  bytes.remove_prefix(1);
  if (bytes.empty()) return true;
  if (bytes.size() < format::kKeyBlockHead.size()) return false;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(bytes);
  if (bytes.size() % format::kInstant.size() != 0) return false;
  while (!bytes.empty()) {
    denials_.push_back(static_cast<core::Ticks>(format::kInstant.take(bytes).value));
  }
  found_ = {.last = static_cast<core::Ticks>(head.changed),
            .end = static_cast<core::Ticks>(head.end),
            .grown = static_cast<core::Ticks>(head.grown),
            .forgotten = static_cast<core::Ticks>(head.forgotten),
            .denials = denials_};
  found_ = found_.at(now);
  return head.kind == format::kKeyBlockKind && head.changed < format::kEndOfInstants &&
         head.grown < format::kEndOfSpans;
}

void KeyBlock::look() noexcept { answer_ = core::look(found_, now_); }

void KeyBlock::deny(Verb verb) noexcept {
  if (!is_written_ || !counts_denials(verb, *charge_)) return;
  answer_ = core::deny(*charge_->block, found_, now_).answer;
}

void KeyBlock::change(Action action) noexcept {
  answer_ = {};
  if (action.verb == Verb::kUnblock) return;
  answer_ = core::block_for(*charge_->block, found_, now_, action.max_wait.count()).answer;
}

}  // namespace sluice::redis
