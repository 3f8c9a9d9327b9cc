#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "sluice/block.h"
#include "sluice/limiter.h"
#include "sluice/memory_store.h"
#include "sluice/permit_id.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1'700'000'000s};

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_all(const std::string& path, std::string_view bytes) {
  std::filesystem::remove(path);  // some file systems flush a file that is written again
  std::ofstream(path, std::ios::binary) << bytes;
}

class Snapshot : public ::testing::Test {
 protected:
  Snapshot() {
    std::string made = ::testing::TempDir() + "/snapshot-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    folder_ = made;
    path_ = made + "/counters";
  }
  ~Snapshot() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  std::string path_;
};

const std::vector<Limit>& limits() {
  static const std::vector<Limit> all = {
      fixed_window(9).per(7s),
      fixed_window(9).per(7s).aligned_to_clock(),
      fixed_window(30).per(calendar_day()),
      sliding_window_log(9).per(7s),
      sliding_window_counter(9).per(7s),
      sliding_window_counter(9).per(7s).slices(3).counting_oldest_whole(),
      sliding_window_hybrid(9).per(7s),
      leaky_bucket(9).per(7s),
      leaky_bucket(9).per(7s).queueing(),
      token_bucket(9).per(7s).burst(15),
      token_bucket(9).per(7s).refilled_at_intervals(),
      gcra(9).per(7s),
      concurrency(9).lease(7s),
  };
  return all;
}

// The requests of a random history, the same for each store that it is played to.
class History {
 public:
  explicit History(unsigned seed) : random_(seed) {}

  void step(MemoryStore& a, MemoryStore* b) {
    now_ += Duration{pick(10'000)};
    const Limit& limit = limits()[pick(limits().size() - 1)];
    const std::string key = "user" + std::to_string(pick(4));
    const PermitId permit(PermitId::Bytes{static_cast<std::uint8_t>(1 + pick(50))});
    Charge charge{.key = key, .limit = limit, .cost = pick(3)};
    if (pick(1) == 1) charge.tag = "t";
    if (pick(1) == 1) charge.rule.keyspace = Keyspace::kRules;
    if (pick(2) > 0) charge.block = &*block_;
    charge.permit = holds_permits(limit.algorithm()) ? &permit : nullptr;
    const Action action = pick_action(charge);
    const Decision first = a.apply_one(action, charge, now_);
    if (b == nullptr) return;
    const Decision second = b->apply_one(action, charge, now_);
    ASSERT_EQ(first.outcome, second.outcome) << to_string(limit.algorithm());
    ASSERT_EQ(first.reason, second.reason);
    ASSERT_EQ(first.remaining, second.remaining) << to_string(limit.algorithm());
    ASSERT_EQ(first.retry_after, second.retry_after) << to_string(limit.algorithm());
    ASSERT_EQ(first.reset_after, second.reset_after) << to_string(limit.algorithm());
    ASSERT_EQ(first.delay, second.delay);
  }
  Instant now() const { return now_; }
  std::uint64_t pick(std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(0, most)(random_);
  }

 private:
  Action pick_action(const Charge& charge) {
    const std::uint64_t number = pick(19);
    if (number == 0) return Verb::kReset;
    if (number == 1) return Verb::kPeek;
    if (number == 2) return Verb::kRefund;
    if (number == 3 && charge.permit != nullptr) return Verb::kRelease;
    if (number == 3 && charge.block != nullptr) return {Verb::kBlock, 3s};
    if (number == 4 && charge.permit == nullptr) return {Verb::kReserve, 5s};
    if (number == 5 && charge.permit == nullptr) return Verb::kCharge;
    return Verb::kTake;
  }

  std::mt19937 random_;
  Instant now_ = kStart;
  std::optional<Block> block_ =
      *Block::make({.after = 2, .within = 5s, .time = 2s, .growth = 200, .at_most = 9s});
};

TEST_F(Snapshot, DecidesAsIfTheStoreHadContinued) {
  for (const std::size_t shards : {1, 2, 16}) {
    MemoryStore before({.shards = 4});
    History history(static_cast<unsigned>(shards));
    for (int i = 0; i < 5'000; ++i) history.step(before, nullptr);
    const auto saved = before.save(path_, history.now());
    ASSERT_TRUE(saved) << saved.error();
    MemoryStore after({.shards = shards});
    const auto loaded = after.load(path_, history.now());
    ASSERT_TRUE(loaded) << loaded.error();
    EXPECT_EQ(loaded->counters, saved->counters);
    EXPECT_EQ(loaded->blocks, saved->blocks);
    EXPECT_EQ(loaded->bytes, saved->bytes);
    EXPECT_EQ(loaded->bytes, std::filesystem::file_size(path_));
    EXPECT_EQ(loaded->dropped, 0u);
    EXPECT_EQ(loaded->saved, history.now());
    EXPECT_EQ(after.stats().keys, loaded->counters);
    EXPECT_GT(loaded->counters, 100u);
    EXPECT_GT(loaded->blocks, 20u);
    EXPECT_EQ(after.blocked(1000, history.now()).size(),
              before.blocked(1000, history.now()).size());
    for (int i = 0; i < 20'000 && !HasFatalFailure(); ++i) history.step(before, &after);
  }
}

TEST_F(Snapshot, ContainsTablesOfManySizesWhileTheyGrow) {
  const Limit limit = token_bucket(10).per(1h);
  MemoryStore store({.shards = 2});
  std::size_t keys = 0;
  for (const std::size_t next : {1, 60, 3'000, 4'000, 4'100, 4'300, 30'000, 34'000, 40'000}) {
    for (; keys < next; ++keys) store.apply_one(Verb::kTake, {std::to_string(keys), limit}, kStart);
    ASSERT_TRUE(store.save(path_, kStart));
    MemoryStore loaded;
    ASSERT_TRUE(loaded.load(path_, kStart));
    EXPECT_EQ(loaded.stats().keys, keys);
    for (std::size_t i = 0; i < keys; ++i) {
      ASSERT_EQ(loaded.apply_one(Verb::kPeek, {std::to_string(i), limit, 0}, kStart).remaining, 9u);
    }
  }
}

TEST_F(Snapshot, LeavesOutWhatIsUntouched) {
  MemoryStore store;
  store.apply_one(Verb::kTake, {"short", token_bucket(10).per(1s)}, kStart);
  store.apply_one(Verb::kTake, {"long", token_bucket(1).per(1h)}, kStart);
  EXPECT_EQ(store.save(path_, kStart + 10s)->counters, 1u);
  ASSERT_TRUE(store.save(path_, kStart));
  MemoryStore loaded;
  EXPECT_EQ(loaded.load(path_, kStart + 10s)->dropped, 0u);
  EXPECT_EQ(loaded.stats().keys, 1u);
  EXPECT_FALSE(loaded.apply_one(Verb::kTake, {"long", token_bucket(1).per(1h)}, kStart + 10s));
}

TEST_F(Snapshot, KeepsWhatIsConsumedWhenTheNumbersOfALimitChange) {
  MemoryStore store;
  store.apply_one(Verb::kTake, {"k", fixed_window(10).per(1h), 7}, kStart);
  ASSERT_TRUE(store.save(path_, kStart));
  MemoryStore loaded;
  ASSERT_TRUE(loaded.load(path_, kStart));
  EXPECT_EQ(loaded.apply_one(Verb::kPeek, {"k", fixed_window(20).per(1h), 0}, kStart).remaining,
            13u);
  EXPECT_EQ(loaded.apply_one(Verb::kPeek, {"k", token_bucket(20).per(1h), 0}, kStart).remaining,
            20u);
}

TEST_F(Snapshot, KeepsWhatFitsIntoASmallerStore) {
  MemoryStore store;
  for (int i = 0; i < 1'000; ++i) {
    const std::string key = std::to_string(i);
    store.apply_one(Verb::kTake, {key, sliding_window_log(10).per(1h)}, kStart);
    store.apply_one(Verb::kTake, {key, token_bucket(10).per(1h)}, kStart);
  }
  ASSERT_TRUE(store.save(path_, kStart));
  MemoryStore few({.max_keys = 128});
  const auto loaded = few.load(path_, kStart);
  ASSERT_TRUE(loaded) << loaded.error();
  EXPECT_EQ(loaded->counters, 2'000u);
  EXPECT_EQ(few.stats().keys, 128u);
  EXPECT_EQ(loaded->dropped, 2'000u - 128u);
  MemoryStore brief({.max_log_bytes = 4096});
  const auto logs = brief.load(path_, kStart);
  ASSERT_TRUE(logs) << logs.error();
  EXPECT_GE(brief.stats().keys, 1'000u);
  EXPECT_LT(brief.stats().keys, 1'100u);
  EXPECT_EQ(logs->dropped, 2'000u - brief.stats().keys);
  EXPECT_LE(brief.stats().log_bytes, 4096u);
}

TEST_F(Snapshot, KeepsWhichBlocksAreByHandAndOfWhichLimit) {
  const MemoryStoreOptions small{.max_keys = 128, .max_log_bytes = 64 << 10, .shards = 1};
  const Block block = *Block::make({.after = 1, .within = 10min, .time = 1h});
  const auto of = [&](const std::string& key, std::uint32_t limit) {
    return Charge{
        .key = key, .limit = fixed_window(1).per(1h), .block = &block, .rule = {.limit_id = limit}};
  };
  MemoryStore before(small);
  before.apply_one({Verb::kBlock, 1h}, of("by hand", 1), kStart);
  for (int i = 0; i < 2; ++i) before.apply_one(Verb::kTake, of("guesser", 2), kStart);
  for (int i = 0; i < 40; ++i) before.apply_one(Verb::kTake, of(std::to_string(i % 20), 3), kStart);
  ASSERT_TRUE(before.save(path_, kStart));
  MemoryStore after(small);
  ASSERT_TRUE(after.load(path_, kStart));
  EXPECT_EQ(after.stats().blocks, 22u);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = "flood" + std::to_string(i);
    for (int j = 0; j < 2; ++j) after.apply_one(Verb::kTake, of(key, 3), kStart);
  }
  EXPECT_GT(after.stats().freed_keys, 0u);
  EXPECT_EQ(after.apply_one(Verb::kPeek, of("by hand", 1), kStart).reason, Reason::kBlocked);
  EXPECT_EQ(after.apply_one(Verb::kPeek, of("guesser", 2), kStart).reason, Reason::kBlocked);
}

TEST_F(Snapshot, IsReadableByThisUserOnlyAndReplacedAtOnce) {
  MemoryStore store;
  write_all(path_, "an earlier file");
  write_all(path_ + ".tmp", "of a process that was killed");
  const mode_t before = ::umask(0);
  ASSERT_TRUE(store.save(path_));
  ::umask(before);
  struct stat status{};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
  EXPECT_TRUE(MemoryStore().load(path_));
}

// No counter counts at such a time, and load() would refuse the file.
TEST_F(Snapshot, IsKeptIfTheClockIsOutOfRange) {
  MemoryStore store;
  static_cast<void>(Limiter(store).try_acquire("a", limits().front(), 1, kStart));
  ASSERT_TRUE(store.save(path_, kStart));
  for (const Instant at : {kFirstInstant - 1us, kLastInstant + 1us}) {
    const auto saved = store.save(path_, at);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error(), "the time is out of range; expected 1970 to 2112");
  }
  const auto loaded = MemoryStore().load(path_, kStart);
  ASSERT_TRUE(loaded) << loaded.error();
  EXPECT_EQ(loaded->counters, 1);
}

TEST_F(Snapshot, SaysWhyItCannotBeWrittenOrRead) {
  const MemoryStore store;
  const std::string missing = folder_ / "no" / "file";
  EXPECT_EQ(store.save(missing).error(),
            "cannot create " + missing + ".tmp: No such file or directory");
  std::filesystem::create_directory(path_);
  EXPECT_EQ(store.save(path_).error(), "cannot rename " + path_ + ".tmp: Is a directory");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
  EXPECT_EQ(MemoryStore().load(missing).error(),
            missing + ": cannot open it: No such file or directory");
  write_all(path_ + "2", "key,value\n");
  EXPECT_EQ(MemoryStore().load(path_ + "2").error(),
            path_ + "2: at byte 0: it is not a snapshot; expected a file that Sluice has written");
}

class DamagedSnapshot : public Snapshot {
 protected:
  DamagedSnapshot() {
    MemoryStore store;
    const Block block = *Block::make({.after = 1, .within = 5s, .time = 1h});
    const PermitId permit(PermitId::Bytes{7});
    for (const Limit& limit :
         std::initializer_list<Limit>{fixed_window(1).per(1h), sliding_window_log(1).per(1h),
                                      sliding_window_counter(1).per(1h),
                                      sliding_window_hybrid(1).per(1h), concurrency(1).lease(1h)}) {
      const Charge charge{.key = "k",
                          .limit = limit,
                          .permit = holds_permits(limit.algorithm()) ? &permit : nullptr,
                          .block = &block};
      store.apply_one(Verb::kTake, charge, kStart);
      store.apply_one(Verb::kTake, charge, kStart + 1s);
    }
    EXPECT_TRUE(store.save(path_, kStart + 1s));
    whole_ = read_all(path_);
    kept_.apply_one(Verb::kTake, {"kept", kLimit}, kStart);
  }

  // Returns the error, if there is one, and checks that the store is unchanged then.
  std::string load(std::string_view bytes) {
    write_all(path_, bytes);
    const auto loaded = kept_.load(path_, kStart);
    if (loaded) return {};
    EXPECT_EQ(kept_.apply_one(Verb::kPeek, {"kept", kLimit, 0}, kStart).remaining, 4u);
    EXPECT_EQ(kept_.stats().keys, 1u);
    return loaded.error();
  }

  static constexpr Limit kLimit = token_bucket(5).per(1h);
  std::string whole_;
  MemoryStore kept_{{.max_keys = 128}};
};

TEST_F(DamagedSnapshot, IsRefusedWhicheverBitIsWrong) {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    std::string bytes = whole_;
    bytes[i] = static_cast<char>(bytes[i] ^ 1 << i % 8);
    ASSERT_NE(load(bytes), "") << i;
  }
  EXPECT_EQ(load(whole_), "");
}

TEST_F(DamagedSnapshot, IsRefusedWhereverItEnds) {
  for (std::size_t size = 0; size < whole_.size(); ++size) {
    ASSERT_NE(load(whole_.substr(0, size)), "") << size;
  }
  EXPECT_EQ(load(whole_ + "x"), path_ + ": at byte 16: there is more after the last record");
}

// Returns a snapshot of one frame with another number, and with the checksum that is right then.
std::string with_number(std::string file, std::size_t offset, std::uint32_t number) {
  constexpr std::size_t kFrame = 32, kChecksum = 24;
  std::memcpy(&file[offset], &number, sizeof(number));
  const std::uint64_t sum = XXH3_64bits_withSeed(&file[kFrame], file.size() - kFrame, 0);
  std::memcpy(&file[kChecksum], &sum, sizeof(sum));
  return file;
}

TEST_F(DamagedSnapshot, IsRefusedIfItsNumbersContradictEachOther) {
  MemoryStore store;
  store.apply_one(Verb::kTake, {"k", token_bucket(1).per(1h)}, kStart);
  ASSERT_TRUE(store.save(path_, kStart));
  const std::string whole = read_all(path_);
  constexpr std::size_t kLimitAt = 32 + 24 + 384, kCounterAt = kLimitAt + 24 + 72;
  const std::string where = path_ + ": at byte 16: ";
  EXPECT_EQ(load(with_number(whole, kCounterAt + 4, 100'000)),
            where + "a counter is untouched before its last change");
  EXPECT_EQ(load(with_number(whole, kCounterAt + 4, 0)), where + "a counter is wrong");
  EXPECT_EQ(load(with_number(whole, kCounterAt, 77)), where + "a record has an unknown kind");
  EXPECT_EQ(load(with_number(whole, kCounterAt, 3 | 5 << 16)),
            where + "a counter has an unknown limit");
  EXPECT_EQ(load(with_number(whole, kCounterAt + 24 + 12, 0xFFFFFFFF)),
            where + "the state of a counter is wrong");
  EXPECT_EQ(load(with_number(whole, kLimitAt + 24 + 64, 99)), where + "an algorithm is unknown");
  EXPECT_EQ(load(with_number(whole, kLimitAt + 24 + 12, 0xFFFF)).substr(0, where.size() + 19),
            where + "a limit is wrong: p");
}

TEST_F(DamagedSnapshot, SaysWhereItIsDamaged) {
  std::string bytes = whole_;
  bytes[500] ^= 1;
  EXPECT_EQ(load(bytes), path_ + ": at byte 16: the checksum of frame 0 is wrong");
  EXPECT_EQ(load(whole_.substr(0, 500)), path_ + ": at byte 16: the file ends too early");
  bytes = whole_;
  bytes[8] = 9;
  EXPECT_EQ(load(bytes), path_ + ": at byte 0: the format has version 9; expected 1");
}

}  // namespace
}  // namespace sluice
