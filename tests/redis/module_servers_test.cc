#include <atomic>
#include <deque>

#include <thread>
#include "stores/redis/client/command.h"
#include "tests/redis/store_test.h"

// RedisStore on servers that have sluice.so, or lose it: no unit is lost or counted twice.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Limit;
using sluice::Limiter;
using sluice::RedisStore;
using sluice::testing::wait_until;

const Limit kLimit = sluice::fixed_window(1'000'000'000).per(std::chrono::days(366));
constexpr const char* kMayLoad = "--enable-module-command";
constexpr std::string_view kPrefix = "sluice:f{}";  // of its counters

// Redis 7 needs an option to load a module while it runs, and Redis 6.2 does not know it.
std::vector<std::string> loadable() {
  const bool is_old = std::string_view(redis_program()).ends_with("-6.2");
  return is_old ? std::vector<std::string>() : std::vector<std::string>{kMayLoad, "yes"};
}

void load_module(const RedisServer& server) {
  const Reply reply = RedisConnection(server).run({"MODULE", "LOAD", SLUICE_MODULE_FILE});
  ASSERT_EQ(RedisConnection::text(reply), "OK");
}

// Returns how often a server has executed a command.
std::uint64_t calls_of(const RedisServer& server, const std::string& command) {
  const Reply reply = RedisConnection(server).run({"INFO", "commandstats"});
  const std::string text = RedisConnection::text(reply);
  const std::string begin = "cmdstat_" + command + ":calls=";
  const std::size_t at = text.find(begin);
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + begin.size()));
}
std::uint64_t by_module(const RedisServer& server) { return calls_of(server, "sluice.apply"); }
std::uint64_t by_script(const RedisServer& server) {
  return calls_of(server, "evalsha") + calls_of(server, "eval");
}

// Returns keys whose counters are in these slots.
std::vector<std::string> keys_in(int first_slot, int last_slot, std::size_t count) {
  std::vector<std::string> keys;
  for (int i = 0; keys.size() < count; ++i) {
    const std::string key = "key" + std::to_string(i);
    const int slot = sluice::redis::slot_of(std::string(kPrefix) + key);
    if (slot >= first_slot && slot <= last_slot) keys.push_back(key);
  }
  return keys;
}

// Two threads that take one unit after the other from all keys.
class Takers {
 public:
  Takers(RedisStore& store, const std::vector<std::string>& keys)
      : limiter_(store), keys_(keys), admitted_(keys.size()) {
    for (int t = 0; t < 2; ++t) threads_.emplace_back([this] { run(); });
  }
  ~Takers() { stop(); }
  Takers(const Takers&) = delete;
  Takers& operator=(const Takers&) = delete;

  // Waits until every key has been asked more often.
  void advance() {
    const std::uint64_t rounds = rounds_;
    wait_until("the takers advance", [&] { return rounds_ > rounds + 20; });
  }
  void stop() {
    ends_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  std::uint64_t admitted(std::size_t key) const { return admitted_[key]; }
  std::uint32_t undecided() const { return undecided_; }

 private:
  void run() {
    while (!ends_) {
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        const bool is_admitted = limiter_.try_acquire(keys_[i], kLimit).allowed();
        ++(is_admitted ? admitted_[i] : undecided_);
      }
      ++rounds_;
    }
  }

  Limiter limiter_;
  const std::vector<std::string>& keys_;
  std::deque<std::atomic<std::uint32_t>> admitted_;
  std::atomic<std::uint32_t> undecided_ = 0;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::atomic<bool> ends_ = false;
  std::vector<std::thread> threads_;
};

void expect_exact(RedisStore& store, const std::vector<std::string>& keys,
                  std::initializer_list<const Takers*> all) {
  Limiter limiter(store);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::uint64_t admitted = 0;
    for (const Takers* takers : all) admitted += takers->admitted(i);
    const auto now = limiter.peek(keys[i], kLimit, 0);
    EXPECT_EQ(kLimit.capacity() - now.remaining, admitted) << keys[i];
  }
  for (const Takers* takers : all) EXPECT_EQ(takers->undecided(), 0u);
}

class ModuleServers : public ::testing::Test {};

TEST_F(ModuleServers, CountExactlyWhileTheModuleIsLoaded) {
  const RedisServer server(loadable());
  const std::vector<std::string> keys = {"a", "b", "c"};
  const auto before = open_ready(patient(server.url()));
  Takers scripts(*before, keys);
  scripts.advance();
  load_module(server);
  const auto after = open_ready(patient(server.url()));
  Takers module(*after, keys);
  module.advance();
  EXPECT_GT(by_module(server), 0u);
  // A server that unloads a module can call it for clients that have used it: Redis 8.2 does.
  const Reply unloaded = RedisConnection(server).run({"MODULE", "UNLOAD", "sluice"});
  EXPECT_EQ(unloaded->type, Reply::kError);
  const std::uint64_t calls = by_module(server);
  module.advance();
  EXPECT_GT(by_module(server), calls);
  for (Takers* const takers : {&scripts, &module}) takers->stop();
  expect_exact(*after, keys, {&scripts, &module});
}

// Returns the replica of a master.
std::size_t replica_of(RedisCluster& cluster, std::size_t master) {
  const std::string port = "master_port:" + std::to_string(cluster.port(master)) + "\r";
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    if (cluster.text(i, {"INFO", "replication"}).find(port) != std::string::npos) return i;
  }
  throw std::runtime_error("the master has no replica");
}

void fail_over(RedisCluster& cluster, std::size_t from, std::size_t to) {
  wait_until("the replica is ready", [&] {
    return cluster.text(to, {"INFO", "replication"}).find("master_link_status:up") !=
           std::string::npos;
  });
  // The masters vote about the same slots once in two timeouts of the cluster. A replica without
  // their votes gives up after five seconds, and is asked again after six.
  int looks = 0;
  wait_until(
      "the replica is master", [&] { return cluster.is_master(to) && !cluster.is_master(from); },
      [&] {
        if (looks++ % 600 == 0) (void)cluster.text(to, {"CLUSTER", "FAILOVER"});
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      });
}

TEST_F(ModuleServers, CountExactlyAfterAFailoverToAServerWithoutTheModuleAndBack) {
  RedisCluster cluster(3, 1, {kMayLoad, "yes"});
  const std::vector<std::string> keys = keys_in(0, 5460, 4);
  const std::size_t with = cluster.master_of(0);
  const std::size_t without = replica_of(cluster, with);
  load_module(cluster.node(with));
  const auto store = open_ready(patient(cluster.url()));
  Takers takers(*store, keys);
  takers.advance();
  EXPECT_GT(by_module(cluster.node(with)), 0u);
  fail_over(cluster, with, without);
  takers.advance();
  EXPECT_GT(by_script(cluster.node(without)), 0u);
  const std::uint64_t first_calls = by_module(cluster.node(with));
  fail_over(cluster, without, with);
  takers.advance();
  EXPECT_GT(by_module(cluster.node(with)), first_calls);
  takers.stop();
  expect_exact(*store, keys, {&takers});
}

TEST_F(ModuleServers, CountExactlyWhileSlotsMoveToAServerWithoutTheModuleAndBack) {
  RedisCluster cluster(3, 0, {kMayLoad, "yes"});
  const std::vector<std::string> keys = keys_in(0, 99, 8);  // the first to be moved
  const std::size_t with = cluster.master_of(0);
  const std::size_t without = (with + 1) % cluster.size();
  load_module(cluster.node(with));
  const auto store = open_ready(patient(cluster.url()));
  Takers takers(*store, keys);
  takers.advance();
  EXPECT_EQ(by_script(cluster.node(without)), 0u);
  const auto move = [&](std::size_t from, std::size_t to) {
    for (const std::string& key : keys) {
      const std::string name = std::string(kPrefix) + key;
      const int slot = sluice::redis::slot_of(name);
      cluster.begin_move(slot, from, to);
      takers.advance();
      cluster.move_key(name, from, to);
      takers.advance();
      cluster.end_move(slot, from, to);
    }
    takers.advance();
  };
  move(with, without);
  EXPECT_GT(by_script(cluster.node(without)), 0u);
  const std::uint64_t first_calls = by_module(cluster.node(with));
  move(without, with);
  EXPECT_GT(by_module(cluster.node(with)), first_calls);
  takers.stop();
  EXPECT_GT(store->stats().redirects, 0u);
  expect_exact(*store, keys, {&takers});
}

}  // namespace
}  // namespace sluice_redis
