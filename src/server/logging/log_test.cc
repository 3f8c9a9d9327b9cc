#include "server/logging/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/logging/test_pipe.h"
#include "sluice/testing/manual_clock.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

// Returns the line without its time.
std::string rest(const std::string& line) { return line.substr(line.find(' ') + 1); }

std::vector<std::string> lines_of(TestingPipe& pipe) {
  auto lines = pipe.lines();
  for (auto& line : lines) line = rest(line);
  return lines;
}

TEST(Log, WritesWhatIsWaitingWhenItEnds) {
  TestingPipe pipe;
  {
    Log log(LogOptions{}, pipe.writing());
    for (int i = 0; i < 500; ++i) log.info("line", {{"n", i}});
    EXPECT_EQ(log.dropped(), 0U);
  }
  const auto lines = lines_of(pipe);
  ASSERT_EQ(lines.size(), 500U);
  EXPECT_EQ(lines.front(), "info line n=0");
  EXPECT_EQ(lines.back(), "info line n=499");
}

TEST(Log, LeavesOutWhatIsBelowItsLevel) {
  TestingPipe pipe;
  {
    Log log({.level = LogLevel::kWarning}, pipe.writing());
    log.write(LogLevel::kDebug, "a");
    log.info("b");
    log.warning("c");
    log.error("d");
  }
  EXPECT_EQ(lines_of(pipe), (std::vector<std::string>{"warning c", "error d"}));
}

TEST(Log, IsSilentWhenItIsOff) {
  TestingPipe pipe;
  {
    Log log({.level = LogLevel::kOff, .access = true}, pipe.writing());
    log.error("a");
    log.write(LogLevel::kOff, "b");
    log.access("GET", "/", 0, "", {}, "");
  }
  EXPECT_TRUE(lines_of(pipe).empty());
}

TEST(Log, WritesJson) {
  TestingPipe pipe;
  {
    Log({.json = true}, pipe.writing()).info("m", {{"k", "v"}});
  }
  const auto lines = pipe.lines();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_TRUE(lines[0].ends_with(R"("level":"info","message":"m","k":"v"})")) << lines[0];
}

TEST(Log, WritesAccessLinesOnlyWhenAsked) {
  const auto write = [](Log&& log) {
    log.access("GET", "/a?b=c", 429, "203.0.113.9", std::chrono::nanoseconds{1999}, "auth");
  };
  TestingPipe without;
  {
    write(Log(LogOptions{}, without.writing()));
  }
  EXPECT_TRUE(lines_of(without).empty());
  TestingPipe with;
  {
    write(Log({.access = true}, with.writing()));
  }
  EXPECT_EQ(lines_of(with),
            (std::vector<std::string>{"info request method=GET target=\"/a?b=c\" status=429 "
                                      "peer=203.0.113.9 duration_us=1 front_end=auth"}));
}

// Logs requests of these targets, and expects that the log shows each as the second text.
void expect_shown(const std::vector<std::pair<std::string, std::string>>& targets) {
  TestingPipe pipe;
  {
    Log log({.access = true}, pipe.writing());
    for (const auto& [target, shown] : targets) {
      log.access("GET", target, 0, "", {}, "");
    }
  }
  const std::vector<std::string> lines = lines_of(pipe);
  ASSERT_EQ(lines.size(), targets.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_NE(lines[i].find("target=\"" + targets[i].second + "\" "), std::string::npos)
        << lines[i];
  }
}

TEST(Log, MasksTokensInTargets) {
  expect_shown(
      {{"/a?token=secret", "/a?token=***"},
       {"/a?b=c&access_TOKEN=secret&token=&d=e=f", "/a?b=c&access_TOKEN=***&token=***&d=e=f"},
       {"/token=a?tokens=b&tokenize=c&token", "/token=a?tokens=b&tokenize=c&token"}});
}

TEST(Log, MasksTokensWhoseNamesAreEncoded) {
  expect_shown({{"/a?%74oken=secret", "/a?%74oken=***"},
                {"/a?b=%74oken&access%5F%54%4fke%6E=secret&c=d",
                 "/a?b=%74oken&access%5F%54%4fke%6E=***&c=d"},
                {"/a?%2574oken=secret", "/a?%2574oken=***"},
                {"/a?%252525252574oken=secret", "/a?%252525252574oken=***"},
                {"/a?%token=secret&toke%6=b&%7=c", "/a?%token=***&toke%6=b&%7=c"}});
}

TEST(Log, CutsLongTargets) {
  TestingPipe pipe;
  {
    Log log({.access = true}, pipe.writing());
    log.access("GET", "/" + std::string(5000, 'a'), 200, "::1", {}, "auth");
  }
  EXPECT_EQ(lines_of(pipe),
            (std::vector<std::string>{"info request method=GET target=/" + std::string(1023, 'a') +
                                      "… status=200 peer=::1 duration_us=0 front_end=auth"}));
}

TEST(Log, WarnsOfRefusedRequestsAFewTimesInAMinute) {
  testing::ManualClock time;
  TestingPipe pipe;
  {
    Log log({}, pipe.writing(), SystemClock::instance(), time);
    const auto refuse = [&] {
      log.refused("GET", "/v1/aut?token=secret", 404, "unknown path", "192.0.2.7");
    };
    for (std::uint32_t i = 0; i < Log::kRefusals + 3; ++i) refuse();
    time.advance(std::chrono::seconds{60} - Duration{1});
    refuse();
    time.advance(Duration{1});
    refuse();
    log.refused("GET", "/", 404, "unknown path", "");
  }
  const std::string line =
      "warning a request was not accepted method=GET target=\"/v1/aut?token=***\" status=404 "
      "detail=\"unknown path\" peer=192.0.2.7";
  std::vector<std::string> expected(Log::kRefusals, line);
  expected.push_back(line + " suppressed=4");
  expected.push_back(
      "warning a request was not accepted method=GET target=/ status=404 detail=\"unknown path\" "
      "peer=unix");
  EXPECT_EQ(lines_of(pipe), expected);
}

TEST(Log, DropsTheOldestAndTellsHowManyWhileItsReaderIsStuck) {
  constexpr std::uint64_t kLines = 5000;
  const testing::ManualClock still;  // the log waits for its reader as long as it takes
  TestingPipe pipe;
  std::string text;
  std::thread reader;
  std::uint64_t dropped = 0;
  {
    Log log(LogOptions{}, pipe.writing(), SystemClock::instance(), still);
    const std::string value(200, 'x');
    for (std::uint64_t i = 0; i < kLines; ++i) log.info("line", {{"n", i}, {"value", value}});
    dropped = log.dropped();
    reader = std::thread([&] {
      for (std::string piece; !(piece = pipe.read_some(65536)).empty();) text += piece;
    });
  }
  pipe.close_writing();
  reader.join();
  std::uint64_t written = 0;
  std::uint64_t told = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto count = line.find(" warning log lines dropped lines=");
    written += count == line.npos ? 1 : 0;
    told += count == line.npos ? 0 : std::stoull(line.substr(line.rfind('=') + 1));
  }
  EXPECT_GT(dropped, kLines / 2);
  EXPECT_EQ(written, kLines - dropped);
  EXPECT_EQ(told, dropped);
  EXPECT_NE(text.find(" info line n=4999 "), text.npos) << "the newest are kept";
}

TEST(Log, WritesTheTimeOfItsClock) {
  TestingPipe pipe;
  testing::ManualClock clock(Instant{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21}} +
                             std::chrono::milliseconds{3'723'456});
  {
    Log log(LogOptions{}, pipe.writing(), clock);
    log.info("a");
  }
  EXPECT_EQ(pipe.lines(), (std::vector<std::string>{"2026-11-21T01:02:03.456Z info a"}));
}

// A clock that moves by one second with each look at it.
class HastyClock final : public Clock {
 public:
  Instant now() const noexcept override { return Instant{std::chrono::seconds{++seconds_}}; }

 private:
  mutable std::atomic<int> seconds_{0};
};

TEST(Log, EndsAlsoIfItsReaderIsStuckForEver) {
  const HastyClock clock;
  TestingPipe pipe;
  Log log(LogOptions{}, pipe.writing(), SystemClock::instance(), clock);
  for (int i = 0; i < 2000; ++i) log.info("line", {{"value", std::string(200, 'x')}});
}

TEST(Log, CountsLinesWhoseReaderWentAway) {
  TestingPipe pipe;
  pipe.close_reading();
  Log log(LogOptions{}, pipe.writing());
  log.info("a");
  testing::wait_until("the line is dropped", [&] { return log.dropped() > 0; });
  EXPECT_EQ(log.dropped(), 1U);
}

// The limit of the size of a file has the effect of a full disk.
TEST(Log, BeginsALineAfterOneThatTheDiskHasCut) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string path = ::testing::TempDir() + "log" + std::to_string(::getpid());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  {
    const testing::ManualClock clock{Instant{}};
    Log log(LogOptions{}, file, clock);
    const rlimit full{40, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
    log.info("first", {{"value", std::string(200, 'x')}});
    testing::wait_until("the line is dropped", [&] { return log.dropped() > 0; });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    log.info("next");
  }
  ::close(file);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  ::unlink(path.c_str());
  const std::string date = "1970-01-01T00:00:00.000Z ";
  EXPECT_EQ(text.str(), date + "info first valu\n" + date + "warning log lines dropped lines=1\n" +
                            date + "info next\n");
}

}  // namespace
}  // namespace sluice::server
