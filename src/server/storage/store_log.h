#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "server/logging/log.h"
#include "sluice/clock.h"
#include "sluice/store_events.h"

namespace sluice::server {

// Counts what befalls the store, and writes it to the log: a line for each event, of each kind at
// most kLines in any kEvery; `suppressed` says how many of the kind went without one since its last
// line. Fields: event, its kind; endpoint and why, where there is something to say.
//
// Thread-safety: any member from any thread; no lock but the log's. Ownership: borrows the log and
// the clock, which should be a steady one.
class StoreLog final : public StoreObserver {
 public:
  static constexpr std::uint32_t kLines = 5;
  static constexpr std::chrono::seconds kEvery{10};

  explicit StoreLog(Log& log, const Clock& clock = SteadyClock::instance()) noexcept
      : log_(log), clock_(clock) {}

  void on(const StoreEvent& event) noexcept override;
  // Events of that kind so far, with a line or without.
  std::uint64_t count(StoreEventKind kind) const noexcept;

 private:
  struct Kind {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> window{0};  // which of kEvery, and the lines in it
    std::atomic<std::uint64_t> suppressed{0};
  };
  bool admit(Kind& kind) noexcept;

  Log& log_;
  const Clock& clock_;
  std::array<Kind, kStoreEventKinds> kinds_;
};

}  // namespace sluice::server
