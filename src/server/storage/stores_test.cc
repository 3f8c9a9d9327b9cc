#include "server/storage/stores.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "server/logging/test_pipe.h"
#include "sluice/block.h"
#include "sluice/testing/manual_clock.h"
#include "tests/support/wait_until.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

TEST(Stores, SayOnceAMinuteThatBlockedKeysWereFreed) {
  const Block block = *Block::make({.after = 1, .within = 10min, .time = 1h});
  testing::ManualClock steady;
  TestingPipe pipe;
  std::uint64_t freed = 0;
  {
    Log log({.level = LogLevel::kDebug}, pipe.writing());
    Config config;
    config.max_log_bytes = 64 << 10;
    const auto stores = *Stores::open(config, log, steady);
    metrics::Registry registry;
    stores->add_metrics(registry);
    const auto flood = [&](const std::string& name) {
      for (int i = 0; i < 1000; ++i) {
        const std::string key = name + std::to_string(i);
        const Charge charge{.key = key, .limit = fixed_window(0).per(1h), .block = &block};
        stores->limiter()->store().apply_one({Verb::kBlock, 1h}, charge, {});
      }
      stores->look();
    };
    stores->look();
    flood("a");
    flood("b");
    steady.advance(1min);
    stores->look();
    steady.advance(1min);
    stores->look();
    const std::string text = registry.text();
    const std::string series = "\nsluice_store_freed_keys_total ";
    freed = std::stoull(text.substr(text.find(series) + series.size()));
  }
  std::uint64_t logged = 0;
  const auto lines = pipe.lines();
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    const auto at =
        line.find("warning blocked keys were freed: blocks have reached their bound keys=");
    ASSERT_NE(at, line.npos) << line;
    EXPECT_NE(line.find(" bound_bytes=8192 expected=\"a larger memory.max_log_bytes\""), line.npos);
    logged += std::stoull(line.substr(line.find("keys=") + 5));
  }
  EXPECT_EQ(logged, freed);
}

TEST(Stores, WarnWhileFilesCannotBeWritten) {
  const std::filesystem::path folder = ::testing::TempDir() + "/files-of-a-store";
  std::filesystem::remove_all(folder);
  std::filesystem::remove_all(folder.string() + ".gone");
  std::filesystem::create_directory(folder);
  Log log({.level = LogLevel::kOff});
  Config config;
  config.snapshot = folder / "counters";
  config.snapshot_interval = 1ms;
  config.ledger = {.file = folder / "ledger", .flush = 1ms};
  testing::ManualClock steady;
  const auto stores = *Stores::open(config, log, steady);
  ASSERT_TRUE(stores->lock_files({}, false));
  stores->begin_files(net::FileDescriptor());
  boost::asio::io_context loop;
  stores->follow(loop);
  testing::wait_until("both are written", [&] {
    return std::filesystem::exists(config.snapshot) && stores->status().warning.empty();
  });
  std::filesystem::rename(folder, folder.string() + ".gone");
  testing::wait_until("both cannot be written", [&] {
    const std::string warning = stores->status().warning;
    return warning.starts_with("the ledger waits in memory: cannot write the ledger ") &&
           warning.find("; the counters are not saved: cannot ") != warning.npos;
  });
  std::filesystem::rename(folder.string() + ".gone", folder);
  testing::wait_until("both are written again", [&] { return stores->status().warning.empty(); });
  stores->stop_following();
  EXPECT_TRUE(stores->end_files());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice::server
