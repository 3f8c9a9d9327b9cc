// The store of a server and what each event loop uses of it. In memory, all loops share one store,
// whose counters are saved in a snapshot. With Redis, each loop has a connection of its own, and
// leases, deny cache, circuit breaker and failure policy are in front of it; a request waits on its
// fiber.

#include "server/storage/stores.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quoted.h"
#include "metrics/counts.h"
#include "server/logging/ledger_file.h"
#include "server/net/fiber.h"
#include "server/storage/loop_stores.h"
#include "sluice/expected.h"
#include "sluice/leased_store.h"
#include "sluice/memory_store.h"
#include "sluice/store.h"
#include "stores/policy/async_policies.h"
#include "stores/redis/client/client.h"
#include "stores/redis/client/clients.h"
#include "stores/redis/client/target.h"
#include "stores/redis/script/format.h"
#include "stores/redis/script/state_reader.h"
#include "stores/redis/script/stored.h"

namespace sluice::server {
namespace {

using std::chrono::steady_clock;

std::chrono::microseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start);
}

double seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

double seconds_of(Instant instant) {
  return std::chrono::duration<double>(instant.time_since_epoch()).count();
}

}  // namespace

Expected<std::unique_ptr<CounterSnapshots>> CounterSnapshots::open(
    MemoryStore& store, std::string path, std::chrono::milliseconds interval, Log& log) {
  const std::filesystem::file_status status = std::filesystem::status(path);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Unexpected{"memory.snapshot: " + path +
                      " is not a regular file; expected a file that Sluice may replace"};
  }
  if (std::filesystem::exists(status) && ::access(path.c_str(), R_OK) != 0) {
    return Unexpected{"memory.snapshot: cannot read " + path + ": " +
                      std::generic_category().message(errno) +
                      "; expected a file that this user may read"};
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return Unexpected{"memory.snapshot: cannot write in " + folder + ": " +
                      std::generic_category().message(errno) +
                      "; expected a folder in which this user may create files"};
  }
  return std::unique_ptr<CounterSnapshots>(
      new CounterSnapshots(store, std::move(path), interval, log));
}

Status CounterSnapshots::lock(std::vector<net::FileDescriptor> inherited) {
  auto taken = net::try_lock(path_, std::move(inherited));
  if (!taken) return Unexpected{"memory.snapshot: " + taken.error()};
  if (!*taken) {
    return Unexpected{
        "memory.snapshot: another server uses " + path_ +
        "; expected a file for each server, or drain.handover to replace that server"};
  }
  lock_ = std::move(**taken);
  return {};
}

std::optional<Instant> CounterSnapshots::read() {
  std::error_code error;
  if (std::filesystem::symlink_status(path_, error).type() ==
      std::filesystem::file_type::not_found) {
    log_.info("there is no snapshot, so the counters start again", {{"file", path_}});
    return std::nullopt;
  }
  const auto start = steady_clock::now();
  const auto loaded = store_.load(path_);
  if (!loaded) {
    put_aside(loaded.error());
    return std::nullopt;
  }
  log_.info("read the snapshot of the counters",
            {{"file", path_},
             {"counters", loaded->counters},
             {"blocks", loaded->blocks},
             {"bytes", loaded->bytes},
             {"age_seconds", seconds_of(SystemClock().now()) - seconds_of(loaded->saved)},
             {"seconds", seconds(since(start))}});
  if (loaded->saved > SystemClock().now()) {
    log_.warning("the clock is behind the snapshot, so limits are stricter until it has caught up");
  }
  if (loaded->dropped > 0) {
    log_.warning(
        "counters of the snapshot were dropped because memory.max_keys or memory.max_log_bytes is "
        "too small",
        {{"dropped", loaded->dropped}, {"counters", loaded->counters}});
  }
  return loaded->saved;
}

void CounterSnapshots::put_aside(const std::string& why) {
  const std::string aside = path_ + ".damaged";
  log_.error("the snapshot cannot be used, so the counters start again", {{"why", why}});
  std::error_code error;
  std::filesystem::rename(path_, aside, error);
  if (error) {
    log_.error("the damaged snapshot cannot be renamed and will be replaced",
               {{"file", path_}, {"why", error.message()}});
  } else {
    log_.error("the damaged snapshot was renamed; delete it, or report it if no disk has failed",
               {{"file", aside}});
  }
  const std::lock_guard lock(mutex_);
  ++stats_.failures;
}

void CounterSnapshots::start() {
  if (interval_.count() > 0) thread_ = repeat(interval_, [this] { write(false); });
}

bool CounterSnapshots::write_last() {
  write(true);
  const Stats now = stats();
  if (!failure_.empty()) return false;
  log_.info("wrote the snapshot of the counters", {{"file", path_},
                                                   {"counters", now.last.counters},
                                                   {"blocks", now.last.blocks},
                                                   {"bytes", now.last.bytes},
                                                   {"seconds", seconds(now.took)}});
  return true;
}

// Logs the first failure in a row, and a failure of the last snapshot always.
void CounterSnapshots::write(bool is_last) {
  const auto start = steady_clock::now();
  const auto saved = store_.save(path_);
  const std::string failure = saved ? std::string() : saved.error();
  if (!saved && (is_last || failure != failure_)) {
    log_.error("the counters were not saved; a restart now continues from the last snapshot",
               {{"why", failure}});
  } else if (saved && !failure_.empty()) {
    log_.info("the counters can be saved again", {{"file", path_}});
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  if (saved) {
    stats_.last = *saved;
    stats_.took = since(start);
  } else {
    ++stats_.failures;
  }
}

CounterSnapshots::Stats CounterSnapshots::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string CounterSnapshots::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void CounterSnapshots::add_metrics(metrics::Registry& registry) {
  registry.add(
      "sluice_snapshot_timestamp_seconds",
      "When the last snapshot of the counters was begun, in Unix time; 0: none was written.",
      [this] { return seconds_of(stats().last.saved); });
  registry.add("sluice_snapshot_duration_seconds", "How long the last snapshot took.",
               [this] { return seconds(stats().took); });
  registry.add("sluice_snapshot_bytes", "Size of the last snapshot.",
               [this] { return static_cast<double>(stats().last.bytes); });
  registry.add("sluice_snapshot_counters", "Counters in the last snapshot.",
               [this] { return static_cast<double>(stats().last.counters); });
  registry.add("sluice_snapshot_failures_total", "Snapshots that could not be read or written.",
               [this] { return static_cast<double>(stats().failures); });
}

// An asynchronous store for the fibers of one event loop. A request waits for its answer while the
// loop continues.
//
// Thread-safety: the loop's thread only, and only on its fibers; any other request returns
// kStoreError; durations() from any thread. Ownership: borrows the store.
class FiberStore final : public Store {
 public:
  explicit FiberStore(AsyncStore& store) noexcept : store_(store) {}

  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  // The times from a request to its answer or its failure.
  const metrics::Durations& durations() const noexcept { return durations_; }

 private:
  AsyncStore& store_;
  metrics::Durations durations_;
};

namespace {

void add_counts(RedisStoreStats& sum, const RedisStoreStats& one) {
  sum.requests += one.requests;
  sum.timeouts += one.timeouts;
  sum.errors += one.errors;
  sum.connects += one.connects;
  sum.scripts_sent += one.scripts_sent;
  sum.redirects += one.redirects;
  sum.gave_back += one.gave_back;
}

LocalShareOptions share_options(const Config& config) {
  return {.nodes = static_cast<std::uint32_t>(config.redis.nodes),
          .memory = {.max_keys = config.max_keys, .max_log_bytes = config.max_log_bytes}};
}

// Why a store fails that does not answer.
std::string silence_of(const redis::Target& target) {
  const bool is_one = target.kind == redis::Target::Kind::kStandalone;
  const std::string where = is_one ? target.servers.front().to_string() : target.shown;
  const auto deadline =
      std::chrono::duration_cast<std::chrono::milliseconds>(target.options.deadline);
  return "Redis at " + where + " does not answer within " + std::to_string(deadline.count()) +
         " ms";
}

LeaseOptions lease_options(const Config& config) {
  return {.nodes = static_cast<std::uint32_t>(config.redis.nodes),
          .share = static_cast<double>(config.redis.lease_percent) / 100,
          .max_keys = config.redis.lease_keys};
}

}  // namespace

// The stores of one loop, and the one that rules use: leases in front of the others. A timer gives
// back what was not used, all in one turn.
class RedisStores::Chain final : public LoopStores, private Store, private AsyncStore::Completion {
 public:
  Chain(RedisStores& all, boost::asio::io_context& loop)
      : all_(all),
        redis_(loop, all.target_, &all.shared_),
        fibers_(redis_),
        chain_(fibers_, all.shared_),
        returns_(redis_, all.shared_),
        leased_(chain_.store(), all.leases_, LeaseReturns::kByCaller),
        unused_(returns_.store(), all.leases_),
        timer_(loop),
        limiter_(*this) {
    question_.append("TIME");  // the documented user of Redis may send it
    all_.add(*this);
  }
  ~Chain() override { stop(); }

  Limiter& limiter() override { return limiter_; }
  Store* shadow() override { return &chain_.uncached(); }
  Store* local() override { return &all_.shared_.local; }
  redis::Client* redis() override { return &redis_.client(); }
  // Sends a request that no client makes: it writes, because a server that only answers cannot
  // decide. Its counter expires after a second, and is another one each time, because the master of
  // one may be the only one of a cluster that fails.
  void probe() noexcept override {
    if (!is_asking_ && all_.events_.owes()) {
      is_asking_ = true;
      redis()->submit(question_);
    }
    if (is_probing_ || !all_.breaker().probe_is_due()) return;
    is_probing_ = true;
    probe_key_ = "sluice probe " + std::to_string(probes_++ % 100);
    probe_.key = probe_key_;
    returns_.uncached().async_apply(Verb::kCharge, {&probe_, 1}, {}, {&probe_answer_, 1}, *this);
  }
  void stop() override {
    if (std::exchange(is_stopped_, true)) return;
    try {
      timer_.cancel();
    } catch (const boost::system::system_error&) {  // then it finds that it is stopped
    }
    all_.remove(*this);
    redis_.close();
  }

  const redis::LoopStore& store() const noexcept { return redis_; }
  const metrics::Durations& durations() const noexcept { return fibers_.durations(); }

 private:
  Decision apply(Action action, std::span<const Charge> charges, std::optional<Instant> now,
                 std::span<Decision> each) noexcept override;
  Decision apply_one(Action action, const Charge& charge,
                     std::optional<Instant> now) noexcept override;
  void done(const Decision&) noexcept override { is_probing_ = false; }
  void arm() noexcept;

  RedisStores& all_;
  bool is_stopped_ = false;
  bool is_asking_ = false;
  redis::AskCommand question_{[this](const redis::Answer& answer) {
    is_asking_ = false;
    const bool is_answered =
        answer.failure == redis::Failure::kNone || answer.failure == redis::Failure::kError;
    if (is_answered) all_.events_.answered();
  }};
  bool is_probing_ = false;
  unsigned probes_ = 0;
  std::string probe_key_;
  Charge probe_{.key = {}, .limit = fixed_window(1).per(std::chrono::seconds(1))};
  Decision probe_answer_;
  redis::LoopStore redis_;
  FiberStore fibers_;
  policy::Chain chain_;
  policy::AsyncChain returns_;  // takes back what leases did not use
  LeasedStore leased_;
  AsyncLeasedStore unused_;
  boost::asio::steady_timer timer_;
  Instant armed_for_ = Instant::max();
  Limiter limiter_;
};

Expected<std::unique_ptr<RedisStores>> RedisStores::open(const Config& config, Log& log) {
  const auto options = redis_options(config);
  if (!options) return Unexpected{options.error()};
  auto target = redis::make_target(*options);
  if (!target) return Unexpected{target.error()};
  return std::unique_ptr<RedisStores>(new RedisStores(config, std::move(*target), log));
}

RedisStores::RedisStores(const Config& config, std::shared_ptr<const redis::Target> target,
                         Log& log)
    : target_(std::move(target)),
      has_ledger_(config.ledger.in_redis),
      log_(log),
      events_(log, SteadyClock::instance(), SystemClock::instance(), silence_of(*target_),
              target_->kind == redis::Target::Kind::kCluster),
      health_(target_, log),
      shared_(config.redis.breaker,
              config.redis.deny_cache_enabled ? config.redis.deny_cache
                                              : DenyCacheOptions{.longest = Duration{0}},
              share_options(config), &events_),
      leases_(lease_options(config)) {}

RedisStores::~RedisStores() {
  if (!leases_.next_end()) return;
  try {
    boost::asio::io_context loop;
    redis::LoopStore redis(loop, target_, nullptr);
    AsyncLeasedStore(redis, leases_).give_back(LeaseEnd::kAll);
    for (int i = 0; i < 100 && redis.stats().pending > 0; ++i) {
      loop.run_for(std::chrono::milliseconds(10));
    }
  } catch (const std::exception&) {  // they stay taken
  }
}

std::unique_ptr<LoopStores> RedisStores::make(boost::asio::io_context& loop) {
  return std::make_unique<Chain>(*this, loop);
}

void RedisStores::add(const Chain& chain) {
  const std::lock_guard lock(mutex_);
  chains_.push_back(&chain);
}

void RedisStores::remove(const Chain& chain) {
  const std::lock_guard lock(mutex_);
  add_counts(past_, chain.store().stats());
  chain.durations().add_to(past_durations_);
  std::erase(chains_, &chain);
}

RedisStoreStats RedisStores::stats() const {
  const std::lock_guard lock(mutex_);
  RedisStoreStats sum = past_;
  for (const Chain* const chain : chains_) {
    const RedisStoreStats one = chain->store().stats();
    add_counts(sum, one);
    sum.connected += one.connected;
    sum.pending += one.pending;
  }
  return sum;
}

metrics::DurationCounts RedisStores::durations() const {
  const std::lock_guard lock(mutex_);
  metrics::DurationCounts sum = past_durations_;
  for (const Chain* const chain : chains_) chain->durations().add_to(sum);
  return sum;
}

void RedisStores::look() {
  const Instant now = SteadyClock::instance().now();
  if (now < next_look_) return;
  next_look_ = now + SlowRequests::kEvery;
  const metrics::DurationCounts all = durations();
  const std::uint64_t timeouts = stats().timeouts;
  const std::lock_guard lock(mutex_);
  const bool was_slow = slow_.since().has_value();
  slow_.add(all, timeouts, SystemClock::instance().now());
  if (slow_.since().has_value() == was_slow) return;
  if (was_slow) {
    log_.info("the store is not slow any more");
  } else {
    log_.warning("the store is slow", {{"why", slow_.why()}});
  }
}

namespace {

using Steady = std::chrono::steady_clock;
using Slot = std::optional<std::uint16_t>;

constexpr std::chrono::seconds kLongest{5};
constexpr std::size_t kAtOnce = 100;  // commands under way

// Returns why there is no reply; empty: there is one.
std::string why_not(const redis::Answer& answer) {
  if (answer.failure == redis::Failure::kNone) return {};
  return answer.text.empty() ? "Redis did not answer" : std::string(answer.text);
}

// A pattern that matches the text itself.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[]\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class Search {
 public:
  Search(redis::Client& client, const redis::Target& target, std::size_t most)
      : client_(client), prefix_(target.options.prefix), most_(most) {}

  // Reads all ledgers, each by a replay of its own.
  Status read_ledgers(bool is_cluster, const LedgerReplay::See& see) {
    const auto read_all = [&](std::span<const std::string> keys) -> Status {
      for (const std::string& key : keys) {
        const auto name = redis::read_ledger_name(std::string_view(key).substr(prefix_.size()));
        if (!name || !seen_.insert(key).second) continue;
        if (auto read = read_stream(key, *name, see); !read) return read;
      }
      return {};
    };
    if (auto done = scan_all(is_cluster, redis::format::kOfLedgers, read_all); !done) return done;
    if (!found_.more) return {};
    return Unexpected{"reading the ledgers takes longer than 5 s; expected: sluice ledger sum"};
  }

  Expected<HeldBlocks> find(bool is_cluster) {
    const auto read_all = [&](std::span<const std::string> keys) { return read(keys); };
    if (auto done = scan_all(is_cluster, redis::format::kOfBlocks, read_all); !done) {
      return Unexpected{done.error()};
    }
    return std::move(found_);
  }

 private:
  using Read = std::function<Status(std::span<const std::string> keys)>;

  // Finds the keys of a kind on all masters.
  Status scan_all(bool is_cluster, char kind, const Read& read_some) {
    if (!is_cluster) return scan({}, kind, read_some);
    Expected<std::vector<std::uint16_t>> slots = std::vector<std::uint16_t>();
    const auto see = [&](const redis::Reply& reply) {
      const auto map = redis::SlotMap::read(reply, {});
      if (map) {
        slots = map->slot_of_each();
      } else {
        slots = Unexpected{map.error()};
      }
    };
    if (auto asked = ask({}, {"CLUSTER", "SLOTS"}, see); !asked) return asked;
    if (!slots) return Unexpected{slots.error()};
    for (const std::uint16_t slot : *slots) {
      if (auto scanned = scan(slot, kind, read_some); !scanned) return scanned;
    }
    return {};
  }

  Status read_stream(const std::string& key, const redis::CounterName& name,
                     const LedgerReplay::See& see) {
    LedgerReplay replay([](bool, const std::string&) {}, see);
    std::string from = "-";
    bool is_first = true;
    const auto add = [&](auto& entry) {
      entry.is_of_rule = name.keyspace == Keyspace::kRules;
      entry.key = name.key;
      entry.tag = name.tag;
      const LedgerLine line = ledger_line(0, entry);
      if (std::exchange(is_first, false) && !line.is_new) {
        see({.at = line.at, .kind = "gap", .rule = line.rule, .limit = line.limit});
      }
      replay.add(line);
    };
    for (bool more = true; more && !is_enough();) {
      more = false;
      const auto take = [&](const redis::Reply& reply) {
        for (const redis::Reply& one : reply) {
          if (!one.is_array_of(2)) continue;
          more = true;
          from = "(" + std::string(one[0].string());
          if (auto entry = redis::read_ledger_entry(one[1])) add(*entry);
        }
      };
      const auto slot = redis::slot_of(key);
      if (auto asked = ask(slot, {"XRANGE", key, from, "+", "COUNT", "1000"}, take); !asked) {
        return Unexpected{"the key " + base::in_quotes(key) +
                          ", of a ledger by its name: " + asked.error()};
      }
      found_.more |= is_enough();
    }
    replay.end(now_);
    return {};
  }

  static void fill_in(redis::Command& command, Slot slot,
                      std::initializer_list<std::string_view> words) {
    command.slot = slot;
    for (const std::string_view word : words) command.append(word);
  }

  // Waits for the reply, which `see` sees.
  Status ask(Slot slot, std::initializer_list<std::string_view> words,
             const std::function<void(const redis::Reply&)>& see) {
    net::FiberWait wait;
    std::string why;
    redis::AskCommand command([&](const redis::Answer& answer) {
      why = why_not(answer);
      if (why.empty()) see(*answer.reply);
      wait.finish();
    });
    fill_in(command, slot, words);
    client_.submit(command);
    wait.wait();
    if (!why.empty()) return Unexpected{std::move(why)};
    return {};
  }
  bool is_enough() const { return found_.more || Steady::now() > end_; }

  Status scan(Slot slot, char kind, const Read& read_some) {
    const std::string pattern = literal(prefix_) + kind + "*";
    std::string cursor = "0";
    do {
      if (is_enough()) {
        found_.more = true;
        return {};
      }
      std::vector<std::string> keys;
      const auto see = [&](const redis::Reply& r) {
        cursor = "0";
        if (r.type != redis::Reply::kArray || r.count != 2) return;
        cursor = r[0].string();
        for (const redis::Reply& key : r[1]) keys.emplace_back(key.string());
      };
      auto asked = ask(slot, {"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"}, see);
      if (!asked) return asked;
      if (auto got = read_some(keys); !got) return got;
    } while (cursor != "0");
    return {};
  }

  Status read(std::span<const std::string> keys) {
    Status got;
    while (got && !keys.empty()) {
      const std::size_t count = std::min(keys.size(), kAtOnce);
      got = read_at_once(keys.first(count));
      keys = keys.subspan(count);
    }
    return got;
  }

  Status read_at_once(std::span<const std::string> keys) {
    net::FiberWait wait;
    std::deque<redis::AskCommand> commands;
    std::size_t pending = 0;
    std::string why;
    for (const std::string& key : keys) {
      auto name = redis::read_block_name(std::string_view(key).substr(prefix_.size()));
      if (!name || name->keyspace != Keyspace::kRules) continue;
      commands.emplace_back([&, name = std::move(*name)](const redis::Answer& answer) {
        if (std::string failure = why_not(answer); !failure.empty()) {
          why = std::move(failure);
        } else {
          see_block(name, answer.reply->string());
        }
        if (--pending == 0) wait.finish();
      });
      fill_in(commands.back(), redis::slot_of(key), {"GET", key});
    }
    if (commands.empty()) return {};
    pending = commands.size();
    for (redis::AskCommand& command : commands) client_.submit(command);
    wait.wait();
    if (!why.empty()) return Unexpected{std::move(why)};
    return {};
  }

  void see_block(const redis::CounterName& name, std::string_view value) {
    const auto until = redis::read_block_end(value);
    if (!until || *until <= now_ || !seen_.insert(name.tag + '\0' + name.key).second) return;
    if (found_.blocks.size() == most_) {
      found_.more = true;
    } else {
      found_.blocks.push_back({name.key, name.tag, Keyspace::kRules, *until});
    }
  }

  redis::Client& client_;
  const std::string prefix_;
  const std::size_t most_;
  const Steady::time_point end_ = Steady::now() + kLongest;
  const Instant now_ = SystemClock().now();
  HeldBlocks found_;
  std::set<std::string> seen_;  // SCAN may return a key twice
};

}  // namespace

// Asks with SCAN on every master, and stops after 5 s. It may miss blocks that start or end
// meanwhile.
Expected<HeldBlocks> RedisStores::find_blocks(LoopStores* loop, std::size_t most) {
  Search search(*loop->redis(), *target_, most);
  return search.find(target_->kind == redis::Target::Kind::kCluster);
}

namespace {

constexpr const char* kNoLedger =
    "this server has no ledger; expected `ledger: file:PATH` or `ledger: redis` in its "
    "configuration (docs/budgets.md)";

}  // namespace

Status RedisStores::read_ledger(LoopStores* loop, const LedgerReplay::See& see) {
  if (!has_ledger_) return Unexpected{kNoLedger};
  Search search(*loop->redis(), *target_, 0);
  return search.read_ledgers(target_->kind == redis::Target::Kind::kCluster, see);
}

namespace {

// Resumes the fiber when its request is answered.
class Waker final : public AsyncStore::Completion {
 public:
  Decision wait() {
    wait_.wait();
    return decision_;
  }
  void done(const Decision& decision) noexcept override {
    decision_ = decision;
    wait_.finish();
  }

 private:
  net::FiberWait wait_;
  Decision decision_;
};

}  // namespace

Decision FiberStore::apply(Action action, std::span<const Charge> charges,
                           std::optional<Instant> now, std::span<Decision> each) noexcept {
  if (net::current_fiber() == nullptr) {
    const Decision refusal = Decision::refused(Reason::kStoreError);
    std::fill(each.begin(), each.end(), refusal);
    return refusal;
  }
  const auto begin = std::chrono::steady_clock::now();
  Waker waker;
  store_.async_apply(action, charges, now, each, waker);
  const Decision decision = waker.wait();
  durations_.add(std::chrono::steady_clock::now() - begin);
  return decision;
}

Decision RedisStores::Chain::apply(Action action, std::span<const Charge> charges,
                                   std::optional<Instant> now, std::span<Decision> each) noexcept {
  const Decision decision = leased_.apply(action, charges, now, each);
  arm();
  return decision;
}

Decision RedisStores::Chain::apply_one(Action action, const Charge& charge,
                                       std::optional<Instant> now) noexcept {
  const Decision decision = leased_.apply_one(action, charge, now);
  arm();
  return decision;
}

// Sets the timer to the end of the next lease, which may be one of another loop.
void RedisStores::Chain::arm() noexcept {
  const auto next = all_.leases_.next_end();
  if (!next || *next >= armed_for_ || is_stopped_) return;
  armed_for_ = *next;
  try {
    timer_.expires_at(std::chrono::steady_clock::time_point(next->time_since_epoch()));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      armed_for_ = Instant::max();
      unused_.give_back();
      arm();
    });
  } catch (const std::exception&) {  // the next request tries again
    armed_for_ = Instant::max();
  }
}

namespace {

void add_ledger_metrics(metrics::Registry& registry, const LedgerFile& ledger) {
  using Stats = LedgerFile::Stats;
  registry.add_stats<Stats>(
      [&ledger] { return ledger.stats(); },
      {{"sluice_ledger_entries_total", "Changes of budgets in the ledger.", &Stats::entries},
       {"sluice_ledger_lost_total",
        "Changes of budgets that the ledger lacks, or that its disk may lack.", &Stats::lost},
       {"sluice_ledger_errors_total", "Writes to the ledger that have failed.", &Stats::errors}});
}

class InMemory final : public Stores {
 public:
  static Expected<std::unique_ptr<Stores>> open(const Config& config, Log& log,
                                                const Clock& steady) {
    auto made = std::make_unique<InMemory>(config, log, steady);
    if (!config.snapshot.empty()) {
      auto snapshots =
          CounterSnapshots::open(made->store_, config.snapshot, config.snapshot_interval, log);
      if (!snapshots) return Unexpected{snapshots.error()};
      made->snapshots_ = std::move(*snapshots);
    }
    return std::unique_ptr<Stores>(std::move(made));
  }
  InMemory(const Config& config, Log& log, const Clock& steady)
      : max_keys_(config.max_keys),
        max_log_bytes_(config.max_log_bytes),
        log_(log),
        steady_(steady),
        drain_timeout_(config.drain_timeout),
        ledger_file_(config.ledger.file),
        ledger_(config.ledger.file.empty() ? nullptr
                                           : std::make_unique<LedgerFile>(config.ledger, log)),
        // A clock that is set counts at once here, as it does with a store in Redis.
        store_({.max_keys = config.max_keys,
                .max_log_bytes = config.max_log_bytes,
                .ledger = ledger_.get()},
               SystemClock::instance()),
        limiter_(store_) {}

  Limiter* limiter() override { return &limiter_; }
  std::unique_ptr<LoopStores> make(boost::asio::io_context&) override { return nullptr; }

  Expected<HeldBlocks> find_blocks(LoopStores*, std::size_t most) override {
    HeldBlocks found{.blocks = store_.blocked(most + 1)};
    found.more = found.blocks.size() > most;
    if (found.more) found.blocks.pop_back();
    return found;
  }

  Status read_ledger(LoopStores*, const LedgerReplay::See& see) override {
    if (ledger_file_.empty()) return Unexpected{kNoLedger};
    return read_ledger_file(ledger_file_, see, SystemClock::instance().now());
  }

  void follow(boost::asio::io_context&) override {
    if (snapshots_) snapshots_->start();
  }
  void stop_following() noexcept override {
    if (snapshots_) snapshots_->stop();
  }
  Status lock_files(std::vector<net::FileDescriptor>&& inherited, bool succeeds) override {
    auto locked = snapshots_ ? snapshots_->lock(std::move(inherited)) : Status();
    return locked && ledger_ ? ledger_->open(succeeds) : locked;
  }
  int snapshot_lock() const noexcept override {
    return snapshots_ ? snapshots_->lock_descriptor() : -1;
  }
  void begin_files(net::FileDescriptor other) override {
    const auto restored = snapshots_ ? snapshots_->read() : std::nullopt;
    if (!ledger_) return;
    if (!snapshots_) {
      log_.warning(
          "without memory.snapshot each budget begins at 0 after a restart, and the sums of the "
          "ledger go on",
          {{"file", ledger_file_}});
    }
    ledger_->start(restored, std::move(other));
  }
  bool end_files() override {
    const bool ledger = !ledger_ || ledger_->stop(drain_timeout_);
    const bool counters = !snapshots_ || snapshots_->write_last();
    return ledger && counters;
  }

  void look() override {
    const std::uint64_t freed = store_.stats().freed_keys;
    if (freed == logged_freed_ || steady_.now() < next_line_) return;
    log_.warning("blocked keys were freed: blocks have reached their bound",
                 {{"keys", freed - logged_freed_},
                  {"bound_bytes", max_log_bytes_ / kBlockShare},
                  {"expected", "a larger memory.max_log_bytes"}});
    logged_freed_ = freed;
    next_line_ = steady_.now() + std::chrono::minutes{1};
  }

  void add_metrics(metrics::Registry& registry) override {
    add_memory_metrics(registry, [this] { return store_.stats(); });
    if (snapshots_) snapshots_->add_metrics(registry);
    if (ledger_) add_ledger_metrics(registry, *ledger_);
  }
  StoreStatus status() const override {
    const MemoryStoreStats stats = store_.stats();
    return {.kind = "memory",
            .numbers = {{"keys", stats.keys},
                        {"max_keys", max_keys_},
                        {"log_bytes", stats.log_bytes},
                        {"max_log_bytes", max_log_bytes_},
                        {"evictions", stats.evictions},
                        {"swept", stats.swept},
                        {"merged_logs", stats.merged_logs}},
            .warning = warning()};
  }

 private:
  static constexpr std::size_t kBlockShare = 8;  // of max_log_bytes: see MemoryStoreOptions

  // Says which files cannot be written, or nothing.
  std::string warning() const {
    const std::string ledger = ledger_ ? ledger_->failure() : std::string();
    const std::string counters = snapshots_ ? snapshots_->failure() : std::string();
    std::string text = ledger.empty() ? ledger : "the ledger waits in memory: " + ledger;
    if (counters.empty()) return text;
    return text.append(text.empty() ? "" : "; ").append("the counters are not saved: " + counters);
  }

  const std::size_t max_keys_;
  const std::size_t max_log_bytes_;
  Log& log_;
  const Clock& steady_;
  std::uint64_t logged_freed_ = 0;
  Instant next_line_{};  // of look(), at the earliest
  const std::chrono::milliseconds drain_timeout_;
  const std::string ledger_file_;             // empty: none
  const std::unique_ptr<LedgerFile> ledger_;  // null: without a file, as the snapshots
  MemoryStore store_;
  Limiter limiter_;
  std::unique_ptr<CounterSnapshots> snapshots_;
};

}  // namespace

void RedisStores::add_metrics(metrics::Registry& registry) {
  add_store_metrics(
      registry, events_, breaker(), leases_, [this] { return stats(); }, deny_cache(),
      [this] { return durations(); });
  add_health_metrics(registry, health_);
  add_memory_metrics(registry, [this] { return local().stats(); });
}

StoreStatus RedisStores::status() const {
  const RedisStoreStats stats = this->stats();
  const bool asks = breaker().state() == CircuitBreaker::State::kClosed;
  StoreStatus status{.kind = "redis",
                     .address = target_->shown,
                     .numbers = {{"connections", stats.connected},
                                 {"under_way", stats.pending},
                                 {"requests", stats.requests},
                                 {"timeouts", stats.timeouts},
                                 {"errors", stats.errors},
                                 {"gave_back", stats.gave_back},
                                 {"breaker_open", asks ? 0U : 1U}}};
  // Without requests the breaker stays closed.
  auto failing = events_.failing();
  const bool is_whole = !asks || stats.connected == 0 || (failing && failing->is_silent);
  if (failing && (is_whole || failing->is_partial)) {
    status.failing_since = failing->since;
    status.why_failing = std::move(failing->why);
    if (!is_whole) status.why_failing += "; the other masters may decide about their keys";
  }
  status.warning = health_.trouble();
  status.full_since = events_.full_since();
  status.last_outage = events_.last_outage();
  const std::lock_guard lock(mutex_);
  if (!status.failing_since && slow_.since()) {
    status.slow_since = slow_.since();
    status.why_slow = target_->shown + ": " + slow_.why();
  }
  if (const DenyCache* cache = deny_cache()) {
    status.numbers.emplace_back("deny_cache_hits", cache->hits());
  }
  return status;
}

Expected<std::unique_ptr<Stores>> Stores::open(const Config& config, Log& log,
                                               const Clock& steady) {
  if (kind_of(config) == StoreKind::kQuota) return open_quota_stores(config, log);
  if (kind_of(config) == StoreKind::kRedis) {
    auto stores = RedisStores::open(config, log);
    if (!stores) return Unexpected{stores.error()};
    return std::unique_ptr<Stores>(std::move(*stores));
  }
  return InMemory::open(config, log, steady);
}

}  // namespace sluice::server
