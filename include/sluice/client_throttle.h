#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/clock.h"
#include "sluice/decision.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice {

// What the other service answered. A plain value that borrows its texts.
struct ServiceAnswer {
  int status = 200;                   // of HTTP
  std::string_view retry_after = {};  // the field Retry-After; empty if it is absent
  std::string_view rate_limit = {};   // the field RateLimit; repeated fields joined by commas
};

// Paces the requests that a program sends to another service, within a limit that all programs
// with the same store and key share, and stops them for as long as the service asks.
//
//   sluice::ClientThrottle throttle(store, "maps", sluice::leaky_bucket(10).per(1s).queueing());
//   if (!throttle.wait_to_send(5s)) return busy();
//   const auto response = http_get(url);
//   throttle.record({response.status, response.field("Retry-After"), response.field("RateLimit")});
//
// An answer stops all requests
//   - with status 429 or 503 and Retry-After: for that time, in seconds or until that date;
//   - with RateLimit, if a policy has no units left (`r=0`): for its time (`t`). The spelling
//     of older drafts is understood too: "limit=10, remaining=0, reset=7".
// An answer with both stops them as Retry-After says. The longest of the stops of several answers
// holds. Stops are in the store, so they hold for all programs, and in
// this object, so they hold without the store too. Both counters have the key as their tag.
//
// Thread-safety: any member from any thread. Ownership: borrows the store and the clock, which must
// outlive it; owns the key. Errors: if the store cannot decide, the decision is kFailed, or the
// answer of its failure policy. Cost: one request to the store for each try, none during a stop
// that this object knows of; two for an answer that stops requests.
class ClientThrottle {
 public:
  // A plain value.
  struct Options {
    // The longest time that one answer can stop requests, at most 49 days. Longer times count as
    // this one. Lower it if the service is not trusted.
    Duration longest_stop = std::chrono::hours(1);
  };

  // A throttle of the requests to one service. `key` names the service and the account there;
  // `limit` is what the service allows. With a leaky bucket in queue mode the requests are evenly
  // spaced. `clock` is for stops and waits.
  ClientThrottle(Store& store, std::string_view key, const Limit& limit, const Options& options,
                 const Clock& clock = SteadyClock::instance());
  // With the default options.
  ClientThrottle(Store& store, std::string_view key, const Limit& limit)
      : ClientThrottle(store, key, limit, Options{}) {}

  // Takes `cost` units, and returns whether the request may be sent now: after `delay` if the
  // decision has one. `retry_after` is when to try again.
  [[nodiscard]] Decision try_send(std::uint64_t cost = 1) noexcept;
  // As try_send, but waits until the request may be sent. Returns a denial as soon as that takes
  // longer than `most`; then nothing is taken. Sleeps meanwhile. Callers that wait at the same time
  // are not in order, unless the limit is a leaky bucket in queue mode.
  [[nodiscard]] Decision wait_to_send(Duration most, std::uint64_t cost = 1) noexcept;
  // Records an answer of the service. Call it for every answer. Fields that cannot be read are
  // ignored.
  void record(const ServiceAnswer& answer) noexcept;
  // Returns for how long requests are stopped, as far as this object knows; 0 if they are not.
  Duration stopped_for() const noexcept;

 private:
  Decision stopped(Duration wait) const noexcept;
  void stop(Duration time) noexcept;
  void share(Duration time) noexcept;
  void give_back(const Decision& decision, std::uint64_t cost) noexcept;

  Store& store_;
  std::string key_;
  std::string stop_key_;  // a bucket that contains the milliseconds until requests may be sent
  Limit limit_;
  Options options_;
  const Clock& clock_;
  std::atomic<Duration::rep> stopped_until_{0};  // since the start of `clock_`
};

}  // namespace sluice
