// Measures requests that are more than one take: other verbs, permits, holds, three limits, and a
// guard.

#include <benchmark/benchmark.h>

#include "bench/report.h"
#include "bench/threads.h"
#include "bench/workload.h"
#include "sluice/guard.h"
#include "sluice/hold.h"
#include "sluice/memory_store.h"
#include "sluice/permit.h"
#include "sluice/require.h"
#include "sluice/reservation.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::bench {
namespace {

constexpr const char* kVerbsLegend =
    "A verb of Limiter with one token bucket for each of 1,000 or 1,000,000 keys, against\n"
    "try_acquire with the same keys and limits, each in its own store. Nearly all units are\n"
    "there at once. Processor time; adjacent 10 ms blocks.";

MemoryStoreOptions options_for(std::size_t keys) {
  return {.max_keys = std::max(2 * keys, MemoryStoreOptions{}.max_keys)};
}

Limit bucket_for(std::size_t keys) {
  const Numbers n = numbers_for(keys);
  return token_bucket(n.limit).per(n.per);
}

// `apply(limiter, key, limit, now)` applies the verb.
template <typename Apply>
Ratio against_a_take(const Options& options, const KeyStream& stream, std::size_t keys,
                     const Limit& limit, Apply apply) {
  MemoryStore take_store(options_for(keys)), store(options_for(keys));
  Limiter take_limiter(take_store), limiter(store);
  Timeline take_time, time;
  each_key(keys, [&](std::string_view key) {
    benchmark::DoNotOptimize(take_limiter.try_acquire(key, limit, 1, Timeline().next()));
    benchmark::DoNotOptimize(limiter.try_acquire(key, limit, 1, Timeline().next()));
  });
  const auto take = [&](std::size_t from, std::size_t count) {
    stream.each(from, count, [&](std::string_view key) {
      benchmark::DoNotOptimize(take_limiter.try_acquire(key, limit, 1, take_time.next()));
    });
  };
  const auto verb = [&](std::size_t from, std::size_t count) {
    stream.each(from, count, [&](std::string_view key) {
      auto result = apply(limiter, key, limit, time.next());
      benchmark::DoNotOptimize(result);
    });
  };
  return Paired(options.paired()).measure(take, verb);
}

void verbs(const Options& options, std::size_t keys) {
  const KeyStream stream(keys, options.smoke ? 4096 : keys > 1000 ? 1 << 22 : 1 << 18);
  const std::chrono::seconds wait{1};
  const auto compare = [&](const std::string& name, auto apply) {
    const Ratio ratio = against_a_take(options, stream, keys, bucket_for(keys), apply);
    row(name + " / take, keys " + short_count(keys), ratio);
    return ratio;
  };
  const auto measure = [&](const std::string& name, auto apply) {
    const Ratio ratio = compare(name, apply);
    promise_at_most(name + "-over-a-take-" + short_count(keys), ratio.ratio, 1.15);
  };
  measure("charge", [](Limiter& limiter, std::string_view key, const Limit& limit, Instant now) {
    return limiter.charge(key, limit, 1, now);
  });
  measure("take_at_most", [](Limiter& limiter, std::string_view key, const Limit& limit,
                             Instant now) { return limiter.take_at_most(key, limit, 1, now); });
  measure("reserve", [=](Limiter& limiter, std::string_view key, const Limit& limit, Instant now) {
    return limiter.store().apply_one({Verb::kReserve, wait}, {key, limit}, now);
  });
  compare("Limiter::reserve",
          [=](Limiter& limiter, std::string_view key, const Limit& limit, Instant now) {
            return limiter.reserve(key, limit, 1, wait, now);
          });
}

constexpr const char* kPermitsLegend =
    "A permit of one concurrency limit for each key, taken and released (Limiter::hold and the\n"
    "destructor), against try_acquire of a token bucket; `by its name`: the same by two verbs of\n"
    "the store. Processor time; adjacent 10 ms blocks.";

void permits(const Options& options, std::size_t keys) {
  const KeyStream stream(keys, options.smoke ? 4096 : keys > 1000 ? 1 << 22 : 1 << 18);
  const Limit limit = concurrency(100).lease(std::chrono::seconds{30});
  const Ratio held =
      against_a_take(options, stream, keys, bucket_for(keys),
                     [=](Limiter& limiter, std::string_view key, const Limit&, Instant now) {
                       Permit permit = limiter.hold(key, limit, 1, now);
                       return permit.release(now);
                     });
  row("permit / take, keys " + short_count(keys), held);
  promise_at_most("permit-over-a-take-" + short_count(keys), held.ratio, keys > 1000 ? 3.5 : 5.5);
  const Ratio named = against_a_take(
      options, stream, keys, bucket_for(keys),
      [=](Limiter& limiter, std::string_view key, const Limit&, Instant now) {
        const PermitId id = PermitId::random();
        const Charge charge{.key = key, .limit = limit, .permit = &id};
        benchmark::DoNotOptimize(limiter.store().apply_one(Verb::kTake, charge, now));
        return limiter.store().apply_one(Verb::kRelease, charge, now);
      });
  row("permit by its name / take, keys " + short_count(keys), named);
}

constexpr const char* kHoldsLegend =
    "A hold of one budget for each key, with an id of its own, and its settlement by two verbs of\n"
    "the store, against try_acquire of the budget; `Limiter::hold`: the same by the library's\n"
    "object. An id is known for a second. `1,000 open`: one key with 1,000 open holds, against\n"
    "one without. Processor time; adjacent 10 ms blocks.";

// Makes the ids of holds as the front ends make them.
class Ids {
 public:
  std::string_view next() noexcept {
    ++count_;
    return {reinterpret_cast<const char*>(&count_), sizeof(count_)};
  }

 private:
  std::uint64_t count_ = 0;
};

Decision hold_and_settle(Limiter& limiter, std::string_view key, const Limit& limit,
                         std::string_view text, Instant now) {
  const PermitId id = PermitId::named(text);
  const Charge charge{.key = key, .limit = limit, .permit = &id};
  const Action hold{Verb::kHold, std::chrono::seconds{30}};
  benchmark::DoNotOptimize(limiter.store().apply_one(hold, charge, now));
  return limiter.store().apply_one(Verb::kSettle, charge, now);
}

const Limit kBudget =
    budget(kMaxAmount).per(std::chrono::hours{24}).holds(2000).remember(std::chrono::seconds{1});

void holds(const Options& options, std::size_t keys) {
  const KeyStream stream(keys, options.smoke ? 4096 : keys > 1000 ? 1 << 22 : 1 << 18);
  Ids ids;
  const auto measure = [&](const std::string& name, auto apply) {
    const Ratio ratio = against_a_take(options, stream, keys, kBudget, apply);
    row(name + " / take, keys " + short_count(keys), ratio);
    return ratio.ratio;
  };
  const double ratio = measure("hold and settle", [&](Limiter& limiter, std::string_view key,
                                                      const Limit& limit, Instant now) {
    return hold_and_settle(limiter, key, limit, ids.next(), now);
  });
  promise_at_most("hold-and-settle-over-a-take-" + short_count(keys), ratio, 5);
  measure("Limiter::hold, settle", [&](Limiter& limiter, std::string_view key, const Limit& limit,
                                       Instant now) {
    return limiter.hold(ids.next(), key, limit, 1, std::chrono::seconds{30}, now).settle(1, now);
  });
}

void open_holds(const Options& options) {
  MemoryStore store;
  Limiter limiter(store);
  Timeline time;
  Ids ids;
  for (int i = 0; i < 1000; ++i) {
    const PermitId id = PermitId::named(ids.next());
    benchmark::DoNotOptimize(store.apply_one(
        {Verb::kHold, kMaxHold}, {.key = "many", .limit = kBudget, .permit = &id}, time.next()));
  }
  const auto on = [&](std::string_view key) {
    return [&, key](std::size_t, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        benchmark::DoNotOptimize(hold_and_settle(limiter, key, kBudget, ids.next(), time.next()));
      }
    };
  };
  const Ratio ratio = Paired(options.paired()).measure(on("few"), on("many"));
  row("hold and settle, 1,000 open / none", ratio);
  promise_at_most("hold-and-settle-with-1000-open", ratio.ratio, 1.5);
}

// Returns the bytes that a key takes for each id, at many sizes, because its table grows in steps.
// The ids are of open holds, or of settled ones.
double bytes_an_id(const Options& options, bool settles) {
  const Limit limit = budget(kMaxAmount).per(std::chrono::hours{24}).holds(65'535);
  MemoryStore store;
  Timeline time;
  Ids ids;
  const std::size_t half = options.smoke ? 1'000 : 30'000;
  double sum = 0;
  for (std::size_t i = 1; i <= 2 * half; ++i) {
    const PermitId id = PermitId::named(ids.next());
    const Charge charge{.key = "one", .limit = limit, .permit = &id};
    benchmark::DoNotOptimize(store.apply_one({Verb::kHold, kMaxHold}, charge, time.next()));
    if (settles) benchmark::DoNotOptimize(store.apply_one(Verb::kSettle, charge, time.next()));
    if (i > half) sum += static_cast<double>(store.stats().log_bytes) / static_cast<double>(i);
  }
  return sum / static_cast<double>(half);
}

void bytes_of_ids(const Options& options) {
  const double hold = bytes_an_id(options, false);
  const double id = bytes_an_id(options, true);
  std::printf("  memory of a key: %.1f bytes an open hold, %.1f bytes a settled id\n", hold, id);
  promise_at_most("bytes-an-open-hold", hold, 48);
  promise_at_most("bytes-a-settled-id", id, 24);
}

constexpr const char* kCheckLegend =
    "Limiter::check of three token buckets (global: one key; api: 100 keys; user: 1,000 or\n"
    "1,000,000 keys) against Limiter::try_acquire of the user's alone, with the same keys,\n"
    "each in its own store. Nearly all are admitted. Processor time; adjacent 10 ms blocks.";

// 20 % above the rate of the requests, which is one per microsecond.
const Limit kGlobal = token_bucket(1'200'007).per(std::chrono::seconds{1});
const Limit kApi = token_bucket(14'009).per(std::chrono::seconds{1});

void check_three(const Options& options, std::size_t users) {
  const std::size_t length = options.smoke ? 4096 : users > 1000 ? 1 << 22 : 1 << 18;
  const KeyStream stream(users, length);
  const Numbers n = numbers_for(users);
  const Limit per_user = token_bucket(n.limit).per(n.per);
  MemoryStore one_store(options_for(users)), three_store(options_for(users));
  Limiter one(one_store), three(three_store);
  Timeline one_time, three_time;
  std::uint64_t denied = 0;
  std::uint64_t asked = 0;
  const auto take_one = [&](std::size_t from, std::size_t count) {
    stream.each(from, count, [&](std::string_view key) {
      benchmark::DoNotOptimize(one.try_acquire(key, per_user, 1, one_time.next()));
    });
  };
  const auto take_three = [&](std::size_t from, std::size_t count) {
    asked += count;
    stream.each(from, count, [&](std::string_view key) {
      // The last two digits name the API, which is a key of its own.
      const std::string_view api = key.substr(kKeyBytes - 2);
      const Charge charges[] = {{"global", kGlobal}, {api, kApi}, {key, per_user}};
      denied += !three.check(charges, {}, three_time.next()).allowed();
    });
  };
  each_key(users, [&](std::string_view key) {
    benchmark::DoNotOptimize(one.try_acquire(key, per_user, 1, Timeline().next()));
    benchmark::DoNotOptimize(three.try_acquire(key, per_user, 1, Timeline().next()));
  });
  const Ratio ratio = Paired(options.paired()).measure(take_one, take_three);
  char note[32];
  std::snprintf(note, sizeof(note), "denied %.2f %%",
                100 * static_cast<double>(denied) / static_cast<double>(asked));
  row("three limits, users " + short_count(users), ratio, note);
  promise_at_most("check-three-limits-" + short_count(users), ratio.ratio,
                  users > 1000 ? 2.5 : 3.5);
}

constexpr const char* kGuardLegend =
    "A function of one argument behind a guard with one token bucket for each of 1,000 users,\n"
    "against Limiter::try_acquire(user, limit) and a direct call. The guard makes its key (31\n"
    "bytes of its name and the user's) on each call. The clock of the store does not move,\n"
    "because reading the clock of the system would double both costs. Processor time; the\n"
    "promise is the median of the differences, in ns.";

// Guards read keys through member pointers, like a program would.
struct Request {
  std::string_view user;
  std::uint64_t size = 1;
};

std::uint64_t handle(const Request& request) { return request.size; }

template <typename Guarded>
Ratio compare(const Options& options, const KeyStream& users, Limiter& limiter, const Limit& limit,
              Guarded&& guarded) {
  const auto plain = [&](std::size_t from, std::size_t count) {
    users.each(from, count, [&](std::string_view user) {
      const Request request{user};
      std::uint64_t result = 0;
      if (limiter.try_acquire(user, limit)) result = handle(request);
      benchmark::DoNotOptimize(result);
    });
  };
  const auto behind_guard = [&](std::size_t from, std::size_t count) {
    users.each(from, count, [&](std::string_view user) {
      const Request request{user};
      auto result = guarded(request);
      benchmark::DoNotOptimize(result);
    });
  };
  return Paired(options.paired()).measure(plain, behind_guard);
}

void guards(const Options& options) {
  const KeyStream users(1'000, options.smoke ? 4096 : 1 << 18);
  const testing::ManualClock clock;
  MemoryStore store({}, clock);
  Limiter limiter(store);
  const Limit limit = token_bucket(4'000'000'007).per(std::chrono::hours{1});
  const auto guard = guarded(limiter, "handle", limit).key(&Request::user);

  const auto throwing = guard.throwing(handle);
  const Ratio thrown = compare(options, users, limiter, limit, throwing);
  row("guard, throwing", thrown);
  const auto returning = guard.returning(handle);
  row("guard, returning", compare(options, users, limiter, limit, returning));
  const auto inside = [&](const Request& request) {
    const Decision taken = require({limiter, "handle"}, limit, request.user);
    return taken.allowed() ? handle(request) : 0;
  };
  row("require() in the function", compare(options, users, limiter, limit, inside));
  promise_at_most("guard-ns-over-a-take", thrown.more_ns, 15);
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  const Options options = Options::from(argc, argv);
  const IdleThread idle;
  table("verbs: one limit", kVerbsLegend);
  verbs(options, 1'000);
  if (!options.smoke) verbs(options, 1'000'000);
  table("permits", kPermitsLegend);
  permits(options, 1'000);
  if (!options.smoke) permits(options, 1'000'000);
  table("holds of budgets", kHoldsLegend);
  holds(options, 1'000);
  open_holds(options);
  bytes_of_ids(options);
  table("check: three limits as one request", kCheckLegend);
  check_three(options, 1'000);
  if (!options.smoke) check_three(options, 1'000'000);
  table("guard: a function behind a limit", kGuardLegend);
  guards(options);
}
