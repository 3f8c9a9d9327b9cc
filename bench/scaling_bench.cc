// One, two and three Redis masters: what a decision costs each of them.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/redis_cases.h"
#include "bench/redis_server.h"
#include "bench/report.h"
#include "bench/store_callers.h"
#include "bench/workload.h"
#include "sluice/redis_store.h"
#include "stores/redis/client/command.h"

namespace sluice::bench {
namespace {

constexpr const char* kLegend =
    "== scaling: one, two and three masters of a Redis Cluster, and one server outside of a "
    "cluster\n"
    "Token buckets of 30,000 users, spread over the slots by the tag {user:N}; three limits of a\n"
    "request share a tag and so a slot. For each master, one thread with 8 connections over a\n"
    "Unix socket sends 16 requests per write. Masters and load share all processors, so decisions\n"
    "per second do not grow with the masters on a small machine. The processor time per decision\n"
    "does not depend on that: `server us` is the sum over the masters, `load us` that of this\n"
    "process, `bytes` those that the masters receive and send, `busiest` the largest share of the\n"
    "users on one master, relative to an equal share. The last rows ask through RedisStore, over\n"
    "TCP: 64 threads that wait for each answer.";

constexpr std::size_t kSlots = 16384;
constexpr std::uint64_t kUsers = 30'000;
constexpr int kPatience = 6000;  // looks at a cluster, each after 10 ms
constexpr int kMeetAgain = 100;  // looks after which a greeting may be lost

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "scaling_bench: %s\n", what.c_str());
  std::exit(1);
}

// Returns a port of 127.0.0.1 that nobody uses.
std::uint16_t free_port() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool is_bound = ::bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                        ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  close(probe);
  if (!is_bound) fail("no free port");
  return ntohs(address.sin_port);
}

std::string user(std::uint64_t number) {
  char key[kKeyBytes];
  write_key(key, number);
  return {key, sizeof(key)};
}

// A server and the users whose slots it has.
struct Master {
  Master(const std::vector<std::string>& options, std::size_t cpu) : server(options, cpu) {}

  RedisServer server;
  std::string port;
  std::string bus;  // the port of the cluster bus
  std::vector<std::string> users;
};

// The masters of a cluster, each with an equal part of the slots, or one server outside of one.
class Masters {
 public:
  Masters(std::size_t count, bool is_cluster) {
    for (std::size_t i = 0; i < count; ++i) start(i, is_cluster);
    for (std::uint64_t i = 0; i < kUsers; ++i) {
      const std::string name = user(i);
      masters_[redis::slot_of(name) * count / kSlots]->users.push_back(name);
    }
    if (!is_cluster) return;
    name_ = std::to_string(count) + (count == 1 ? " master" : " masters");
    for (std::size_t i = 0; i < count; ++i) join(i);
    for (std::size_t i = 0; i < count; ++i) wait_until_whole(i);
  }

  const std::string& name() const { return name_; }
  const std::vector<std::unique_ptr<Master>>& all() const { return masters_; }
  std::string url() const {
    std::string url = "redis+cluster://";
    for (const auto& master : masters_) url += "127.0.0.1:" + master->port + ",";
    url.pop_back();
    return url;
  }
  double busiest() const {
    std::size_t most = 0;
    for (const auto& master : masters_) most = std::max(most, master->users.size());
    return static_cast<double>(most * masters_.size()) / kUsers;
  }
  double cpu_ns() const {
    double sum = 0;
    for (const auto& master : masters_) sum += master->server.cpu_ns();
    return sum;
  }
  // Returns the bytes that the masters have received and sent, as they report them.
  double bytes() const {
    double sum = 0;
    for (const auto& master : masters_) {
      const std::string stats = RedisLink(master->server.socket()).ask({"INFO", "stats"});
      for (const char* const field : {"total_net_input_bytes:", "total_net_output_bytes:"}) {
        const std::size_t at = stats.find(field);
        if (at == std::string::npos) fail("INFO without bytes");
        sum += std::strtod(stats.c_str() + at + std::string_view(field).size(), nullptr);
      }
    }
    return sum;
  }

 private:
  void start(std::size_t i, bool is_cluster) {
    const std::size_t cpu = i % std::max(1u, std::thread::hardware_concurrency());
    const std::string port = std::to_string(free_port());
    const std::string bus = std::to_string(free_port());
    std::vector<std::string> options;
    if (is_cluster) {
      options = {"--port",         port, "--bind", "127.0.0.1", "--cluster-enabled", "yes",
                 "--cluster-port", bus};
    }
    masters_.push_back(std::make_unique<Master>(options, cpu));
    masters_.back()->port = port;
    masters_.back()->bus = bus;
  }
  // redis-cli --cluster create wants at least three masters.
  void join(std::size_t i) {
    RedisLink link(masters_[i]->server.socket());
    const std::size_t count = masters_.size();
    const auto first_slot = [&](std::size_t master) {
      return std::to_string((master * kSlots + count - 1) / count);
    };
    const std::string last = std::to_string(std::stoul(first_slot(i + 1)) - 1);
    link.ask({"CLUSTER", "ADDSLOTSRANGE", first_slot(i), last});
    link.ask({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
    meet_first(link, i);
  }
  void meet_first(RedisLink& link, std::size_t i) {
    if (i > 0) link.ask({"CLUSTER", "MEET", "127.0.0.1", masters_[0]->port, masters_[0]->bus});
  }
  void wait_until_whole(std::size_t master) {
    RedisLink link(masters_[master]->server.socket());
    for (int look = 1; look <= kPatience; ++look) {
      if (link.ask({"CLUSTER", "INFO"}).find("cluster_state:ok") != std::string::npos) return;
      if (look % kMeetAgain == 0) {
        for (std::size_t i = 1; i < masters_.size(); ++i) {
          RedisLink other(masters_[i]->server.socket());
          meet_first(other, i);
        }
      }
      usleep(10'000);
    }
    fail("the cluster does not become whole");
  }

  std::string name_ = "no cluster";
  std::vector<std::unique_ptr<Master>> masters_;
};

// What the rounds of a case took: decisions per second, and the rest per decision.
struct Figures {
  std::vector<double> per_second, server_us, load_us, bytes;
};

// Adds what `decide`, which makes `count` decisions, takes.
template <typename Decide>
void add_round(const Masters& masters, std::size_t count, Decide decide, Figures& figures) {
  const double bytes = masters.bytes();
  const double server_ns = masters.cpu_ns();
  const double load_ns = process_cpu_ns();
  const double begin = now_ns(TimeOf::kWall);
  decide();
  const double each = 1 / static_cast<double>(count);
  figures.per_second.push_back(1e9 / (now_ns(TimeOf::kWall) - begin) / each);
  figures.load_us.push_back((process_cpu_ns() - load_ns) * each / 1e3);
  figures.server_us.push_back((masters.cpu_ns() - server_ns) * each / 1e3);
  figures.bytes.push_back((masters.bytes() - bytes) * each);
}

// Requests for `limits` token buckets of one user, to all masters at the same time.
class Scripts {
 public:
  Scripts(const Masters& masters, std::size_t limits) : masters_(masters) {
    const Limit limit = token_bucket(1'000'000).per(std::chrono::seconds{1});
    static const std::string keys_of_limits[] = {"global", "api", "user"};
    for (const auto& master : masters.all()) {
      cases_.push_back(std::make_unique<OwnCase>(
          master->server, "scaling" + std::to_string(limits) + ":",
          [&](std::size_t i, std::vector<Charge>& charges) {
            const std::string& tag = master->users[i * 7919 % master->users.size()];
            charges.clear();
            for (std::size_t k = 0; k < limits; ++k) {
              charges.push_back({.key = keys_of_limits[k], .limit = limit, .tag = tag});
            }
          }));
    }
  }

  // `count` is a multiple of the number of masters.
  void run(std::size_t count, Figures& figures) {
    add_round(
        masters_, count,
        [&] {
          std::vector<std::thread> threads;
          threads.reserve(cases_.size());
          for (const auto& one : cases_) {
            threads.emplace_back([&] { (*one)(first_, count / cases_.size()); });
          }
          for (std::thread& thread : threads) thread.join();
        },
        figures);
    first_ += count;
    for (const auto& one : cases_) {
      if (one->told.denied != 0) fail("a request was denied");
    }
  }

 private:
  const Masters& masters_;
  std::vector<std::unique_ptr<OwnCase>> cases_;
  std::size_t first_ = 0;
};

// Requests through the library's store.
class ThroughStore {
 public:
  explicit ThroughStore(const Masters& masters) : masters_(masters) {
    auto store = RedisStore::open({.url = masters.url(), .deadline = std::chrono::seconds{2}});
    if (!store) fail(store.error());
    store_ = std::move(*store);
    if (const auto ready = store_->wait_until_ready(std::chrono::seconds{5}); !ready) {
      fail(ready.error());
    }
    callers_ = std::make_unique<Callers>(
        *store_, token_bucket(1'000'000).per(std::chrono::seconds{1}), kKeys);
  }

  void run(std::size_t count, Figures& figures) {
    add_round(masters_, count, [&] { (*callers_)(first_, count); }, figures);
    first_ += count;
    if (callers_->undecided() != 0) fail("a request was not decided");
  }

 private:
  const Masters& masters_;
  std::unique_ptr<RedisStore> store_;
  std::unique_ptr<Callers> callers_;
  std::size_t first_ = 0;
};

void print(const std::string& name, const Masters& masters, const Figures& figures) {
  std::printf("  %-12s %-26s %12.0f %10.2f %8.2f %6.0f %8.2f\n", masters.name().c_str(),
              name.c_str(), median(figures.per_second), median(figures.server_us),
              median(figures.load_us), median(figures.bytes), masters.busiest());
  std::fflush(stdout);
}

// Runs the cases in turns, one for each number of masters.
template <typename Case>
std::vector<Figures> in_turns(std::vector<Case>& cases, std::size_t rounds, std::size_t count) {
  std::vector<Figures> figures(cases.size());
  for (std::size_t round = 0; round <= rounds; ++round) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Figures warm_up;
      cases[i].run(count, round == 0 ? warm_up : figures[i]);
    }
  }
  return figures;
}

void measure(const Options& options) {
  const std::size_t rounds = options.smoke ? 1 : 7;
  const std::size_t count = options.smoke ? 600 : 24'000;
  std::vector<std::unique_ptr<Masters>> setups;
  setups.push_back(std::make_unique<Masters>(1, false));
  for (const std::size_t n : {1, 2, 3}) setups.push_back(std::make_unique<Masters>(n, true));
  for (const std::size_t limits : {std::size_t{1}, std::size_t{3}}) {
    std::vector<Scripts> cases;
    cases.reserve(setups.size());
    for (const auto& setup : setups) cases.emplace_back(*setup, limits);
    const std::vector<Figures> figures = in_turns(cases, rounds, count);
    for (std::size_t i = 0; i < figures.size(); ++i) {
      print(limits == 1 ? "one limit" : "three limits, one slot", *setups[i], figures[i]);
    }
    promise_at_most(limits == 1 ? "scaling-server-us-3-masters-over-1"
                                : "scaling-three-limits-server-us-3-masters-over-1",
                    median(figures[3].server_us) / median(figures[1].server_us), 1.15);
  }
  std::vector<ThroughStore> cases;
  cases.reserve(setups.size());
  for (std::size_t i = 1; i < setups.size(); ++i) cases.emplace_back(*setups[i]);
  const std::vector<Figures> figures = in_turns(cases, rounds, count / 4);
  for (std::size_t i = 0; i < figures.size(); ++i) {
    print("one limit, RedisStore", *setups[i + 1], figures[i]);
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  std::printf("\n%s\n  %-12s %-26s %12s %10s %8s %6s %8s\n", kLegend, "masters", "case",
              "decisions/s", "server us", "load us", "bytes", "busiest");
  measure(options);
}
