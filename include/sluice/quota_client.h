#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sluice/clock.h"

namespace sluice {

// What a bucket decides while it has no assignment: before the first one arrives, and after the
// last one has ended.
enum class QuotaFallback : std::uint8_t { kAllow, kDeny };

// How to reach a quota service (docs/quota.md), and how to use it.
struct QuotaOptions {
  std::string address = "127.0.0.1:8081";  // the service's gRPC listener: HOST:PORT or unix:PATH
  std::string domain;                      // of its rules
  std::string token = {};                  // sent as `authorization: Bearer TOKEN`; empty: none

  bool tls = false;
  std::string tls_ca_file = {};    // empty: the system's certificate authorities
  std::string tls_cert_file = {};  // the client's certificate, PEM; together with tls_key_file
  std::string tls_key_file = {};

  QuotaFallback fallback = QuotaFallback::kAllow;
  // The time between two reports of a bucket; 10ms to 60s. The service measures demand by them.
  std::chrono::milliseconds report_every{1'000};
  // A bucket that was not used for so long is not reported, until it is used again.
  std::chrono::milliseconds idle{60'000};
  // A service assigns no more to one client. share_bucket() makes no bucket beyond these.
  std::size_t most_buckets = 16'384;
};

// A part of a limit that a quota service has assigned to this process. Decides without a request:
// the client reports the demand, and the service changes the assignment.
//
// Thread-safety: try_take() and the const members from any thread. Ownership: its client's. Cost of
// try_take(): one read of the clock and two atomic operations; no lock and no allocation, except
// for the first use after a time without use, which wakes the client's thread. Buckets share no
// cache line.
class alignas(64) QuotaBucket {
 public:
  QuotaBucket(const QuotaBucket&) = delete;
  QuotaBucket& operator=(const QuotaBucket&) = delete;

  // Takes units, all or none. Returns whether it took them. More units than the assignment admits
  // at once are always denied.
  bool try_take(std::uint32_t units = 1) noexcept;
  // Takes units of work that is already done, also those that the assignment does not admit.
  // Returns whether it admits them.
  bool charge(std::uint32_t units) noexcept;
  // Gives units back that were taken, up to a full bucket.
  void give_back(std::uint32_t units) noexcept;

  // What the bucket has now. A plain value.
  struct Tokens {
    bool is_assigned = false;              // whether an assignment is active; without one, all is 0
    bool admits_all = false;               // whatever the numbers below
    std::uint64_t most = 0;                // at once, of a full bucket
    std::uint64_t left = 0;                // now
    std::chrono::nanoseconds interval{0};  // in which one comes back, rounded up; 0: none does
    std::chrono::nanoseconds refill{0};    // in which all of them do
    std::chrono::nanoseconds full_after{0};  // if nothing is taken
  };
  Tokens tokens() const noexcept;

  // Units that were taken and denied since the client was made.
  std::uint64_t allowed() const noexcept { return allowed_.load(std::memory_order_relaxed); }
  std::uint64_t denied() const noexcept { return denied_.load(std::memory_order_relaxed); }
  // Whether an assignment is active.
  bool is_assigned() const noexcept;
  // Whether it was used within QuotaOptions::idle, so that the service knows it.
  bool is_in_use() const noexcept { return is_reported_.load(std::memory_order_relaxed); }

 private:
  friend class QuotaClient;
  enum class Kind : std::uint8_t { kAllowAll, kDenyAll, kTokens };
  // All times are nanoseconds of the steady clock.
  struct Assignment {
    Kind kind = Kind::kAllowAll;
    int shift = 0;               // `interval` is in 2^-shift ns
    std::int64_t interval = 0;   // in which one unit comes back
    std::int64_t tolerance = 0;  // in which a bucket that is empty becomes full
    std::int64_t until = 0;      // it ends then

    // The time in which these units come back, rounded up, and the units that come back in a time.
    std::int64_t time_of(std::int64_t units) const noexcept {
      return (units * interval + ((std::int64_t{1} << shift) - 1)) >> shift;
    }
    std::int64_t units_in(std::int64_t time) const noexcept { return (time << shift) / interval; }
  };

  // Null: the steady clock of C++.
  static std::int64_t now_of(const Clock* clock) noexcept {
    using std::chrono::steady_clock, std::chrono::nanoseconds;
    return clock != nullptr ? nanoseconds(clock->now().time_since_epoch()).count()
                            : nanoseconds(steady_clock::now().time_since_epoch()).count();
  }
  std::int64_t now() const noexcept { return now_of(clock_); }
  QuotaBucket(QuotaFallback fallback, std::function<void()> on_first_use, const Clock* clock)
      : fallback_(fallback), clock_(clock), on_first_use_(std::move(on_first_use)) {}
  void assign(const Assignment& assignment) noexcept;  // by one thread only
  Assignment assignment() const noexcept;
  void keep_tokens(const Assignment& before, const Assignment& now) noexcept;
  bool take_tokens(const Assignment& of, std::uint32_t units, std::int64_t now,
                   bool is_done) noexcept;
  bool take(std::uint32_t units, bool is_done) noexcept;

  // The assignment. `version_` is odd while it is written.
  std::atomic<std::uint32_t> version_{0};
  std::atomic<Kind> kind_{Kind::kAllowAll};
  std::atomic<int> shift_{0};
  std::atomic<std::int64_t> interval_{0}, tolerance_{0}, until_{0};
  const QuotaFallback fallback_;
  std::atomic<bool> is_reported_{false};
  const Clock* const clock_;
  const std::function<void()> on_first_use_;
  alignas(64) std::atomic<std::int64_t> full_at_{0};  // the bucket is full from then on
  std::atomic<std::uint64_t> allowed_{0}, denied_{0};
};

// A client of a quota service: keeps one stream to it, on a thread of its own. When the connection
// is lost, it connects again, first after 0.1 s, then less often, at the most every 5 s;
// assignments stay active until they end.
//
// Thread-safety: any member from any thread. Must outlive the use of its buckets.
class QuotaClient {
 public:
  // Throws std::invalid_argument if the options are wrong, and std::runtime_error if a file of the
  // certificates cannot be read. Does not wait for the connection.
  explicit QuotaClient(QuotaOptions options);
  ~QuotaClient();
  QuotaClient(const QuotaClient&) = delete;
  QuotaClient& operator=(const QuotaClient&) = delete;

  // Returns the bucket with these attributes, which the service's rules match; the same for equal
  // attributes. Keep the reference: finding it takes a lock. The service learns of a bucket with
  // its first use, unless its names and values have over 4,096 bytes: then the fallback decides.
  QuotaBucket& bucket(const std::map<std::string, std::string>& attributes);
  // The same, for programs with many buckets: the client keeps a bucket while others share it, and
  // while it is in use. Null: there is none yet, and there are QuotaOptions::most_buckets or `adds`
  // is false.
  std::shared_ptr<QuotaBucket> share_bucket(const std::map<std::string, std::string>& attributes,
                                            bool adds = true);

  struct Stats {
    bool is_connected = false;  // the service has accepted the stream
    std::uint64_t connects = 0;
    std::uint64_t buckets = 0;      // now
    std::uint64_t reports = 0;      // of a bucket
    std::uint64_t assignments = 0;  // that arrived
    std::string last_error = {};    // why the stream ended last; empty: it never has
  };
  Stats stats() const;

  class Buckets;  // defined by the library

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
