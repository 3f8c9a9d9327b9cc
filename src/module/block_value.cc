#include "module/block_value.h"

#include "stores/redis/script/format.h"

namespace sluice::redis_module {

namespace format = redis::format;
using core::Ticks;

bool read_block_value(std::string_view bytes, Ticks now, BlockValue& block) {
  block.denials.clear();
  block.state = {};
  if (bytes.empty()) return true;
  if (bytes.size() < format::kKeyBlockHead.size()) return false;
  const format::KeyBlockHead head = format::kKeyBlockHead.take(bytes);
  if (bytes.size() % format::kInstant.size() != 0 || head.kind != format::kKeyBlockKind ||
      head.changed >= format::kEndOfInstants || head.grown >= format::kEndOfSpans) {
    return false;
  }
  // Only a damaged value has more.
  if (bytes.size() > kMaxBlockDenials * format::kInstant.size()) return false;
  while (!bytes.empty()) {
    block.denials.push_back(static_cast<Ticks>(format::kInstant.take(bytes).value));
  }
  block.state = core::BlockState{.last = static_cast<Ticks>(head.changed),
                                 .end = static_cast<Ticks>(head.end),
                                 .grown = static_cast<Ticks>(head.grown),
                                 .forgotten = static_cast<Ticks>(head.forgotten),
                                 .denials = block.denials}
                    .at(now);
  return true;
}

bool denies(const AskedBlock& asked, const BlockValue& block, Ticks now) noexcept {
  return (asked.flags & format::kDeniesIfBlocked) != 0 && core::look(block.state, now).left > 0;
}

Ticks change_block_value(const AskedBlock& asked, const BlockValue& block, Ticks now,
                         std::string& out) {
  const core::NextBlock next =
      asked.flags == format::kBlocksByHand
          ? core::block_for(asked.block, block.state, now, asked.time.count())
          : core::deny(asked.block, block.state, now);
  const auto number = [](Ticks ticks) { return static_cast<std::uint64_t>(ticks); };
  out.clear();
  format::kKeyBlockHead.append({.kind = format::kKeyBlockKind,
                                .changed = number(next.state.last),
                                .end = number(next.state.end),
                                .grown = number(next.state.grown),
                                .forgotten = number(next.state.forgotten)},
                               out);
  for (const Ticks denial : block.state.denials.subspan(next.expired)) {
    format::kInstant.append({number(denial)}, out);
  }
  if (next.adds) format::kInstant.append({number(next.state.last)}, out);
  return next.state.forgotten;
}

}  // namespace sluice::redis_module
