#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/rules/rules_manager.h"
#include "server/rules/test_folder.h"

namespace sluice::server {
namespace {

// Reads the rules as an event loop does until `end`. Returns how many versions it followed.
void follow(const RulesManager& manager, const std::atomic<bool>& end) {
  std::uint64_t seen = 0;
  while (!end.load(std::memory_order_relaxed)) {
    const std::uint64_t version = manager.version();
    ASSERT_GE(version, seen);
    const RuleSet rules = manager.current();
    // Version N brought rule "rN", or a later version is active by now.
    ASSERT_GE(std::stoull(rules.rules()[0].name.substr(1)), version);
    const ActiveRules whole = manager.active();
    ASSERT_EQ(whole.rules.rules()[0].name, "r" + std::to_string(whole.version));
    ASSERT_NE(whole.texts->at(0).text.find(whole.rules.rules()[0].name), std::string::npos);
    seen = version;
  }
}

TEST(RulesManagerConcurrency, ReadersSeeWholeRulesWhileTheyAreSwapped) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r1"));
  const auto manager = *RulesManager::open({file});
  std::atomic<bool> end{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) readers.emplace_back([&] { follow(*manager, end); });
  readers.emplace_back([&] {
    while (!end.load(std::memory_order_relaxed)) {
      static_cast<void>(manager->changed_on_disk());
      static_cast<void>(manager->status());
    }
  });
  for (int version = 2; version <= 100; ++version) {
    const std::string text = rules_named("r" + std::to_string(version));
    if (version % 2 == 0) {
      folder.write("r.yaml", text);
      EXPECT_TRUE(*manager->reload());
    } else {
      EXPECT_TRUE(manager->replace(text, "PUT /v1/rules"));
    }
  }
  end = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(manager->version(), 100U);
}

TEST(RulesManagerConcurrency, OfWritersThatExpectOneVersionOneWins) {
  const auto manager = *RulesManager::open({});
  std::atomic<int> won{0};
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; ++i) {
    writers.emplace_back([&, i] {
      if (manager->replace(rules_named("w" + std::to_string(i)), "PUT /v1/rules", 1)) ++won;
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(won.load(), 1);
  EXPECT_EQ(manager->version(), 2U);
}

}  // namespace
}  // namespace sluice::server
