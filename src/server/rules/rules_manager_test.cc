#include "server/rules/rules_manager.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "server/rules/built_in_rules.h"
#include "server/rules/test_folder.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;
using testing::ManualClock;

// Opens what has to be right.
std::unique_ptr<RulesManager> opened(std::vector<std::string> paths,
                                     const Clock& clock = SystemClock::instance()) {
  auto keeper = RulesManager::open(std::move(paths), clock);
  if (keeper) return *std::move(keeper);
  for (const RuleError& error : keeper.error()) ADD_FAILURE() << error.to_string();
  return nullptr;
}

std::vector<std::string> rules_of(const RulesManager& keeper) {
  std::vector<std::string> names;
  const RuleSet rules = keeper.current();
  for (const Rule& rule : rules.rules()) names.push_back(rule.name);
  return names;
}
using Names = std::vector<std::string>;

// Two looks, as the server takes them.
bool settled_change(RulesManager& keeper) {
  const bool at_once = keeper.changed_on_disk();
  EXPECT_FALSE(at_once) << "reported before it was seen to have settled";
  return keeper.changed_on_disk();
}

TEST(RulesManager, HasTheBuiltInRulesWhereNoneAreGiven) {
  const auto keeper = opened({});
  ASSERT_TRUE(keeper);
  EXPECT_TRUE(keeper->built_in());
  EXPECT_EQ(rules_of(*keeper), (Names{"crawlers", "login", "everything"}));
  EXPECT_EQ(keeper->current().find("crawlers")->mode, RuleMode::kShadow);
  EXPECT_EQ(keeper->status().sources, Names{"built-in"});
  EXPECT_EQ(keeper->in_force().texts->at(0).text, built_in_rules());
  EXPECT_FALSE(*keeper->reload());
  EXPECT_FALSE(keeper->changed_on_disk());
}

TEST(RulesManager, MakesOneSetOfSeveralFiles) {
  const TestFolder folder;
  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  const ManualClock clock;
  const auto keeper = opened({folder.path()}, clock);
  ASSERT_TRUE(keeper);
  EXPECT_EQ(rules_of(*keeper), (Names{"first", "second"}));
  const RulesStatus status = keeper->status();
  EXPECT_EQ(status.version, 1U);
  EXPECT_EQ(status.sources, (Names{folder / "a.yaml", folder / "b.yaml"}));
  EXPECT_EQ(status.rules, 2U);
  EXPECT_EQ(status.limits, 2U);
  EXPECT_EQ(status.loaded_at, clock.now());
  EXPECT_EQ(keeper->in_force().texts->at(1).text, rules_named("second"));
}

TEST(RulesManager, SaysAllThatIsWrongAtTheStart) {
  const TestFolder folder;
  const std::string bad = folder.write("bad.yaml", "version: 2\n");
  const auto keeper = RulesManager::open({folder / "none", bad});
  ASSERT_FALSE(keeper);
  ASSERT_GE(keeper.error().size(), 2U);
  EXPECT_EQ(keeper.error().front().file, folder / "none");
  EXPECT_EQ(keeper.error().back().file, bad);
}

TEST(RulesManager, SwapsWhenTheTextIsAnother) {
  const TestFolder folder;
  ManualClock clock;
  const std::string file = folder.write("r.yaml", rules_named("old"));
  const auto keeper = opened({file}, clock);
  EXPECT_FALSE(*keeper->reload());
  EXPECT_EQ(keeper->version(), 1U);
  const RuleSet before = keeper->current();
  folder.write("r.yaml", rules_named("new"));
  clock.advance(std::chrono::seconds{7});
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(keeper->version(), 2U);
  EXPECT_EQ(rules_of(*keeper), Names{"new"});
  EXPECT_EQ(before.rules()[0].name, "old") << "rules in use stay whole";
  EXPECT_EQ(keeper->status().loaded_at, clock.now());
  EXPECT_EQ(keeper->status().reloads, 1U);
}

TEST(RulesManager, KeepsTheRulesWhenOneFileOfManyIsBad) {
  const TestFolder folder;
  ManualClock clock;
  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  const auto keeper = opened({folder.path()}, clock);
  folder.write("a.yaml", rules_named("changed"));
  folder.write("b.yaml", "version: 1\nrulez: []\n");
  clock.advance(std::chrono::seconds{3});
  const auto failed = keeper->reload();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().front().file, folder / "b.yaml");
  EXPECT_EQ(failed.error().back().line, 2);
  EXPECT_EQ(rules_of(*keeper), (Names{"first", "second"}));
  RulesStatus status = keeper->status();
  EXPECT_EQ(status.version, 1U);
  EXPECT_EQ(status.failures, 1U);
  EXPECT_EQ(status.last_failure_at, clock.now());
  ASSERT_FALSE(status.last_errors.empty());
  EXPECT_EQ(status.last_errors[0].to_string(), failed.error()[0].to_string());

  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  EXPECT_FALSE(*keeper->reload()) << "back to what is in force";
  status = keeper->status();
  EXPECT_TRUE(status.last_errors.empty());
  EXPECT_EQ(status.failures, 1U);
}

TEST(RulesManager, ReportsAChangeOnceAndOnlyWhenItHasSettled) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto keeper = opened({file});
  EXPECT_FALSE(settled_change(*keeper));
  folder.write("r.yaml", "version: 1\nru");  // half written
  EXPECT_FALSE(keeper->changed_on_disk());
  folder.write("r.yaml", rules_named("longer-name"));
  EXPECT_FALSE(keeper->changed_on_disk());
  EXPECT_TRUE(keeper->changed_on_disk());
  EXPECT_FALSE(settled_change(*keeper));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_FALSE(settled_change(*keeper));
}

TEST(RulesManager, WhatReloadHasReadIsNoChange) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto keeper = opened({file});
  folder.write("r.yaml", rules_named("longer-name"));
  EXPECT_FALSE(keeper->changed_on_disk());
  EXPECT_TRUE(*keeper->reload());
  EXPECT_FALSE(settled_change(*keeper));
}

TEST(RulesManager, NoticesFilesThatComeAndGo) {
  const TestFolder folder;
  folder.write("a.yaml", rules_named("first"));
  const auto keeper = opened({folder.path()});
  folder.write("b.yaml", rules_named("second"));
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), (Names{"first", "second"}));
  fs::remove(folder / "a.yaml");
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"second"});
  fs::remove(folder / "b.yaml");
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_FALSE(keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"second"}) << "an empty folder is a mistake";
}

TEST(RulesManager, KeepsTheRulesOfAFileThatVanishedAndNoticesItsReturn) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto keeper = opened({file});
  fs::remove(file);
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_FALSE(keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"r"});
  EXPECT_FALSE(settled_change(*keeper));
  folder.write("r.yaml", rules_named("r"));
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_FALSE(*keeper->reload());
  EXPECT_TRUE(keeper->status().last_errors.empty());
}

TEST(RulesManager, NoticesTheCorrectionOfABadFile) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto keeper = opened({file});
  folder.write("r.yaml", "nonsense");
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_FALSE(keeper->reload());
  folder.write("r.yaml", rules_named("corrected"));
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"corrected"});
}

TEST(RulesManager, FollowsTheSwapOfAConfigMap) {
  const TestFolder folder;
  const auto publish = [&](const std::string& generation, const std::string& rule) {
    fs::create_directory(folder / generation);
    folder.write(generation + "/rules.yaml", rules_named(rule));
    fs::create_directory_symlink(generation, folder / "..data_tmp");
    fs::rename(folder / "..data_tmp", folder / "..data");
  };
  publish("..2024_01_01", "before");
  fs::create_symlink("..data/rules.yaml", folder / "rules.yaml");
  for (const std::string& path : {folder.path(), folder / "rules.yaml"}) {
    const auto keeper = opened({path});
    EXPECT_EQ(rules_of(*keeper), Names{"before"});
  }
  const auto by_folder = opened({folder.path()});
  const auto by_file = opened({folder / "rules.yaml"});
  publish("..2024_02_02", "behind");  // of the same size
  fs::remove_all(folder / "..2024_01_01");
  for (RulesManager* keeper : {by_folder.get(), by_file.get()}) {
    EXPECT_TRUE(settled_change(*keeper));
    EXPECT_TRUE(*keeper->reload());
    EXPECT_EQ(rules_of(*keeper), Names{"behind"});
  }
}

TEST(RulesManager, ReplacedRulesHoldUntilTheFilesChange) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("file"));
  const auto keeper = opened({file});
  const auto replaced = keeper->replace(rules_named("put"), "PUT /v1/rules");
  ASSERT_TRUE(replaced);
  EXPECT_EQ(replaced->version, 2U);
  EXPECT_EQ(rules_of(*keeper), Names{"put"});
  EXPECT_EQ(keeper->status().sources, Names{"PUT /v1/rules"});
  EXPECT_EQ(keeper->status().reloads, 0U);
  EXPECT_FALSE(settled_change(*keeper));
  folder.write("r.yaml", rules_named("file-again"));
  EXPECT_TRUE(settled_change(*keeper));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"file-again"});
}

TEST(RulesManager, ReloadBringsTheFilesBackAfterAReplacement) {
  const TestFolder folder;
  const auto keeper = opened({folder.write("r.yaml", rules_named("file"))});
  ASSERT_TRUE(keeper->replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_TRUE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"file"});
  EXPECT_EQ(keeper->version(), 3U);
}

TEST(RulesManager, RefusesWhatTheTermsForbidWhereverItComesFrom) {
  const TestFolder folder;
  const RuleTerms no_scripts{.scripting = false};
  const Clock& clock = SystemClock::instance();
  const std::string right =
      "version: 1\nrules:\n  - name: a\n    limits: [ { algorithm: sliding_window_counter, limit: "
      "1, "
      "per: 1s } ]\n";
  EXPECT_FALSE(RulesManager::open({folder.write("a.yaml", rules_named("a"))}, clock, no_scripts));
  const auto keeper = RulesManager::open({folder.write("a.yaml", right)}, clock, no_scripts);
  ASSERT_TRUE(keeper);
  EXPECT_FALSE((*keeper)->replace(rules_named("a"), "PUT /v1/rules"));
  folder.write("a.yaml", rules_named("b"));
  EXPECT_FALSE((*keeper)->reload());
  EXPECT_FALSE(RulesManager::open_source({{"r", rules_named("a")}}, clock, no_scripts));
  EXPECT_EQ(rules_of(**keeper), Names{"a"});
}

TEST(RulesManager, FollowsASource) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& keeper = **opened;
  EXPECT_FALSE(keeper.built_in());
  EXPECT_EQ(keeper.status().sources, Names{"r.yaml"});
  EXPECT_FALSE(*keeper.follow({{"r.yaml", rules_named("one")}}));
  EXPECT_TRUE(*keeper.follow({{"r.yaml", rules_named("two")}, {"s.yaml", rules_named("three")}}));
  EXPECT_EQ(rules_of(keeper), (Names{"two", "three"}));
  EXPECT_EQ(keeper.version(), 2U);
  EXPECT_EQ(keeper.status().reloads, 1U);
  EXPECT_FALSE(keeper.changed_on_disk());
  EXPECT_FALSE(*keeper.reload());
}

TEST(RulesManager, KeepsItsRulesWhereTheSourceIsWrongAndSaysSoUntilItIsRight) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& keeper = **opened;
  const auto wrong = keeper.follow({{"r.yaml", "version: 1\nrules: 7\n"}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().front().to_string().find("r.yaml:2:8: error: "), 0U);
  EXPECT_EQ(rules_of(keeper), Names{"one"});
  EXPECT_EQ(keeper.status().failures, 1U);
  EXPECT_FALSE(keeper.reload()) << "what the source had last is still wrong";
  EXPECT_FALSE(keeper.status().last_errors.empty());
  EXPECT_FALSE(*keeper.follow({{"r.yaml", rules_named("one")}})) << "as they are in force";
  EXPECT_TRUE(keeper.status().last_errors.empty());
}

TEST(RulesManager, KeepsAReplacementUntilTheSourceChangesOrIsReloaded) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& keeper = **opened;
  ASSERT_TRUE(keeper.replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_FALSE(*keeper.follow({{"r.yaml", rules_named("one")}}));
  EXPECT_EQ(rules_of(keeper), Names{"put"});
  EXPECT_TRUE(*keeper.reload());
  EXPECT_EQ(rules_of(keeper), Names{"one"});
  ASSERT_TRUE(keeper.replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_TRUE(*keeper.follow({{"r.yaml", rules_named("two")}}));
  EXPECT_EQ(rules_of(keeper), Names{"two"});
}

TEST(RulesManager, ReplacesBuiltInRules) {
  const auto keeper = opened({});
  ASSERT_TRUE(keeper->replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_FALSE(*keeper->reload());
  EXPECT_EQ(rules_of(*keeper), Names{"put"});
}

TEST(RulesManager, TheSameReplacementTwiceIsOneSwap) {
  const auto keeper = opened({});
  EXPECT_EQ(keeper->replace(rules_named("put"), "PUT /v1/rules")->version, 2U);
  EXPECT_EQ(keeper->replace(rules_named("put"), "PUT /v1/rules")->version, 2U);
}

TEST(RulesManager, ABadReplacementLeavesRulesAndStatusAsTheyAre) {
  const auto keeper = opened({});
  const auto replaced = keeper->replace("version: 1\nrules: 7\n", "PUT /v1/rules");
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().front().to_string().find("PUT /v1/rules:2:8: error: "), 0U);
  EXPECT_EQ(keeper->version(), 1U);
  EXPECT_EQ(keeper->status().failures, 0U);
  EXPECT_TRUE(keeper->status().last_errors.empty());
}

TEST(RulesManager, ReplacesOnlyTheVersionThatIsExpected) {
  const auto keeper = opened({});
  const auto stale = keeper->replace(rules_named("put"), "PUT /v1/rules", 7);
  ASSERT_FALSE(stale);
  EXPECT_TRUE(stale.error().empty());
  EXPECT_TRUE(keeper->replace(rules_named("put"), "PUT /v1/rules", 1));
}

}  // namespace
}  // namespace sluice::server
