#include "server/logging/ledger_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>

#include "server/logging/test_pipe.h"
#include "tests/support/wait_until.h"

namespace {

// What the next calls of fdatasync() do.
enum class Disk { kWorks, kFails, kWaits };
std::atomic<Disk> disk = Disk::kWorks;
std::atomic<int> waiting = 0;
std::atomic<int> stored = 0;

}  // namespace

// Replaces that of the system in this program.
extern "C" int fdatasync(int descriptor) {
  if (Disk fails = Disk::kFails; disk.compare_exchange_strong(fails, Disk::kWorks)) {
    errno = EIO;
    return -1;
  }
  if (disk == Disk::kWaits) {
    ++waiting;
    disk.wait(Disk::kWaits);
  }
  const auto result = static_cast<int>(syscall(SYS_fdatasync, descriptor));
  ++stored;
  return result;
}

namespace sluice::server {
namespace {

class LedgerFileTest : public ::testing::Test {
 protected:
  LedgerFileTest() {
    std::string path = (std::filesystem::temp_directory_path() / "ledger-XXXXXX").string();
    folder_ = mkdtemp(path.data());
    options_ = {.file = (folder_ / "ledger.jsonl").string(), .flush = std::chrono::milliseconds{5}};
  }
  ~LedgerFileTest() override {
    empty_disk();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<LedgerFile> started(std::optional<Instant> restored = {}) {
    auto ledger = std::make_unique<LedgerFile>(options_, *log_);
    const Status opened = ledger->open(false);
    EXPECT_TRUE(opened) << opened.error();
    ledger->start(restored);
    return ledger;
  }
  // Why it cannot be opened.
  std::string refusal() {
    LedgerFile ledger(options_, *log_);
    const Status opened = ledger.open(false);
    return opened ? "" : opened.error();
  }
  static void take(LedgerFile& ledger, std::string_view key = "k") {
    ledger.add({.kind = LedgerKind::kTake,
                .key = key,
                .at = Instant{std::chrono::seconds{100}},
                .limit = 10,
                .spent = 1,
                .spent_after = 1});
  }
  static void wait_for(const LedgerFile& ledger, std::uint64_t entries) {
    testing::wait_until("the entries are written",
                        [&] { return ledger.stats().entries >= entries; });
  }
  std::string content(const std::string& suffix = "") const {
    std::ostringstream text;
    text << std::ifstream(options_.file + suffix).rdbuf();
    return std::move(text).str();
  }
  // The numbers and the kinds of the lines.
  std::string lines(const std::string& suffix = "") const {
    std::string out;
    std::ifstream file(options_.file + suffix);
    for (std::string text; std::getline(file, text);) {
      const auto line = parse_ledger_line(text);
      out += line ? std::to_string(line->n) + " " + line->kind : line.error();
      if (line && line->rotated) out += " rotated";
      if (line && line->lost > 0) out += " " + std::to_string(line->lost);
      out += "\n";
    }
    return out;
  }
  // A full disk: the limit of the size of a file has the same effect.
  void fill_disk() {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{content().size() + 20, file_size_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  }
  void empty_disk() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &file_size_), 0); }
  // Returns everything that was logged.
  std::string logged() {
    log_.reset();
    std::string all;
    for (const std::string& line : pipe_.lines()) all += line + '\n';
    return all;
  }

  std::filesystem::path folder_;
  TestingPipe pipe_;
  std::unique_ptr<Log> log_ = std::make_unique<Log>(LogOptions{}, pipe_.writing());
  LedgerOptions options_;
  const rlimit file_size_ = [] {
    rlimit limit{};
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    return limit;
  }();
};

TEST_F(LedgerFileTest, HasTheEntriesBetweenAStartAndAStop) {
  auto ledger = started();
  take(*ledger, "a\"\n");
  take(*ledger);
  ledger.reset();
  EXPECT_EQ(lines(), "1 start\n2 take\n3 take\n4 stop\n");
  EXPECT_NE(content().find(R"("kind":"take","key":"a\"\u000A","spent":1,"spent_after":1)"),
            std::string::npos)
      << content();
  struct stat now{};
  ASSERT_EQ(::stat(options_.file.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777, 0600u);
  started(Instant{std::chrono::seconds{7}}).reset();
  EXPECT_EQ(lines(), "1 start\n2 take\n3 take\n4 stop\n5 start\n6 stop\n");
  EXPECT_NE(content().find(R"("restored":"1970-01-01T00:00:07.000000Z")"), std::string::npos);
  EXPECT_EQ(logged(), "");
}

// What a server leaves that is killed.
TEST_F(LedgerFileTest, GoesOnAfterAnUnfinishedLine) {
  auto ledger = started();
  take(*ledger);
  ledger.reset();
  const std::string before = content();
  const std::size_t stop = before.rfind("{\"n\":3");
  for (std::size_t size = 0; size < before.size(); size += 5) {
    std::ofstream(options_.file, std::ios::trunc) << before.substr(0, size);
    const std::size_t whole = before.rfind('\n', size == 0 ? 0 : size - 1);
    const std::size_t kept = size == 0 || whole == before.npos ? 0 : whole + 1;
    const std::string cut = before.substr(kept, size - kept);
    started().reset();
    const std::string after = content();
    ASSERT_TRUE(after.starts_with(before.substr(0, kept))) << size;
    const auto next = parse_ledger_line(after.substr(kept, after.find('\n', kept) - kept));
    ASSERT_TRUE(next) << next.error();
    EXPECT_EQ(next->kind, "start");
    EXPECT_EQ(next->cut, cut);
    EXPECT_EQ(next->n, kept == 0 ? 1u : kept == stop ? 3u : 2u);
  }
  const std::string log = logged();
  EXPECT_NE(log.find("the ledger does not say that its server has stopped"), std::string::npos);
  EXPECT_NE(log.find("the last line of the ledger was not finished"), std::string::npos);
}

TEST_F(LedgerFileTest, IsNoOtherFile) {
  std::ofstream(options_.file) << "{\"time\":1}\n";
  EXPECT_EQ(refusal(), "ledger: cannot write the ledger " + options_.file +
                           ": its last line is not of a ledger; expected a new file, or a ledger");
  EXPECT_EQ(content(), "{\"time\":1}\n");
  options_.file = folder_.string();
  EXPECT_NE(refusal().find("Is a directory"), std::string::npos);
  options_.file = (folder_ / "none" / "ledger.jsonl").string();
  EXPECT_NE(refusal().find("No such file"), std::string::npos);
}

TEST_F(LedgerFileTest, WritesNothingIntoAnotherFileThatTakesItsName) {
  auto ledger = started();
  take(*ledger);
  wait_for(*ledger, 1);
  const std::string other = "{\"time\":1}\n";
  std::ofstream(options_.file + ".other") << other;
  std::filesystem::rename(options_.file + ".other", options_.file);
  testing::wait_until("the file is refused", [&] { return ledger->stats().errors > 0; });
  take(*ledger);
  testing::wait_until("it is refused again",
                      [&] { return ledger->stats().errors > 1 || ledger->stats().entries > 1; });
  std::filesystem::rename(options_.file, options_.file + ".other");
  wait_for(*ledger, 2);
  ledger.reset();
  EXPECT_EQ(content(".other"), other);
  EXPECT_EQ(lines(), "4 start rotated\n5 take\n6 stop\n");
}

TEST_F(LedgerFileTest, ASuccessorWritesNothingIntoAnotherFile) {
  const std::string other = "{\"time\":1}\n";
  std::ofstream(options_.file) << other;
  const int predecessor = ::open(options_.file.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(predecessor, LOCK_EX), 0);
  LedgerFile successor(options_, *log_);
  ASSERT_TRUE(successor.open(true));
  successor.start({});
  take(successor);
  ::close(predecessor);
  testing::wait_until("the file is refused twice", [&] {
    return successor.stats().errors > 1 || successor.stats().entries > 0;
  });
  EXPECT_FALSE(successor.stop({}));
  EXPECT_EQ(content(), other);
  EXPECT_EQ(successor.stats().lost, 1u);
  const std::string log = logged();
  EXPECT_TRUE(std::regex_search(
      log, std::regex("could not be written to its end.*its last line is not of a ledger.*"
                      "entries=1")))
      << log;
}

TEST_F(LedgerFileTest, IsWrittenByOneServerAtATime) {
  auto first = started();
  take(*first);
  wait_for(*first, 1);
  EXPECT_NE(refusal().find("another server writes the ledger"), std::string::npos);
  LedgerFile successor(options_, *log_);
  ASSERT_TRUE(successor.open(true));
  successor.start({});
  take(successor);
  EXPECT_EQ(successor.stats().entries, 0u);
  take(*first);
  first.reset();
  wait_for(successor, 1);
  EXPECT_TRUE(successor.stop({}));
  EXPECT_EQ(lines(), "1 start\n2 take\n3 take\n4 stop\n5 start\n6 take\n7 stop\n");
}

TEST_F(LedgerFileTest, APredecessorFirstBeginsANewFileIfItIsRenamed) {
  options_.flush = std::chrono::hours{1};
  auto first = started();
  testing::wait_until("the first file begins", [&] { return content().ends_with('\n'); });
  take(*first);
  std::filesystem::rename(options_.file, options_.file + ".1");
  std::array<int, 2> end{};  // of the process of the predecessor
  ASSERT_EQ(::pipe2(end.data(), O_CLOEXEC), 0);
  options_.flush = std::chrono::milliseconds{5};
  LedgerFile successor(options_, *log_);
  ASSERT_TRUE(successor.open(true));
  successor.start({}, detail::FileDescriptor(end[0]));
  take(successor);
  EXPECT_TRUE(first->stop({}));
  first.reset();
  EXPECT_EQ(successor.stats().entries, 0u);
  ::close(end[1]);
  wait_for(successor, 1);
  EXPECT_TRUE(successor.stop({}));
  EXPECT_EQ(lines(".1"), "1 start\n2 stop rotated\n");
  EXPECT_EQ(lines(), "3 start rotated\n4 take\n5 stop\n6 start\n7 take\n8 stop\n");
}

TEST_F(LedgerFileTest, LosesItsEntriesIfItsPredecessorDoesNotEnd) {
  auto first = started();
  LedgerFile successor(options_, *log_);
  ASSERT_TRUE(successor.open(true));
  successor.start({});
  take(successor);
  EXPECT_FALSE(successor.stop(std::chrono::milliseconds{40}));
  EXPECT_EQ(successor.stats().lost, 1u);
  first.reset();
  EXPECT_EQ(lines(), "1 start\n2 stop\n");
}

TEST_F(LedgerFileTest, BeginsANewFileIfItIsRenamed) {
  auto ledger = started();
  take(*ledger);
  wait_for(*ledger, 1);
  std::filesystem::rename(options_.file, options_.file + ".1");
  testing::wait_until("a new file begins", [&] { return content().ends_with('\n'); });
  take(*ledger);
  ledger.reset();
  EXPECT_EQ(lines(".1"), "1 start\n2 take\n3 stop rotated\n");
  EXPECT_EQ(lines(), "4 start rotated\n5 take\n6 stop\n");
}

TEST_F(LedgerFileTest, KeepsEntriesWhileTheDiskIsFull) {
  auto ledger = started();
  take(*ledger);
  wait_for(*ledger, 1);
  fill_disk();
  take(*ledger, "waits");
  testing::wait_until("a write fails", [&] { return ledger->stats().errors > 0; });
  EXPECT_EQ(lines(), "1 start\n2 take\n");
  std::uint64_t added = 1;
  const std::string key(4000, 'k');
  for (; ledger->stats().lost == 0; ++added) take(*ledger, key);
  take(*ledger);
  ++added;
  const std::uint64_t lost = ledger->stats().lost;
  EXPECT_EQ(lost, 2u);
  empty_disk();
  wait_for(*ledger, 1 + added - lost);
  testing::wait_until("the gap is written", [&] {
    take(*ledger, "after");
    return content().find("\"after\"") != std::string::npos;
  });
  ledger.reset();
  const std::string all = lines();
  EXPECT_NE(all.find(std::to_string(2 + added - lost + 1) + " gap 2\n"), std::string::npos);
  EXPECT_EQ(all.find("expected"), std::string::npos);
  const std::string log = logged();
  EXPECT_NE(log.find("the ledger cannot be written; its entries wait in memory"),
            std::string::npos);
  EXPECT_NE(log.find("the ledger is written again"), std::string::npos);
}

TEST_F(LedgerFileTest, SaysHowManyEntriesAreLostIfTheDiskIsFullAtTheEnd) {
  auto ledger = started();
  take(*ledger);
  wait_for(*ledger, 1);
  fill_disk();
  for (int i = 0; i < 3; ++i) take(*ledger);
  EXPECT_FALSE(ledger->stop({}));
  empty_disk();
  EXPECT_EQ(ledger->stats().lost, 3u);
  const std::string log = logged();
  EXPECT_TRUE(std::regex_search(log, std::regex("could not be written to its end.*"
                                                "why=\"cannot write .*(large|space).* entries=3")))
      << log;
}

TEST_F(LedgerFileTest, SaysThatTheDiskMayLackEntries) {
  stored = 0;
  auto ledger = started();
  testing::wait_until("the line of the start is stored", [] { return stored > 0; });
  disk = Disk::kFails;
  take(*ledger);
  testing::wait_until("the disk fails", [&] { return ledger->stats().errors > 0; });
  EXPECT_EQ(ledger->stats().lost, 1u);
  take(*ledger);
  ledger.reset();
  EXPECT_EQ(lines(), "1 start\n2 take\n3 take\n4 stop\n");
  const std::string log = logged();
  EXPECT_NE(
      log.find("the disk may lack entries of the ledger, because it has failed to store them"),
      std::string::npos)
      << log;
  EXPECT_EQ(log.find("wait in memory"), std::string::npos) << log;
}

TEST_F(LedgerFileTest, SaysThatEntriesAreLostWhileTheDiskIsSlow) {
  auto ledger = started();
  disk = Disk::kWaits;
  take(*ledger);
  testing::wait_until("the disk is slow", [] { return waiting > 0; });
  const std::string key(1 << 20, 'k');
  while (ledger->stats().lost == 0) take(*ledger, key);
  disk = Disk::kWorks;
  disk.notify_all();
  ledger.reset();
  EXPECT_NE(lines().find(" gap 1\n"), std::string::npos);
  const std::string log = logged();
  EXPECT_NE(log.find("entries of the ledger are lost, because it is written too slowly for them"),
            std::string::npos)
      << log;
}

}  // namespace
}  // namespace sluice::server
