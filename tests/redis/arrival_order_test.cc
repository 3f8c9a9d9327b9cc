#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <new>
#include <span>
#include <thread>

#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/reservation.h"
#include "tests/redis/store_test.h"

// Reservations of many threads and of several processes. They ask at the same instant of the
// limit, so that the n-th request that the store decides departs at the n-th unit. Its delay
// therefore says its place exactly, however busy the machine is.
namespace sluice_redis {
namespace {

using namespace std::chrono_literals;
using sluice::Duration;
using sluice::Limit;
using sluice::Limiter;
using sluice::Store;
using Steady = std::chrono::steady_clock;

constexpr sluice::Instant kNow{1700000100000000us};
constexpr Duration kUnit = 1ms;  // the time in which a unit comes back

// A reservation: when it was asked for and answered, on the clock of all processes, and its delay.
struct Grant {
  Steady::time_point asked{};
  Steady::time_point answered{};
  Duration delay{-1};  // negative: denied
  bool is_cancelled = false;
};

// Cancels every third reservation if `cancels`.
void reserve_all(Store& store, const Limit& limit, std::span<Grant> grants, bool cancels = false) {
  Limiter limiter(store);
  for (std::size_t i = 0; i < grants.size(); ++i) {
    Grant& grant = grants[i];
    grant.asked = Steady::now();
    sluice::Reservation place = limiter.reserve("key", limit, 1, 1h, kNow);
    grant.answered = Steady::now();
    if (place) grant.delay = place.delay();
    if (cancels && i % 3 == 0) grant.is_cancelled = place.cancel(kNow).allowed();
  }
}

// Leaves nothing, so that every reservation has to wait.
void use_up(Store& store, const Limit& limit) {
  ASSERT_TRUE(Limiter(store).try_acquire("key", limit, limit.capacity(), kNow).allowed());
}

// Each unit has one owner, and who asked after another one had its answer is served later.
void expect_order(std::vector<Grant> grants) {
  std::sort(grants.begin(), grants.end(),
            [](const Grant& a, const Grant& b) { return a.delay < b.delay; });
  auto first_answer = Steady::time_point::max();  // of those that are served later
  for (std::size_t i = grants.size(); i-- > 0;) {
    ASSERT_EQ(grants[i].delay, kUnit * (i + 1));
    ASSERT_LE(grants[i].asked, first_answer) << "served at place " << i;
    first_answer = std::min(first_answer, grants[i].answered);
  }
}

// The departures of reservations that were not cancelled never exceed the rate by more than one
// unit and those that were given back.
void expect_bound(std::span<const Grant> grants) {
  std::vector<Duration> departures;
  for (const Grant& grant : grants) {
    ASSERT_GT(grant.delay, 0us);
    if (!grant.is_cancelled) departures.push_back(grant.delay);
  }
  std::sort(departures.begin(), departures.end());
  const std::size_t given_back = grants.size() - departures.size();
  EXPECT_GT(given_back, grants.size() / 4);
  for (std::size_t i = 0; i < departures.size(); ++i) {
    for (std::size_t j = i; j < departures.size(); ++j) {
      const auto units = static_cast<std::size_t>((departures[j] - departures[i]) / kUnit);
      ASSERT_LE(j - i, units + given_back);
    }
  }
}

// --- threads

void expect_order_of_threads(Store& store, const Limit& limit) {
  constexpr std::size_t kThreads = 64;
  constexpr std::size_t kEach = 25;
  use_up(store, limit);
  std::vector<Grant> grants(kThreads * kEach);
  std::atomic<bool> go = false;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, mine = std::span(grants).subspan(i * kEach, kEach)] {
      while (!go) std::this_thread::yield();
      reserve_all(store, limit, mine);
    });
  }
  go = true;
  for (std::thread& thread : threads) thread.join();
  expect_order(std::move(grants));
}

const Limit kLimits[] = {sluice::token_bucket(1000).per(1s), sluice::leaky_bucket(1000).per(1s),
                         sluice::gcra(1000).per(1s)};

TEST(ArrivalOrder, Of64ThreadsInMemory) {
  for (const Limit& limit : kLimits) {
    sluice::MemoryStore store;
    expect_order_of_threads(store, limit);
  }
}

TEST(ArrivalOrder, Of64ThreadsOnRedis) {
  RedisServer server;
  for (const Limit& limit : kLimits) {
    const auto store = open_ready(patient(server.url(), 3));
    expect_order_of_threads(*store, limit);
  }
}

// --- processes

// Memory that this process shares with its children.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t count)
      : memory_(mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0)),
        count_(count) {
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    std::uninitialized_value_construct_n(data(), count);
  }
  ~Shared() { munmap(memory_, count_ * sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  T* data() const noexcept { return static_cast<T*>(memory_); }
  std::span<T> span() const noexcept { return {data(), count_}; }

 private:
  void* const memory_;
  const std::size_t count_;
};

constexpr std::size_t kProcesses = 8;
constexpr std::size_t kEach = 50;

// Runs `work` in processes that each have a store of their own. Returns what all of them noted.
std::vector<Grant> in_processes(const RedisServer& server,
                                const std::function<void(Store&, std::span<Grant>)>& work) {
  const Shared<Grant> grants(kProcesses * kEach);
  const Shared<std::atomic<std::size_t>> ready(1);
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto store = open_ready(patient(server.url(), 3));
      ++*ready.data();
      const auto patience = Steady::now() + 1min;
      while (*ready.data() < kProcesses && Steady::now() < patience) {
        std::this_thread::sleep_for(1ms);
      }
      work(*store, grants.span().subspan(i * kEach, kEach));
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  return {grants.span().begin(), grants.span().end()};
}

TEST(ArrivalOrder, Of8ProcessesOnRedis) {
  for (const Limit& limit : kLimits) {
    RedisServer server;
    use_up(*open_ready(patient(server.url(), 3)), limit);
    expect_order(in_processes(
        server, [&](Store& store, std::span<Grant> grants) { reserve_all(store, limit, grants); }));
  }
}

TEST(ArrivalOrder, CancelledReservationsOf8ProcessesLoseNothing) {
  for (const Limit& limit : kLimits) {
    RedisServer server;
    use_up(*open_ready(patient(server.url(), 3)), limit);
    const auto grants = in_processes(server, [&](Store& store, std::span<Grant> mine) {
      reserve_all(store, limit, mine, true);
    });
    expect_bound(grants);
    const auto live = std::count_if(grants.begin(), grants.end(),
                                    [](const Grant& grant) { return !grant.is_cancelled; });
    const auto store = open_ready(patient(server.url(), 3));
    EXPECT_EQ(Limiter(*store).reserve("key", limit, 1, 1h, kNow).delay(), kUnit * (live + 1));
  }
}

// On real time: the n-th request that passes does so not before the n-th unit.
TEST(ArrivalOrder, BlockingCallsOf8ProcessesKeepTheRate) {
  constexpr Limit kPaced = sluice::token_bucket(1000).per(1s).burst(1);
  const RedisServer server;
  const auto start = Steady::now();
  auto grants = in_processes(server, [&](Store& store, std::span<Grant> mine) {
    Limiter limiter(store);
    for (Grant& grant : mine) {
      const auto decision = limiter.acquire("key", kPaced, 1, Steady::now() + 1h);
      grant.answered = Steady::now();
      grant.is_cancelled = !decision.allowed();
    }
  });
  std::sort(grants.begin(), grants.end(),
            [](const Grant& a, const Grant& b) { return a.answered < b.answered; });
  for (std::size_t i = 0; i < grants.size(); ++i) {
    ASSERT_FALSE(grants[i].is_cancelled);
    const auto tolerance = 5ms;  // the server's clock may be adjusted
    ASSERT_GE(grants[i].answered, start + kUnit * i - tolerance) << i;
  }
}

}  // namespace
}  // namespace sluice_redis
