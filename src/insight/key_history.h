#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "insight/key_frame.h"
#include "sluice/clock.h"

namespace sluice::insight {

// The time over which keys are counted.
enum class Span : std::uint8_t { kMinute, kHour, kDay };
inline constexpr std::size_t kSpans = 3;
inline constexpr std::array<std::string_view, kSpans> kSpanNames = {"minute", "hour", "day"};

// The most frequent keys of the last minute, hour and day. Each consists of six frames: of 10 s,
// 10 min and 4 h. The newest is still being filled, so a span covers between 5/6 of its length and
// all of it; covered() says how much. A frame that ends is added to the frame of the next span, so
// nothing is counted twice.
//
// Time is how long the process has run: it does not go back and does not follow the date. Steps
// backward are read as standing still.
//
// Thread-safety: one thread at a time. Cost: at most 18 frames.
class KeyHistory {
 public:
  static constexpr std::size_t kFrames = 6;

  // `most`: of the keys of a frame.
  explicit KeyHistory(std::size_t most = KeyFrame::kMostKeys) : most_(most) {}

  void add(const KeyFrame& frame, Duration now);
  KeyFrame over(Span span, Duration now) const;
  static Duration covered(Span span, Duration now) noexcept;
  // Returns whether nothing was added within the last day.
  bool is_over(Duration now) const noexcept;
  std::size_t bytes() const noexcept;

 private:
  struct Slot {
    std::int64_t number = -1;  // counts the frames of the span from time 0
    KeyFrame frame;
  };
  struct Ring {
    std::array<Slot, kFrames> slots;
    std::int64_t newest = -1;
  };

  void add(std::size_t span, std::int64_t number, const KeyFrame& frame);

  std::size_t most_;
  std::array<Ring, kSpans> rings_;
};

}  // namespace sluice::insight
