#include "server/logging/traffic_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "server/logging/test_pipe.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

class TrafficLogTest : public ::testing::Test {
 protected:
  TrafficLogTest() {
    std::string path = (std::filesystem::temp_directory_path() / "traffic-XXXXXX").string();
    folder_ = mkdtemp(path.data());
    options_.file = (folder_ / "traffic.jsonl").string();
  }
  ~TrafficLogTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<TrafficLog> open() { return TrafficLog::open(options_, *log_).value(); }
  std::string content(const std::string& suffix = "") const {
    std::ifstream file(options_.file + suffix);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::uint64_t size(const std::string& suffix = "") const {
    std::error_code none;
    const auto size = std::filesystem::file_size(options_.file + suffix, none);
    return none ? 0 : size;
  }
  // Returns everything that was logged.
  std::string logged() {
    log_.reset();
    std::string all;
    for (const std::string& line : pipe_.lines()) all += line + '\n';
    return all;
  }
  // Waits until the writer has dealt with that many lines.
  static void wait_for(const TrafficLog& traffic, std::uint64_t lines) {
    testing::wait_until("the lines are written or dropped", [&] {
      const auto stats = traffic.stats();
      return stats.lines + stats.dropped >= lines;
    });
  }

  std::filesystem::path folder_;
  TestingPipe pipe_;
  std::unique_ptr<Log> log_ = std::make_unique<Log>(LogOptions{}, pipe_.writing());
  TrafficOptions options_;
};

TEST_F(TrafficLogTest, WritesTheLinesOfAllLanesToAFileOfTheOwner) {
  {
    const auto traffic = open();
    traffic->make_lane().write("{\"a\":1}\n");
    traffic->make_lane().write("{\"b\":2}\n");
    wait_for(*traffic, 2);
    EXPECT_EQ(traffic->stats().lines, 2u);
    EXPECT_EQ(traffic->stats().bytes, 16u);
  }
  EXPECT_EQ(content(), "{\"a\":1}\n{\"b\":2}\n");
  struct stat found{};
  ASSERT_EQ(stat(options_.file.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(logged(), "");
}

TEST_F(TrafficLogTest, AppendsToAFileAndWarnsIfOthersCanReadIt) {
  std::ofstream(options_.file) << "old\n";
  chmod(options_.file.c_str(), 0644);
  open()->make_lane().write("new\n");
  EXPECT_EQ(content(), "old\nnew\n");
  EXPECT_NE(logged().find("other users may read"), std::string::npos);
}

TEST_F(TrafficLogTest, KeepsOneFullFileAndStaysInItsBound) {
  options_.max_bytes = std::uint64_t{16} << 20;
  const std::string line = std::string((std::size_t{1} << 20) - 1, 'x') + '\n';
  const auto traffic = open();
  TrafficLane& lane = traffic->make_lane();
  for (std::uint64_t i = 1; i <= 40; ++i) {
    lane.write(line);
    wait_for(*traffic, i);
    ASSERT_LE(size() + size(".1"), options_.max_bytes);
  }
  EXPECT_EQ(traffic->stats().lines, 40u);
  EXPECT_EQ(traffic->stats().rotations, 4u);
  EXPECT_EQ(size(), options_.max_bytes / 2);
  EXPECT_EQ(size(".1"), options_.max_bytes / 2);
  EXPECT_NE(logged().find("is full; a new one begins"), std::string::npos);
}

TEST_F(TrafficLogTest, BeginsAFileIfTheOldOneWasRenamed) {
  const auto traffic = open();
  TrafficLane& lane = traffic->make_lane();
  lane.write("first\n");
  wait_for(*traffic, 1);
  std::filesystem::rename(options_.file, options_.file + ".old");
  lane.write("second\n");
  wait_for(*traffic, 2);
  EXPECT_EQ(content(".old"), "first\n");
  EXPECT_EQ(content(), "second\n");
}

TEST_F(TrafficLogTest, DropsAndCountsWhatTheRingCannotHold) {
  TrafficLane lane;
  const std::string line(TrafficLane::kBytes / 4 - 1, 'x');
  for (int i = 0; i < 6; ++i) lane.write(line + '\n');
  EXPECT_EQ(lane.dropped(), 2u);
  EXPECT_EQ(lane.waiting()[0].size() + lane.waiting()[1].size(), TrafficLane::kBytes);
}

TEST_F(TrafficLogTest, RingGivesLinesBackInOrderAcrossItsEnd) {
  TrafficLane lane;
  std::string written, read;
  for (int i = 0; i < 3000; ++i) {
    const std::string line = std::to_string(i) + std::string(2500, 'y') + '\n';
    lane.write(line);
    written += line;
    if (i % 700 != 0) continue;
    for (const auto piece : lane.waiting()) read += piece;
    lane.release(lane.waiting()[0].size() + lane.waiting()[1].size());
  }
  for (const auto piece : lane.waiting()) read += piece;
  EXPECT_EQ(lane.dropped(), 0u);
  EXPECT_TRUE(read == written);
}

TEST_F(TrafficLogTest, ReportsAFullDiskOnceAndKeepsWholeLines) {
  const auto traffic = open();
  TrafficLane& lane = traffic->make_lane();
  lane.write("before\n");
  wait_for(*traffic, 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  lane.write("does not fit\n");
  wait_for(*traffic, 2);
  lane.write("neither does this\n");
  wait_for(*traffic, 3);
  EXPECT_EQ(content(), "before\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  lane.write("after\n");
  wait_for(*traffic, 4);
  EXPECT_EQ(content(), "before\nafter\n");
  EXPECT_EQ(traffic->stats().lines, 2u);
  EXPECT_EQ(traffic->stats().dropped, 2u);
  const std::string all = logged();
  const auto first = all.find("requests are not recorded");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(all.find("requests are not recorded", first + 1), std::string::npos);
  EXPECT_NE(all.find("recorded again lost=2"), std::string::npos) << all;
}

TEST_F(TrafficLogTest, RefusesWhatIsNoFileThatItCanWrite) {
  options_.file = (folder_ / "none" / "file").string();
  EXPECT_NE(TrafficLog::open(options_, *log_).error().find("No such file"), std::string::npos);
  options_.file = "/dev/null";
  EXPECT_NE(TrafficLog::open(options_, *log_).error().find("not a regular file"),
            std::string::npos);
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  options_.file = fifo;
  EXPECT_FALSE(TrafficLog::open(options_, *log_));
}

}  // namespace
}  // namespace sluice::server
