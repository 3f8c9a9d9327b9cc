#include "server/rules/envoy_manager.h"

#include <gtest/gtest.h>

#include "server/rules/test_folder.h"

namespace sluice::server {
namespace {

std::string domain_of(std::string_view name) {
  return "domain: " + std::string(name) + "\ndescriptors: []\n";
}

TEST(EnvoyManager, HasNoDomainsWithoutFiles) {
  const auto manager = EnvoyManager::open({});
  ASSERT_TRUE(manager);
  EXPECT_TRUE((*manager)->current()->config().domains().empty());
  EXPECT_FALSE(*(*manager)->reload());
  EXPECT_FALSE((*manager)->changed_on_disk());
}

TEST(EnvoyManager, ReadsADirectoryOneDomainAFile) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  folder.write("b.yml", domain_of("b"));
  folder.write("c.txt", "not read");
  const auto manager = EnvoyManager::open({.files = {folder.path()}});
  ASSERT_TRUE(manager);
  EXPECT_EQ((*manager)->current()->config().domains().size(), 2U);
}

TEST(EnvoyManager, RefusesADirectoryInWhichTwoFilesHaveOneDomain) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  folder.write("b.yaml", domain_of("a"));
  const auto manager = EnvoyManager::open({.files = {folder.path()}});
  ASSERT_FALSE(manager);
  EXPECT_EQ(manager.error()[0].file, folder / "b.yaml");
  const auto merged = EnvoyManager::open({.files = {folder.path()}, .merge_domains = true});
  ASSERT_TRUE(merged);
  EXPECT_EQ((*merged)->current()->config().domains().size(), 1U);
}

TEST(EnvoyManager, KeepsWhatIsInForceWhereNewFilesAreWrong) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  const auto manager = EnvoyManager::open({.files = {folder.path()}});
  ASSERT_TRUE(manager);
  folder.write("a.yaml", "domain: ''\n");
  EXPECT_FALSE((*manager)->reload());
  EXPECT_NE((*manager)->current()->config().find("a"), nullptr);
  EXPECT_EQ((*manager)->version(), 2U);
  EXPECT_EQ((*manager)->status().failures, 1U);
  EXPECT_EQ((*manager)->status().last_errors.size(), 1U);
  folder.write("a.yaml", domain_of("b"));
  EXPECT_TRUE(*(*manager)->reload());
  EXPECT_TRUE((*manager)->status().last_errors.empty());
  EXPECT_EQ((*manager)->status().reloads, 1U);
}

TEST(EnvoyManager, SeesFilesThatChangeOnceTheyHaveStoodStill) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  const auto manager = EnvoyManager::open({.files = {folder.path()}});
  EXPECT_FALSE((*manager)->changed_on_disk());
  folder.write("b.yaml", domain_of("b"));
  EXPECT_FALSE((*manager)->changed_on_disk());
  EXPECT_TRUE((*manager)->changed_on_disk());
  EXPECT_FALSE((*manager)->changed_on_disk());
  EXPECT_TRUE(*(*manager)->reload());
  EXPECT_FALSE(*(*manager)->reload());
  EXPECT_NE((*manager)->current()->config().find("b"), nullptr);
}

}  // namespace
}  // namespace sluice::server
