#include "insight/key_history.h"

#include <algorithm>

namespace sluice::insight {
namespace {

using namespace std::chrono_literals;

constexpr std::array<Duration, kSpans> kLengths = {10s, 10min, 4h};  // of a frame
constexpr auto kFrameCount = static_cast<std::int64_t>(KeyHistory::kFrames);

std::int64_t frame_at(std::size_t span, Duration time) noexcept {
  return std::max(time, Duration{0}) / kLengths[span];
}

}  // namespace

void KeyHistory::add(const KeyFrame& frame, Duration now) {
  add(0, std::max(frame_at(0, now), rings_[0].newest), frame);
}

void KeyHistory::add(std::size_t span, std::int64_t number, const KeyFrame& frame) {
  Ring& ring = rings_[span];
  if (number > ring.newest) {
    if (ring.newest >= 0 && span + 1 < kSpans) {
      const std::int64_t next = frame_at(span + 1, ring.newest * kLengths[span]);
      add(span + 1, next, ring.slots[static_cast<std::size_t>(ring.newest) % kFrames].frame);
    }
    ring.slots[static_cast<std::size_t>(number) % kFrames] = {number, {}};
    ring.newest = number;
  }
  ring.slots[static_cast<std::size_t>(number) % kFrames].frame.add(frame, most_);
}

// The newest frame of each shorter span is not yet in the frames of the longer ones.
KeyFrame KeyHistory::over(Span span, Duration now) const {
  const auto wanted = static_cast<std::size_t>(span);
  const std::int64_t first = frame_at(wanted, now) - kFrameCount + 1;
  KeyFrame sum;
  for (const Slot& slot : rings_[wanted].slots) {
    if (slot.number >= 0 && slot.number >= first) sum.add(slot.frame, most_);
  }
  for (std::size_t shorter = 0; shorter < wanted; ++shorter) {
    const Ring& ring = rings_[shorter];
    if (ring.newest < 0 || frame_at(wanted, ring.newest * kLengths[shorter]) < first) continue;
    sum.add(ring.slots[static_cast<std::size_t>(ring.newest) % kFrames].frame, most_);
  }
  return sum;
}

Duration KeyHistory::covered(Span span, Duration now) noexcept {
  const auto which = static_cast<std::size_t>(span);
  const std::int64_t first = std::max<std::int64_t>(frame_at(which, now) - kFrameCount + 1, 0);
  return std::max(now, Duration{0}) - first * kLengths[which];
}

bool KeyHistory::is_over(Duration now) const noexcept {
  const std::size_t day = kSpans - 1;
  const std::int64_t last = frame_at(day, rings_[0].newest * kLengths[0]);
  return rings_[0].newest < 0 || last < frame_at(day, now) - kFrameCount + 1;
}

std::size_t KeyHistory::bytes() const noexcept {
  std::size_t bytes = sizeof *this;
  for (const Ring& ring : rings_) {
    for (const Slot& slot : ring.slots) bytes += slot.frame.kept_bytes() - sizeof slot.frame;
  }
  return bytes;
}

}  // namespace sluice::insight
