#include "server/storage/stores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/logging/test_pipe.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

constexpr Limit kLimit = token_bucket(10).per(24h);

class CounterSnapshotsTest : public ::testing::Test {
 protected:
  CounterSnapshotsTest() {
    std::string made = ::testing::TempDir() + "/snapshots-XXXXXX";
    if (::mkdtemp(made.data()) == nullptr) std::abort();
    folder_ = made;
    path_ = made + "/counters";
  }
  ~CounterSnapshotsTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<CounterSnapshots> open(MemoryStore& store,
                                         std::chrono::milliseconds interval = 0ms) {
    auto made = CounterSnapshots::open(store, path_, interval, log_);
    EXPECT_TRUE(made) << made.error();
    return std::move(*made);
  }
  static std::uint64_t left(MemoryStore& store) {
    return store.apply_one(Verb::kPeek, {"k", kLimit, 0}, {}).remaining;
  }
  void write_file(const std::string& text) { std::ofstream(path_) << text; }

  std::filesystem::path folder_;
  std::string path_;
  TestingPipe pipe_;
  Log log_{LogOptions{}, pipe_.writing()};
};

TEST_F(CounterSnapshotsTest, ContinueTheCountersInTheNextProcess) {
  MemoryStore first;
  const auto before = open(first);
  before->read();
  before->start();
  first.apply_one(Verb::kTake, {"k", kLimit, 3}, {});
  before->stop();
  before->write_last();
  EXPECT_EQ(before->stats().last.counters, 1u);
  EXPECT_EQ(before->stats().last.bytes, std::filesystem::file_size(path_));
  MemoryStore second;
  const auto after = open(second);
  after->read();
  EXPECT_EQ(left(second), 7u);
  EXPECT_EQ(after->stats().failures, 0u);
}

TEST_F(CounterSnapshotsTest, WarnIfTheClockIsBehindThem) {
  MemoryStore store;
  TestingPipe pipe;
  {
    Log log(LogOptions{}, pipe.writing());
    for (const auto ahead : {0h, 48h}) {
      ASSERT_TRUE(store.save(path_, SystemClock().now() + ahead));
      CounterSnapshots::open(store, path_, 0ms, log).value()->read();
    }
  }
  std::size_t warnings = 0;
  for (const std::string& line : pipe.lines()) {
    warnings += line.find("the clock is behind the snapshot") == line.npos ? 0 : 1;
  }
  EXPECT_EQ(warnings, 1u);
}

TEST_F(CounterSnapshotsTest, AreWrittenAtIntervals) {
  MemoryStore store;
  store.apply_one(Verb::kTake, {"k", kLimit, 3}, {});
  const auto snapshots = open(store, 1ms);
  snapshots->start();
  testing::wait_until("a snapshot is written",
                      [&] { return snapshots->stats().last.counters > 0; });
  MemoryStore other;
  ASSERT_TRUE(other.load(path_));
  EXPECT_EQ(left(other), 7u);
}

TEST_F(CounterSnapshotsTest, KeepADamagedFileAside) {
  write_file("something else");
  MemoryStore store;
  const auto snapshots = open(store);
  snapshots->read();
  EXPECT_EQ(store.stats().keys, 0u);
  EXPECT_EQ(snapshots->stats().failures, 1u);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::string kept;
  std::ifstream file(path_ + ".damaged");
  std::getline(file, kept);
  EXPECT_EQ(kept, "something else");
}

TEST_F(CounterSnapshotsTest, RefuseAPathThatCannotBeAFile) {
  MemoryStore store;
  EXPECT_EQ(CounterSnapshots::open(store, folder_, 0ms, log_).error(),
            "memory.snapshot: " + folder_.string() +
                " is not a regular file; expected a file that Sluice may replace");
  const std::string missing = folder_ / "no" / "counters";
  EXPECT_EQ(CounterSnapshots::open(store, missing, 0ms, log_).error(),
            "memory.snapshot: cannot write in " + (folder_ / "no").string() +
                ": No such file or directory; expected a folder in which this user may create "
                "files");
}

TEST_F(CounterSnapshotsTest, RefuseAFileThatAnotherServerUses) {
  MemoryStore first, second;
  auto before = open(first);
  EXPECT_TRUE(before->lock());
  const auto after = open(second);
  const auto refused = after->lock();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(),
            "memory.snapshot: another server uses " + path_ +
                "; expected a file for each server, or drain.handover to replace that server");
  EXPECT_EQ(after->lock_descriptor(), -1);
  before.reset();
  EXPECT_TRUE(after->lock());
}

TEST_F(CounterSnapshotsTest, ShareTheirLockWithASuccessor) {
  MemoryStore first, second, third;
  auto before = open(first);
  ASSERT_TRUE(before->lock());
  const auto after = open(second);
  std::vector<net::FileDescriptor> inherited;
  inherited.emplace_back(::dup(before->lock_descriptor()));
  EXPECT_TRUE(after->lock(std::move(inherited)));
  before.reset();
  EXPECT_FALSE(open(third)->lock());
}

TEST_F(CounterSnapshotsTest, SayThatTheLastOneFailedEvenIfThatIsNotNew) {
  MemoryStore store;
  TestingPipe pipe;
  {
    Log log(LogOptions{}, pipe.writing());
    auto snapshots = CounterSnapshots::open(store, path_, 1ms, log).value();
    std::filesystem::create_directory(path_ + ".tmp");
    snapshots->start();
    testing::wait_until("writing fails twice", [&] { return snapshots->stats().failures > 1; });
    snapshots->stop();
    EXPECT_FALSE(snapshots->write_last());
  }
  EXPECT_EQ(pipe.lines().size(), 2U) << "for the first and for the last failure";
}

TEST_F(CounterSnapshotsTest, CountEachFailureAndTryAgain) {
  MemoryStore store;
  const auto snapshots = open(store, 1ms);
  std::filesystem::create_directory(path_ + ".tmp");
  snapshots->start();
  testing::wait_until("writing fails twice", [&] { return snapshots->stats().failures >= 2; });
  std::filesystem::remove(path_ + ".tmp");
  testing::wait_until("a snapshot is written", [&] { return snapshots->stats().last.bytes > 0; });
}

TEST_F(CounterSnapshotsTest, ReportThemselves) {
  MemoryStore store;
  store.apply_one(Verb::kTake, {"k", kLimit}, {});
  const auto snapshots = open(store);
  metrics::Registry registry;
  snapshots->add_metrics(registry);
  EXPECT_NE(registry.text().find("\nsluice_snapshot_timestamp_seconds 0\n"), std::string::npos);
  snapshots->write_last();
  const std::string text = registry.text();
  EXPECT_NE(text.find("\nsluice_snapshot_counters 1\n"), std::string::npos);
  EXPECT_NE(text.find("\nsluice_snapshot_failures_total 0\n"), std::string::npos);
}

}  // namespace
}  // namespace sluice::server
