#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "quota/quota_buckets.h"
#include "server/api/quota/quota_service.h"
#include "sluice/memory_store.h"
#include "sluice/testing/manual_clock.h"
#include "tests/simulation/shares_model.h"

namespace sluice::quota_simulation {

inline constexpr std::array kFaults = {"lost", "late",  "repeated", "partition", "restart",
                                       "kill", "clock", "limit",    "demand"};

// Requests per second of the limit at first, and at most.
inline constexpr std::uint64_t kLimit = 100'000;
// Of the other limit of buckets, for each weight.
inline constexpr std::uint64_t kTier = kLimit / 4;

// Returns what the client reports. The name of a bucket is that of all values of its id.
std::vector<server::BucketReport> reports_of(QuotaClient::Buckets& client);
// Returns the order as a message to a client, for the bucket with this id.
std::string message_of(const server::BucketOrder& order, const server::BucketAttributes& id);

// Proxies, servers with the real QuotaService, and one real MemoryStore of all
// servers. Their clocks and the network are simulated: an event happens at an
// instant, and nothing else takes time. One seed always gives the same run.
//
// A model is only what is outside of the process of a server: the script in
// Redis that divides a limit among servers (redis_shares_test compares it with
// the real one), and the proxies. These are as Envoy: a token bucket that keeps
// its tokens when it changes, and full again after a time without one. Demand
// flows evenly. A connection is as TCP: messages arrive in order, and each
// takes at most half of the latency that the service allows, or the connection
// breaks, except that assignments may be stalled for longer in some runs.
//
// In some runs a bucket has two limits: that of all, and that of the proxies of its weight.
//
// If a run is mixed, some proxies are programs with the real QuotaClient,
// except for its connection; proxies have weights, and requests also ask the
// servers about the limit that is divided. Servers admit requests of a leased
// limit too, and callers hold and settle units of a budget at any server, again
// and again until they have an answer. Callers also wait at a server, in the
// real queues, for units of a limit of all servers and for permits, which they
// hold for a while.
//
// Thread-safety: one thread. Cost: some ms for 100 faults.
class Simulation {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::size_t servers = 1;
    std::size_t proxies = 1;
    Duration interval{0};                    // of the reports; 0: each proxy has another
    Duration stalled{0};                     // this longer is every other assignment on its way
    bool is_mixed = false;                   // with weights, direct requests and QuotaClients
    bool has_tiers = false;                  // another limit for all proxies of a weight
    std::string algorithm = "token_bucket";  // of the limit that is divided, with its options
    std::chrono::seconds period{1};          // of this limit
    std::chrono::milliseconds every{1000};   // `quota.every`
  };

  explicit Simulation(const Options& options);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Requests per second.
  void set_demand(std::size_t proxy, double demand);
  void inject_fault();
  // All proxies lose their connections, and connect again at once, to any server.
  void reconnect();
  // Ends all faults: servers run, and reach the store. No call begins from then
  // on.
  void heal();
  void run(Duration time);

  // The first promise that was broken, and when. Empty: none was. What the
  // proxies may use is checked all the time.
  const std::string& failure() const { return failure_; }
  // After the time that faults need to pass: demand is met, as fairly as the
  // oracle says, and all calls are settled once. With two limits for a bucket,
  // that is less exact if there are several servers or many proxies.
  void check_rest();
  // Requests per second that the proxies can use for their demand, and what
  // they could use at best.
  double usable() const;
  double wanted() const;
  const std::map<std::string, std::size_t>& faults() const { return faults_; }
  // Assignments that QuotaClients received.
  std::uint64_t assigned() const {
    std::uint64_t sum = 0;
    for (const Proxy& proxy : proxies_) sum += proxy.client ? proxy.client->stats().assignments : 0;
    return sum;
  }
  // Callers that were admitted after they had waited.
  std::uint64_t waited() const { return waited_; }
  // Requests that asked a server about the limit, and were admitted.
  std::uint64_t direct() const { return direct_; }
  // What proxies could use at the worst moment, as a multiple of the limit.
  double most() const { return most_; }
  // Requests of the limit that were admitted, until the last look.
  double used() const { return used_; }

 private:
  class Connection;
  class Shares;
  class Caller;
  struct Running;

  struct Proxy {
    double demand = 0;
    std::uint64_t weight = 1;
    std::string bucket;
    // Of a program with the client of the library; else the proxy is an Envoy.
    std::unique_ptr<QuotaClient::Buckets> client;
    std::shared_ptr<QuotaBucket> own;
    double waits = 0;  // less than a request of its demand
    std::size_t server = 0;
    std::uint64_t stream = 0;  // 0: not connected
    Duration interval{0};      // of its reports
    Duration delay{0};         // of its messages
    bool repeats = false;
    Instant last_up, last_down;  // when the latest messages arrive
    double rate = 0, most = 0;   // of its token bucket, until then
    double tokens = 0;
    Instant until;
    Instant counted, reported;
    double allowed = 0, denied = 0;  // since it has reported

    server::BucketAttributes attributes() const;
  };
  struct Server {
    std::unique_ptr<Running> running;  // null while it is down
    Instant reaches_store;
    bool loses_answers = false;  // until then; else its requests are lost
  };
  struct Call {
    std::uint64_t number, held, actual;
    bool is_held = false;
  };

  std::uint64_t dice(std::uint64_t below) { return random_() % below; }
  Duration up_to(Duration longest) {
    return Duration{static_cast<Duration::rep>(dice(static_cast<std::uint64_t>(longest.count())))};
  }
  void after(Duration time, std::function<void()> event);
  void move_clocks(Instant to);
  void fail(const std::string& what);
  void set_limit(std::uint64_t limit);

  void start(std::size_t server);
  void drain(std::size_t server);
  void stop(std::size_t server);
  void round(std::size_t server, std::uint64_t life);
  void divide(std::size_t server, std::uint64_t life, bool all);
  void wake(std::size_t server, std::uint64_t life);
  bool reaches_store(std::size_t server) const;

  void disconnect(std::size_t proxy);
  void connect(std::size_t proxy);
  void report(std::size_t proxy, std::uint64_t stream);
  std::vector<server::BucketReport> reports_of(Proxy& proxy);
  void send(std::size_t proxy, std::uint64_t stream,
            const std::vector<server::BucketOrder>& orders);
  void apply(Proxy& proxy, const server::BucketOrder& order);
  void use(Proxy& proxy);
  Instant arrival(const Proxy& proxy, Instant last);
  double rate(const Proxy& proxy) const;

  void check_tiers();
  void look();
  void request();
  void ask_directly(Running& running);
  void call(Call call);
  void set_alarm(std::size_t server, std::uint64_t life, Instant at);
  void wait(std::size_t server);
  void ended(Caller& caller);
  void release(std::size_t server, std::uint64_t life, std::uint64_t caller);

  const Options options_;
  const QuotaOptions client_options_{.domain = "shop", .fallback = QuotaFallback::kDeny};
  std::mt19937_64 random_;
  Instant now_{std::chrono::hours{1}};
  Duration store_step_{0};  // the clock of the store, from that of the servers
  testing::ManualClock clock_, store_clock_;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t last_event_ = 0;

  MemoryStore store_;
  std::map<std::string, SharesModel, std::less<>> shares_;  // in the store, by counter
  std::unique_ptr<server::RulesManager> rules_;
  server::Log log_{{.level = server::LogLevel::kOff}};
  server::QuotaConfig config_;

  std::size_t step_;         // of a division, in buckets
  std::uint64_t kinds_ = 0;  // bits of the kinds of faults of this run
  std::uint64_t lives_ = 0, streams_ = 0;
  std::uint64_t limit_ = kLimit;
  std::uint64_t ceiling_ = kLimit;  // the largest limit that an assignment may still have
  std::uint64_t limit_changes_ = 0;
  std::vector<Proxy> proxies_;
  std::vector<Server> servers_;
  double most_ = 0;
  double admitted_ = 0;  // since the last look
  double used_ = 0;      // before it
  double excess_ = 0;    // beyond the limit, in the worst time that ends now
  Instant looked_;
  std::uint64_t direct_ = 0, leased_ = 0;  // requests that were admitted
  bool is_healed_ = false;
  std::uint64_t calls_ = 0, open_calls_ = 0, settled_ = 0;
  std::uint64_t callers_ = 0, waited_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Caller>> open_;  // by number: those that wait
  std::deque<Instant> admissions_;  // to the limit for which callers wait, of the last period
  std::map<std::uint64_t, Instant> permits_;  // that callers have, and until when
  std::map<std::string, std::size_t> faults_;
  std::string failure_;
};

}  // namespace sluice::quota_simulation
