#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quota/allocator.h"

namespace sluice::quota_simulation {

inline constexpr std::array kFaults = {"lost", "late",  "repeated", "partition", "restart",
                                       "kill", "clock", "limit",    "demand"};

// Proxies, servers with the real Allocator, and a store that divides a limit among the servers.
// One seed always gives the same run.
//
// The store is a model of the script of the quota service. Its rule is the same: a server keeps
// what is in use there, and gets at most what the others do not keep. A connection is as TCP:
// messages arrive in order, and each takes at most half of the latency, or the connection breaks.
//
// Thread-safety: one thread. Cost: some milliseconds for 100 faults.
class Simulation {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::size_t servers = 1;
    std::size_t proxies = 1;
    Duration interval{0};  // of the reports; 0: each proxy has another
  };

  explicit Simulation(const Options& options);

  // A demand as a share of the limit.
  void set_demand(std::size_t proxy, std::uint64_t demand) { proxies_[proxy].demand = demand; }
  void inject_fault();
  // Ends all faults: servers run, and reach the store.
  void heal();
  // Checks the ceiling at each step.
  void run(Duration time);

  // What proxies may use now in excess of the limit, and other broken promises. Empty if there are
  // none.
  const std::string& failure() const { return failure_; }
  // The share of the limit that the proxies can use for their demand, and what they could use at
  // best.
  std::uint64_t usable() const;
  std::uint64_t wanted() const;
  std::uint64_t part(std::size_t proxy) const { return used(proxies_[proxy]); }
  // The parts of the proxies of each server are the fair ones, except for the steps of damping.
  void check_fairness();
  const std::map<std::string, std::size_t>& faults() const { return faults_; }

 private:
  struct Message {
    Instant at;
    bool is_report;
    std::uint64_t value;  // the demand or the part
    Duration ttl;
  };
  struct Proxy {
    std::uint64_t demand = 0;
    std::size_t server = 0;
    std::uint64_t life = 0;    // of the server to which the connection is
    std::uint64_t stream = 0;  // 0: not connected
    Instant next_report;
    Duration interval{0};    // of its reports
    std::uint64_t part = 0;  // that it applies
    Instant until;
    std::deque<Message> up = {}, down = {};
    Duration delay{0};  // of its messages
    bool repeats = false;
  };
  struct Server {
    std::unique_ptr<quota::Allocator> parts = {};  // null while it is down
    std::uint64_t life = 0;
    std::uint64_t share = 0;
    std::uint64_t total = 0;
    Instant next_round, starts, reaches_store;
    std::map<std::uint64_t, std::size_t> streams = {};  // of which proxy
    std::map<std::uint64_t, Instant> sent = {};
    std::map<std::uint64_t, Instant> closing = {};  // when it sees that a connection is lost
  };
  struct Kept {
    std::uint64_t asked, keeps;
    Instant until;
  };

  std::uint64_t dice(std::uint64_t below) { return random_() % below; }
  Duration flight(const Proxy& proxy);
  std::uint64_t used(const Proxy& proxy) const { return now_ < proxy.until ? proxy.part : 0; }
  void step();
  void start(Server& server);
  void disconnect(Proxy& proxy);
  void connect(Proxy& proxy);
  void step(Proxy& proxy);
  void receive_report(Server& server, Proxy& proxy, std::uint64_t demand);
  void divide(Server& server);
  void claim(Server& server);
  void check_ceiling();
  void fail(const std::string& what);

  const Options options_;
  std::mt19937_64 random_;
  Instant now_{std::chrono::hours{1}};
  Duration store_clock_{0};
  std::uint64_t limit_ = quota::kWhole;  // of what the limit is now, as a share of its maximum
  std::uint64_t kinds_ = 0;              // bits of the kinds of faults of this run
  std::uint64_t lives_ = 0;
  std::uint64_t streams_ = 0;
  std::vector<Proxy> proxies_;
  std::vector<Server> servers_;
  std::map<std::uint64_t, Kept> store_;  // by life of a server
  std::map<std::string, std::size_t> faults_;
  std::string failure_;
};

}  // namespace sluice::quota_simulation
