#include "server/rules/rules_manager.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "server/rules/test_folder.h"
#include "sluice/testing/manual_clock.h"

namespace sluice::server {
namespace {

namespace fs = std::filesystem;
using testing::ManualClock;

// Opens rules that must be valid.
std::unique_ptr<RulesManager> opened(std::vector<std::string> paths,
                                     const Clock& clock = SystemClock::instance()) {
  auto manager = RulesManager::open(std::move(paths), clock);
  if (manager) return *std::move(manager);
  for (const RuleError& error : manager.error()) ADD_FAILURE() << error.to_string();
  return nullptr;
}

std::vector<std::string> rules_of(const RulesManager& manager) {
  std::vector<std::string> names;
  const RuleSet rules = manager.current();
  for (const Rule& rule : rules.rules()) names.push_back(rule.name);
  return names;
}
using Names = std::vector<std::string>;

// Checks twice for a change, as the server does.
bool settled_change(RulesManager& manager) {
  const bool at_once = manager.changed_on_disk();
  EXPECT_FALSE(at_once) << "reported before it was seen to have settled";
  return manager.changed_on_disk();
}

TEST(RulesManager, HasTheBuiltInRulesWhereNoneAreGiven) {
  const auto manager = opened({});
  ASSERT_TRUE(manager);
  EXPECT_TRUE(manager->built_in());
  EXPECT_EQ(rules_of(*manager), (Names{"crawlers", "login", "everything"}));
  EXPECT_EQ(manager->current().find("crawlers")->mode, RuleMode::kShadow);
  EXPECT_EQ(manager->status().sources, Names{"built-in"});
  EXPECT_EQ(manager->active().texts->at(0).text, built_in_rules());
  EXPECT_FALSE(*manager->reload());
  EXPECT_FALSE(manager->changed_on_disk());
}

TEST(RulesManager, MakesOneSetOfSeveralFiles) {
  const TestFolder folder;
  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  const ManualClock clock;
  const auto manager = opened({folder.path()}, clock);
  ASSERT_TRUE(manager);
  EXPECT_EQ(rules_of(*manager), (Names{"first", "second"}));
  const RulesStatus status = manager->status();
  EXPECT_EQ(status.version, 1U);
  EXPECT_EQ(status.sources, (Names{folder / "a.yaml", folder / "b.yaml"}));
  EXPECT_EQ(status.rules, 2U);
  EXPECT_EQ(status.limits, 2U);
  EXPECT_EQ(status.loaded_at, clock.now());
  EXPECT_EQ(manager->active().texts->at(1).text, rules_named("second"));
}

TEST(RulesManager, SaysWhichWarningsAreNew) {
  const auto with_path = [](const std::string& path) {
    const std::string limits = " }, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n";
    return "version: 1\nrules:\n  - { name: a, match: { path: /q/.." + limits +
           "  - { name: b, match: { path: " + path + limits;
  };
  const TestFolder folder;
  const auto manager = opened({folder.write("a.yaml", with_path("/b"))});
  ASSERT_TRUE(manager);
  EXPECT_EQ(manager->new_warnings().size(), 1U);
  EXPECT_EQ(manager->new_warnings(), Names{});
  ASSERT_TRUE(manager->replace(with_path("c"), "rules"));
  const Names fresh = manager->new_warnings();
  ASSERT_EQ(fresh.size(), 2U) << "of another text";
  EXPECT_NE(fresh.back().find("the path 'c' matches no request"), std::string::npos);
  ASSERT_TRUE(manager->replace(with_path("d"), "rules"));
  EXPECT_EQ(manager->new_warnings().size(), 1U) << "the other one is known";
  EXPECT_EQ(manager->status().warnings, 2U);
}

TEST(RulesManager, SaysAllThatIsWrongAtTheStart) {
  const TestFolder folder;
  const std::string bad = folder.write("bad.yaml", "version: 2\n");
  const auto manager = RulesManager::open({folder / "none", bad});
  ASSERT_FALSE(manager);
  ASSERT_GE(manager.error().size(), 2U);
  EXPECT_EQ(manager.error().front().file, folder / "none");
  EXPECT_EQ(manager.error().back().file, bad);
}

std::string rules_with_list(std::string_view list) {
  return "version: 1\nrules:\n  - name: office\n    match: { ip: { in: " + std::string(list) +
         " } }\n    action: allow\n";
}

TEST(RulesManager, FollowsTheListsOfItsRules) {
  const TestFolder folder;
  folder.write("office.txt", "10.0.0.0/8\n");
  const auto manager = opened({folder.write("r.yaml", rules_with_list("office.txt"))});
  ASSERT_TRUE(manager);
  EXPECT_FALSE(manager->changed_on_disk());
  EXPECT_FALSE(*manager->reload());
  folder.write("office.txt", "10.0.0.0/8\n192.0.2.1\n");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(manager->changed_on_disk()) << "reported twice";
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(manager->version(), 2U);
  EXPECT_FALSE(*manager->reload());
  EXPECT_FALSE(manager->changed_on_disk());
}

TEST(RulesManager, FollowsTheListsOfEarlierRulesThatAreActiveAgain) {
  const TestFolder folder;
  folder.write("office.txt", "10.0.0.0/8\n");
  folder.write("home.txt", "10.1.0.0/16\n");
  const auto manager = opened({folder.write("r.yaml", rules_with_list("office.txt"))});
  ASSERT_TRUE(manager);
  folder.write("r.yaml", rules_with_list("home.txt"));
  ASSERT_TRUE(*manager->reload());
  ASSERT_TRUE(manager->revise(*manager->history().back().texts, 2, "a rollback"));
  EXPECT_FALSE(settled_change(*manager)) << "of itself";
  folder.write("office.txt", "10.0.0.0/8\n192.0.2.1\n");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload()) << "the files win";
  EXPECT_EQ(manager->active().texts->front().text, rules_with_list("home.txt"));
  EXPECT_FALSE(settled_change(*manager));
  ASSERT_TRUE(manager->revise(*manager->history().back().texts, 4, "a rollback"));
  folder.write("home.txt", "10.1.0.0/16\n192.0.2.1\n");
  EXPECT_TRUE(settled_change(*manager)) << "the lists of the files";
}

TEST(RulesManager, KeepsTheListWhenALineIsBad) {
  const TestFolder folder;
  folder.write("office.txt", "10.0.0.0/8\n");
  const auto manager = opened({folder.write("r.yaml", rules_with_list("office.txt"))});
  ASSERT_TRUE(manager);
  folder.write("office.txt", "10.0.0.0/8\n10.0.0.1/8\n");
  EXPECT_TRUE(settled_change(*manager));
  for (int i = 0; i < 2; ++i) {
    const auto reloaded = manager->reload();
    ASSERT_FALSE(reloaded) << "the second reload forgot the error";
    EXPECT_EQ(reloaded.error().front().to_string(),
              folder / "office.txt" +
                  ":2:1: error: the network '10.0.0.1/8' has bits after its prefix; expected "
                  "'10.0.0.0/8'");
  }
  EXPECT_EQ(manager->version(), 1U);
  EXPECT_EQ(manager->status().failures, 2U);
  folder.write("office.txt", "10.0.0.0/8\n192.0.2.0/24\n");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_TRUE(manager->status().last_errors.empty());
}

constexpr auto kAll = [](const TemporaryChange&) { return true; };

TEST(RulesManager, MakesAndEndsTemporaryChangesWithoutReadingLists) {
  const TestFolder folder;
  folder.write("office.txt", "10.0.0.0/8\n");
  const auto manager = opened(
      {folder.write("r.yaml", rules_with_list("office.txt") + rules_named("api").substr(18))});
  ASSERT_TRUE(manager);
  fs::remove(folder / "office.txt");
  const Instant until{std::chrono::hours(1)};
  ASSERT_TRUE(manager->change_for_now(
      {{"api", "mode", "shadow", until}, {"api", "on_store_error", "deny", until}}, "a test"));
  EXPECT_EQ(manager->current().find("api")->mode, RuleMode::kShadow);
  const auto of_mode = [](const TemporaryChange& one) { return one.key == "mode"; };
  EXPECT_EQ(manager->end_changes(of_mode).size(), 1U);
  EXPECT_EQ(manager->current().find("api")->mode, RuleMode::kEnforce);
  EXPECT_EQ(manager->current().find("api")->on_store_error, FailurePolicy::kDeny);
  EXPECT_EQ(manager->end_changes(kAll).size(), 1U);
  EXPECT_EQ(manager->current().find("api")->on_store_error, FailurePolicy::kAllow);
  EXPECT_TRUE(manager->end_changes(kAll).empty()) << "it ended again and again";
  EXPECT_TRUE(manager->status().temporary.empty());
}

TEST(RulesManager, SaysWhichTemporaryChangesHaveAnEffect) {
  const auto manager = opened({});
  const Instant until{std::chrono::hours(1)};
  const std::string anchored =
      "version: 1\nrules:\n"
      "  - { name: a, mode: &how enforce, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n"
      "  - { name: login, mode: *how, limits: [ { algorithm: gcra, limit: 1, per: 1s } ] }\n";
  ASSERT_TRUE(manager->change_for_now({{"login", "mode", "shadow", until}}, "a test"));
  ASSERT_TRUE(manager->replace(rules_named("other"), "PUT"));
  EXPECT_FALSE(manager->status().temporary.at(0).has_effect) << "the rule is gone";
  ASSERT_TRUE(manager->replace(anchored, "PUT"));
  EXPECT_TRUE(manager->status().temporary.at(0).has_effect);
  EXPECT_EQ(manager->current().find("login")->mode, RuleMode::kShadow);
  EXPECT_EQ(manager->current().find("a")->mode, RuleMode::kEnforce);
  ASSERT_TRUE(manager->replace("version: 1\nrules: [ { name: login, action: allow } ]\n", "PUT"));
  EXPECT_FALSE(manager->status().temporary.at(0).has_effect) << "it has no mode";
  EXPECT_EQ(manager->current().find("login")->mode, RuleMode::kEnforce);
}

TEST(RulesManager, TemporaryNumbersHoldForLaterRulesUnlessTheseAreWrongWithThem) {
  const auto manager = opened({});
  const Instant until{std::chrono::hours(1)};
  const auto rules_with = [](const std::string& limit) {
    return "version: 1\nrules: [ { name: login, mode: shadow, limits: [ { name: ip, " + limit +
           " } ] } ]\n";
  };
  const auto number = [&] { return manager->current().find("login")->limits.at(0).limit.limit(); };
  const TemporaryChange burst{
      .rule = "login", .key = "burst", .value = "9", .until = until, .limit = "ip"};
  const auto refused = manager->change_for_now({burst}, "a test");
  ASSERT_FALSE(refused) << "a log of times has no burst";
  EXPECT_EQ(manager->version(), 1U);
  TemporaryChange limit = burst;
  limit.key = "limit";
  ASSERT_TRUE(manager->change_for_now({limit, {"login", "mode", "enforce", until}}, "a test"));
  EXPECT_EQ(manager->current().find("login")->limits.at(0).limit.limit(), 9U);
  ASSERT_TRUE(manager->replace(rules_with("algorithm: gcra, limit: 4, per: 1m"), "PUT"));
  EXPECT_EQ(number(), 9U);
  EXPECT_EQ(manager->status().temporary.at(0).name(), "ip.limit");
  ASSERT_TRUE(manager->change_for_now({burst}, "a test")) << "this limit has one";
  ASSERT_TRUE(manager->replace(rules_with("algorithm: fixed_window, limit: 4, per: 1m"), "PUT"));
  EXPECT_EQ(number(), 4U) << "the numbers hold together or not at all";
  const auto left = manager->status().temporary;
  ASSERT_EQ(left.size(), 3U);
  for (const TemporaryChange& one : left) EXPECT_EQ(one.has_effect, one.key == "mode") << one.key;
  EXPECT_EQ(manager->current().find("login")->mode, RuleMode::kEnforce);
  EXPECT_EQ(manager->end_changes(kAll).size(), 3U);
  EXPECT_EQ(manager->current().find("login")->mode, RuleMode::kShadow);
}

TEST(RulesManager, TemporaryNumbersThatNoLongerFitLeaveThoseOfOtherLimitsAlone) {
  const auto manager = opened({});
  const Instant until{std::chrono::hours(1)};
  const auto rules_with = [](const std::string& algorithm) {
    return "version: 1\nrules:\n"
           "  - { name: a, match: { path: /a }, limits: [ { name: ip, algorithm: gcra, limit: 4, "
           "per: 1m } ] }\n"
           "  - { name: b, limits: [ { name: ip, algorithm: " +
           algorithm + ", limit: 4, per: 1m } ] }\n";
  };
  const auto number = [&](const char* rule) {
    return manager->current().find(rule)->limits.at(0).limit.limit();
  };
  const auto change = [&](const char* rule, const char* key, const char* value) {
    return manager
        ->change_for_now(
            {{.rule = rule, .key = key, .value = value, .until = until, .limit = "ip"}}, "a test")
        .has_value();
  };
  ASSERT_TRUE(manager->replace(rules_with("gcra"), "PUT"));
  ASSERT_TRUE(change("a", "limit", "1"));
  ASSERT_TRUE(change("b", "burst", "9"));
  EXPECT_EQ(manager->new_warnings(), Names{});
  ASSERT_TRUE(manager->replace(rules_with("fixed_window"), "PUT"));
  EXPECT_EQ(number("a"), 1U);
  EXPECT_EQ(manager->new_warnings(),
            Names{"the active rules cannot have the change for a time of b: ip.burst 9"});
  ASSERT_TRUE(change("a", "limit", "2")) << "the numbers of b are not of interest";
  EXPECT_EQ(number("a"), 2U);
  EXPECT_FALSE(change("b", "limit", "3")) << "the numbers of a limit hold together";
  ASSERT_TRUE(manager->replace(rules_with("gcra"), "PUT"));
  EXPECT_TRUE(manager->status().temporary.at(0).has_effect) << "that of b";
}

TEST(RulesManager, TemporaryChangesOfAPlanLeaveThoseOfARuleWithItsPlaceAsNameAlone) {
  const auto manager = opened({});
  const Instant until{std::chrono::hours(1)};
  const auto rules = manager->replace(
      "version: 1\n"
      "plans: { free: { x: { limit: 2, per: 1m } } }\n"
      "rules:\n"
      "  - name: plans/free\n"
      "    match: { path: /a }\n"
      "    limits: [ { name: x, algorithm: gcra, limit: 4, per: 1m } ]\n"
      "  - name: other\n"
      "    plan: { from: '{user}', default: free }\n"
      "    limits: [ { name: x, algorithm: gcra } ]\n",
      "PUT");
  ASSERT_TRUE(rules) << rules.error().front().to_string();
  TemporaryChange one{
      .rule = "plans/free", .key = "limit", .value = "7", .until = until, .limit = "x"};
  ASSERT_TRUE(manager->change_for_now({one}, "a test"));
  one.rule = "free";
  one.of_plan = true;
  ASSERT_TRUE(manager->change_for_now({one}, "a test"));
  EXPECT_EQ(manager->status().temporary.size(), 2U);
}

TEST(RulesManager, SaysHowItsRulesDifferFromTheFilesAndWhatAReloadUndoes) {
  const TestFolder folder;
  const auto text_with = [](const std::string& number) {
    return "version: 1\nrules: [ { name: api, limits: [ { name: ip, algorithm: gcra, limit: " +
           number + ", per: 1s } ] } ]\n";
  };
  const std::string file = folder.write("r.yaml", text_with("5"));
  const auto manager = opened({file});
  const auto changed = [&](const std::string& number) {
    return manager->revise({{file, text_with(number)}}, manager->version(), "ann").has_value();
  };
  EXPECT_TRUE(manager->status().differences.empty());
  ASSERT_TRUE(changed("10"));
  const RulesStatus status = manager->status();
  ASSERT_EQ(status.differences.size(), 1U);
  EXPECT_EQ(status.differences[0].before, "5");
  EXPECT_EQ(status.differences[0].after, "10");
  EXPECT_EQ(status.differ_by, "ann");
  folder.write("r.yaml", "# a comment\n" + text_with("5"));
  ASSERT_TRUE(*manager->reload());
  EXPECT_TRUE(manager->status().differences.empty());
  EXPECT_EQ(manager->status().undone_text(), "api/ip: limit 10 -> 5");

  ASSERT_TRUE(changed("7"));
  EXPECT_EQ(manager->status().undone_text(), "");
  folder.write("r.yaml", text_with("7"));
  ASSERT_FALSE(*manager->reload()) << "the file has what the memory has";
  EXPECT_TRUE(manager->status().differences.empty());
  folder.write("r.yaml", text_with("8"));
  ASSERT_TRUE(*manager->reload());
  EXPECT_EQ(manager->status().undone_text(), "") << "the file itself has changed";
}

TEST(RulesManager, WaitsForAListThatIsAbsent) {
  const TestFolder folder;
  const auto manager = opened({folder.write("r.yaml", rules_named("old"))});
  ASSERT_TRUE(manager);
  folder.write("r.yaml", rules_with_list("late.txt"));
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(manager->reload());
  folder.write("late.txt", "10.0.0.0/8\n");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"office"});
}

TEST(RulesManager, ReadsNoListsForRulesFromElsewhere) {
  const TestFolder folder;
  folder.write("office.txt", "10.0.0.0/8\n");
  const auto manager = opened({folder.write("r.yaml", rules_named("old"))});
  ASSERT_TRUE(manager);
  const std::string text = rules_with_list(folder / "office.txt");
  const auto replaced = manager->replace(text, "PUT /v1/rules");
  ASSERT_FALSE(replaced);
  const std::string error =
      "PUT /v1/rules:4:24: error: 'in' names a file, and these rules were not read from a file; "
      "expected the entries themselves, as a list";
  EXPECT_EQ(replaced.error().front().to_string(), error);
  EXPECT_FALSE(RulesManager::open_source({{"redis:r.yaml", text}}));
}

TEST(RulesManager, SwapsWhenTheTextIsAnother) {
  const TestFolder folder;
  ManualClock clock;
  const std::string file = folder.write("r.yaml", rules_named("old"));
  const auto manager = opened({file}, clock);
  EXPECT_FALSE(*manager->reload());
  EXPECT_EQ(manager->version(), 1U);
  const RuleSet before = manager->current();
  folder.write("r.yaml", rules_named("new"));
  clock.advance(std::chrono::seconds{7});
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(manager->version(), 2U);
  EXPECT_EQ(rules_of(*manager), Names{"new"});
  EXPECT_EQ(before.rules()[0].name, "old") << "rules in use stay whole";
  EXPECT_EQ(manager->status().loaded_at, clock.now());
  EXPECT_EQ(manager->status().reloads, 1U);
}

TEST(RulesManager, KeepsTheRulesWhenOneFileOfManyIsBad) {
  const TestFolder folder;
  ManualClock clock;
  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  const auto manager = opened({folder.path()}, clock);
  folder.write("a.yaml", rules_named("changed"));
  folder.write("b.yaml", "version: 1\nrulez: []\n");
  clock.advance(std::chrono::seconds{3});
  const auto failed = manager->reload();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().front().file, folder / "b.yaml");
  EXPECT_EQ(failed.error().back().line, 2);
  EXPECT_EQ(rules_of(*manager), (Names{"first", "second"}));
  RulesStatus status = manager->status();
  EXPECT_EQ(status.version, 1U);
  EXPECT_EQ(status.failures, 1U);
  EXPECT_EQ(status.last_failure_at, clock.now());
  ASSERT_FALSE(status.last_errors.empty());
  EXPECT_EQ(status.last_errors[0].to_string(), failed.error()[0].to_string());

  folder.write("a.yaml", rules_named("first"));
  folder.write("b.yaml", rules_named("second"));
  EXPECT_FALSE(*manager->reload()) << "the files still have the active rules";
  status = manager->status();
  EXPECT_TRUE(status.last_errors.empty());
  EXPECT_EQ(status.failures, 1U);
}

TEST(RulesManager, ReportsAChangeOnceAndOnlyWhenItHasSettled) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto manager = opened({file});
  EXPECT_FALSE(settled_change(*manager));
  folder.write("r.yaml", "version: 1\nru");  // half written
  EXPECT_FALSE(manager->changed_on_disk());
  folder.write("r.yaml", rules_named("longer-name"));
  EXPECT_FALSE(manager->changed_on_disk());
  EXPECT_TRUE(manager->changed_on_disk());
  EXPECT_FALSE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_FALSE(settled_change(*manager));
}

TEST(RulesManager, WhatReloadHasReadIsNoChange) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto manager = opened({file});
  folder.write("r.yaml", rules_named("longer-name"));
  EXPECT_FALSE(manager->changed_on_disk());
  EXPECT_TRUE(*manager->reload());
  EXPECT_FALSE(settled_change(*manager));
}

TEST(RulesManager, NoticesFilesThatComeAndGo) {
  const TestFolder folder;
  folder.write("a.yaml", rules_named("first"));
  const auto manager = opened({folder.path()});
  folder.write("b.yaml", rules_named("second"));
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), (Names{"first", "second"}));
  fs::remove(folder / "a.yaml");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"second"});
  fs::remove(folder / "b.yaml");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"second"}) << "an empty folder is a mistake";
}

TEST(RulesManager, KeepsTheRulesOfAFileThatVanishedAndNoticesItsReturn) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto manager = opened({file});
  fs::remove(file);
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"r"});
  EXPECT_FALSE(settled_change(*manager));
  folder.write("r.yaml", rules_named("r"));
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(*manager->reload());
  EXPECT_TRUE(manager->status().last_errors.empty());
}

TEST(RulesManager, NoticesTheCorrectionOfABadFile) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("r"));
  const auto manager = opened({file});
  folder.write("r.yaml", "nonsense");
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_FALSE(manager->reload());
  folder.write("r.yaml", rules_named("corrected"));
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"corrected"});
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
    const auto manager = opened({path});
    EXPECT_EQ(rules_of(*manager), Names{"before"});
  }
  const auto by_folder = opened({folder.path()});
  const auto by_file = opened({folder / "rules.yaml"});
  publish("..2024_02_02", "behind");  // of the same size
  fs::remove_all(folder / "..2024_01_01");
  for (RulesManager* manager : {by_folder.get(), by_file.get()}) {
    EXPECT_TRUE(settled_change(*manager));
    EXPECT_TRUE(*manager->reload());
    EXPECT_EQ(rules_of(*manager), Names{"behind"});
  }
}

TEST(RulesManager, ReplacedRulesHoldUntilTheFilesChange) {
  const TestFolder folder;
  const std::string file = folder.write("r.yaml", rules_named("file"));
  const auto manager = opened({file});
  const auto replaced = manager->replace(rules_named("put"), "PUT /v1/rules");
  ASSERT_TRUE(replaced);
  EXPECT_EQ(replaced->version, 2U);
  EXPECT_EQ(rules_of(*manager), Names{"put"});
  EXPECT_EQ(manager->status().sources, Names{"PUT /v1/rules"});
  EXPECT_EQ(manager->status().reloads, 0U);
  EXPECT_FALSE(settled_change(*manager));
  folder.write("r.yaml", rules_named("file-again"));
  EXPECT_TRUE(settled_change(*manager));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"file-again"});
}

TEST(RulesManager, ReloadBringsTheFilesBackAfterAReplacement) {
  const TestFolder folder;
  const auto manager = opened({folder.write("r.yaml", rules_named("file"))});
  ASSERT_TRUE(manager->replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_TRUE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"file"});
  EXPECT_EQ(manager->version(), 3U);
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
  const auto manager = RulesManager::open({folder.write("a.yaml", right)}, clock, no_scripts);
  ASSERT_TRUE(manager);
  EXPECT_FALSE((*manager)->replace(rules_named("a"), "PUT /v1/rules"));
  folder.write("a.yaml", rules_named("b"));
  EXPECT_FALSE((*manager)->reload());
  EXPECT_FALSE(RulesManager::open_source({{"r", rules_named("a")}}, clock, no_scripts));
  EXPECT_EQ(rules_of(**manager), Names{"a"});
}

TEST(RulesManager, FollowsASource) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& manager = **opened;
  EXPECT_FALSE(manager.built_in());
  EXPECT_EQ(manager.status().sources, Names{"r.yaml"});
  EXPECT_FALSE(*manager.follow({{"r.yaml", rules_named("one")}}, "a push"));
  EXPECT_TRUE(*manager.follow({{"r.yaml", rules_named("two")}, {"s.yaml", rules_named("three")}},
                              "a push"));
  EXPECT_EQ(rules_of(manager), (Names{"two", "three"}));
  EXPECT_EQ(manager.version(), 2U);
  EXPECT_EQ(manager.status().reloads, 1U);
  EXPECT_FALSE(manager.changed_on_disk());
  EXPECT_FALSE(*manager.reload());
}

TEST(RulesManager, KeepsItsRulesWhereTheSourceIsWrongAndSaysSoUntilItIsRight) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& manager = **opened;
  const auto wrong = manager.follow({{"r.yaml", "version: 1\nrules: 7\n"}}, "a push");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().front().to_string().find("r.yaml:2:8: error: "), 0U);
  EXPECT_EQ(rules_of(manager), Names{"one"});
  EXPECT_EQ(manager.status().failures, 1U);
  EXPECT_FALSE(manager.reload()) << "what the source had last is still wrong";
  EXPECT_FALSE(manager.status().last_errors.empty());
  EXPECT_FALSE(*manager.follow({{"r.yaml", rules_named("one")}}, "a push")) << "already active";
  EXPECT_TRUE(manager.status().last_errors.empty());
}

TEST(RulesManager, NamesWhatItsSourceHasUnderChangesOfItsOwn) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}},
                                                SystemClock::instance(), {}, "push 1");
  RulesManager& manager = **opened;
  EXPECT_EQ(manager.status().by, "the start, with push 1");
  EXPECT_EQ(manager.status().source, "push 1");
  EXPECT_FALSE(*manager.follow({{"r.yaml", rules_named("one")}}, "push 2"));
  EXPECT_EQ(manager.status().source, "push 2") << "the same text";
  ASSERT_TRUE(manager.replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_EQ(manager.status().by, "PUT /v1/rules");
  EXPECT_EQ(manager.status().source, "push 2");
  EXPECT_FALSE(manager.follow({{"r.yaml", "version: 1\nrules: 7\n"}}, "push 3"));
  EXPECT_EQ(manager.status().source, "push 2") << "what is wrong is not active";
  EXPECT_TRUE(*manager.follow({{"r.yaml", rules_named("four")}}, "push 4"));
  EXPECT_EQ(manager.status().source, "push 4");
}

TEST(RulesManager, LostRulesAreAFailureUntilTheyAreFound) {
  testing::ManualClock clock;
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}}, clock);
  RulesManager& manager = **opened;
  EXPECT_FALSE(manager.status().lost_since);
  manager.lose({"sluice:rules", 1, 1, "there are no rules at sluice:rules", "expected some"});
  const Instant since = clock.now();
  clock.advance(std::chrono::minutes(1));
  manager.lose({"sluice:rules", 1, 1, "sluice:rules holds damaged rules", "expected others"});
  EXPECT_EQ(manager.status().lost_since, since);
  EXPECT_EQ(manager.status().why_lost, "sluice:rules holds damaged rules");
  EXPECT_EQ(manager.status().failures, 2U);
  EXPECT_FALSE(*manager.reload());
  ASSERT_EQ(manager.status().last_errors.size(), 1U) << "a reload does not find them";
  manager.found();
  EXPECT_FALSE(manager.status().lost_since);
  EXPECT_TRUE(manager.status().last_errors.empty());
}

TEST(RulesManager, KeepsAReplacementUntilTheSourceChangesOrIsReloaded) {
  const auto opened = RulesManager::open_source({{"r.yaml", rules_named("one")}});
  ASSERT_TRUE(opened);
  RulesManager& manager = **opened;
  ASSERT_TRUE(manager.replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_FALSE(*manager.follow({{"r.yaml", rules_named("one")}}, "a push"));
  EXPECT_EQ(rules_of(manager), Names{"put"});
  EXPECT_TRUE(*manager.reload());
  EXPECT_EQ(rules_of(manager), Names{"one"});
  ASSERT_TRUE(manager.replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_TRUE(*manager.follow({{"r.yaml", rules_named("two")}}, "a push"));
  EXPECT_EQ(rules_of(manager), Names{"two"});
}

TEST(RulesManager, ReplacesBuiltInRules) {
  const auto manager = opened({});
  ASSERT_TRUE(manager->replace(rules_named("put"), "PUT /v1/rules"));
  EXPECT_FALSE(*manager->reload());
  EXPECT_EQ(rules_of(*manager), Names{"put"});
}

TEST(RulesManager, TheSameReplacementTwiceIsOneSwap) {
  const auto manager = opened({});
  EXPECT_EQ(manager->replace(rules_named("put"), "PUT /v1/rules")->version, 2U);
  EXPECT_EQ(manager->replace(rules_named("put"), "PUT /v1/rules")->version, 2U);
}

TEST(RulesManager, ABadReplacementLeavesRulesAndStatusAsTheyAre) {
  const auto manager = opened({});
  const auto replaced = manager->replace("version: 1\nrules: 7\n", "PUT /v1/rules");
  ASSERT_FALSE(replaced);
  EXPECT_EQ(replaced.error().front().to_string().find("PUT /v1/rules:2:8: error: "), 0U);
  EXPECT_EQ(manager->version(), 1U);
  EXPECT_EQ(manager->status().failures, 0U);
  EXPECT_TRUE(manager->status().last_errors.empty());
}

TEST(RulesManager, ReplacesOnlyTheVersionThatIsExpected) {
  const auto manager = opened({});
  const auto stale = manager->replace(rules_named("put"), "PUT /v1/rules", 7);
  ASSERT_FALSE(stale);
  EXPECT_TRUE(stale.error().empty());
  EXPECT_TRUE(manager->replace(rules_named("put"), "PUT /v1/rules", 1));
}

TEST(RulesManagerHistory, KeepsTheLatestVersionsWithinItsBounds) {
  TestFolder folder;
  const auto manager = *RulesManager::open({folder.write("a.yaml", rules_named("a"))});
  for (std::size_t i = 0; i < RulesManager::kMostPast + 5; ++i) {
    ASSERT_TRUE(manager->replace(rules_named("b" + std::to_string(i)), "PUT /v1/rules"));
  }
  const auto past = manager->history();
  ASSERT_EQ(past.size(), RulesManager::kMostPast);
  EXPECT_EQ(past.front().version, manager->version());
  EXPECT_EQ(past.front().by, "PUT /v1/rules");
  EXPECT_EQ(past.back().version, manager->version() - RulesManager::kMostPast + 1);
  const std::string filler(RulesManager::kMostPastBytes / 3, '#');
  for (int i = 0; i < 5; ++i) {
    const std::string text = rules_named("c" + std::to_string(i)) + filler;
    ASSERT_TRUE(manager->replace(text, "PUT /v1/rules"));
  }
  EXPECT_EQ(manager->history().size(), 3U);  // the active rules and two
}

}  // namespace
}  // namespace sluice::server
