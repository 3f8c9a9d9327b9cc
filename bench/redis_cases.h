#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/redis_load.h"
#include "bench/redis_server.h"
#include "sluice/store.h"
#include "stores/redis/script/plan.h"

namespace sluice::bench {

// The requests of a case, the denied replies, and the processor time of the server.
struct Told {
  std::uint64_t asked = 0;
  std::uint64_t denied = 0;
  std::uint64_t remaining = 0;  // of the latest reply
  double server_ns = 0;

  double server_us_each() const { return server_ns / 1000 / static_cast<double>(asked); }
  double denied_percent() const {
    return 100 * static_cast<double>(denied) / static_cast<double>(asked);
  }
};

// Returns "server us OWN / BASE, denied OWN / BASE".
std::string note_of(const Told& base, const Told& own);

// Requests that are prepared before the run and sent in a cycle, 16 pending per connection.
class Case {
 public:
  virtual ~Case() = default;
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void operator()(std::size_t first, std::size_t count);

  Told told;

 protected:
  explicit Case(const RedisServer& server) : server_(server) {}
  std::unique_ptr<RedisLoad> load_;

 private:
  const RedisServer& server_;
};

inline constexpr std::size_t kRequests = 1 << 14;  // prepared before the run

// The requests of the cases, for which 70 % of a limit is used if Redis decides about 100,000
// requests per second: over a fixed number of keys, each with a limit in units per second.
inline constexpr std::size_t kBenchKeys = 1000;
inline constexpr std::uint64_t kPerSecond = 150;
std::string key_of(std::uint64_t number);
std::uint64_t random_key(std::size_t request, std::size_t keys);

// Requests to Sluice's scripts or to its module, at the server's time.
class OwnCase final : public Case {
 public:
  // Sets the charges of the i-th request. They must stay valid until the next call.
  using Fill = std::function<void(std::size_t request, std::vector<Charge>& charges)>;
  enum class By { kScripts, kModule };
  // If the charges have an id, each request gets one of its own: the n-th of two cases the same.
  OwnCase(const RedisServer& server, const std::string& prefix, const Fill& fill,
          Action action = Verb::kTake, By by = By::kScripts);
  void skip_ids(std::uint64_t count) noexcept { next_id_ += count; }

 private:
  void write(std::size_t request, std::string& out);
  bool read(const redis::Reply& reply);

  By by_;
  std::vector<std::string> requests_;
  std::vector<std::size_t> id_at_;  // where the id is in each request; empty: they have none
  std::uint64_t next_id_ = 0;
  redis::Plan plan_;  // started once: it reads each reply, because all requests have the same shape
  std::vector<Charge> charges_;
  std::vector<Decision> each_;
};

// Calls of a common script. Each contains the client's time when it is sent.
class BaselineCase final : public Case {
 public:
  // The call of the i-th request: its key, and the arguments before and after the time.
  struct Call {
    std::string key;
    std::vector<std::string> before;
    std::vector<std::string> after;
    bool unique = false;  // adds a last argument of 12 digits that differ in each call
  };
  using Calls = std::function<std::vector<Call>(std::size_t request)>;
  // `script` is a file of bench/redis.
  BaselineCase(const RedisServer& server, const std::string& script, const Calls& calls);

 private:
  struct Prepared {
    std::string text;
    std::size_t time_at = 0;
    std::size_t unique_at = 0;  // 0: none
  };
  void write(std::size_t request, std::string& out);
  bool read(const redis::Reply& reply);

  std::vector<std::vector<Prepared>> requests_;
  std::uint64_t next_unique_ = 0;
};

// A plain command that counts or decides, such as INCR. Its reply is a number, or an array that
// begins with 1 if the request is denied.
class CommandCase final : public Case {
 public:
  using Words = std::function<std::vector<std::string>(std::size_t request)>;
  CommandCase(const RedisServer& server, const Words& words);

 private:
  std::vector<std::string> requests_;
};

// Requests with a global limit, a limit per API and a limit per user, and three calls of the common
// script for the same limits.
std::unique_ptr<OwnCase> three_limits(const RedisServer& server,
                                      OwnCase::By by = OwnCase::By::kScripts);
std::unique_ptr<BaselineCase> three_common_calls(const RedisServer& server);

}  // namespace sluice::bench
