#include "server/rules/envoy_manager.h"

#include <gtest/gtest.h>

#include "server/rules/test_folder.h"

namespace sluice::server {
namespace {

std::string domain_of(std::string_view name) {
  return "domain: " + std::string(name) + "\ndescriptors: []\n";
}

TEST(EnvoyManager, HasNoDomainsWithoutFiles) {
  const auto keeper = EnvoyManager::open({});
  ASSERT_TRUE(keeper);
  EXPECT_TRUE((*keeper)->current()->config.domains().empty());
  EXPECT_FALSE(*(*keeper)->reload());
  EXPECT_FALSE((*keeper)->changed_on_disk());
}

TEST(EnvoyManager, ReadsADirectoryOneDomainAFile) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  folder.write("b.yml", domain_of("b"));
  folder.write("c.txt", "not read");
  const auto keeper = EnvoyManager::open({folder.path()});
  ASSERT_TRUE(keeper);
  EXPECT_EQ((*keeper)->current()->config.domains().size(), 2U);
}

TEST(EnvoyManager, RefusesADirectoryInWhichTwoFilesHaveOneDomain) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  folder.write("b.yaml", domain_of("a"));
  const auto keeper = EnvoyManager::open({folder.path()});
  ASSERT_FALSE(keeper);
  EXPECT_EQ(keeper.error()[0].file, folder / "b.yaml");
}

TEST(EnvoyManager, KeepsWhatIsInForceWhereNewFilesAreWrong) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  const auto keeper = EnvoyManager::open({folder.path()});
  ASSERT_TRUE(keeper);
  folder.write("a.yaml", "domain: ''\n");
  EXPECT_FALSE((*keeper)->reload());
  EXPECT_NE((*keeper)->current()->config.find("a"), nullptr);
  EXPECT_EQ((*keeper)->version(), 2U);
  EXPECT_EQ((*keeper)->status().failures, 1U);
  EXPECT_EQ((*keeper)->status().last_errors.size(), 1U);
  folder.write("a.yaml", domain_of("b"));
  EXPECT_TRUE(*(*keeper)->reload());
  EXPECT_TRUE((*keeper)->status().last_errors.empty());
  EXPECT_EQ((*keeper)->status().reloads, 1U);
}

TEST(EnvoyManager, SeesFilesThatChangeOnceTheyHaveStoodStill) {
  TestFolder folder;
  folder.write("a.yaml", domain_of("a"));
  const auto keeper = EnvoyManager::open({folder.path()});
  EXPECT_FALSE((*keeper)->changed_on_disk());
  folder.write("b.yaml", domain_of("b"));
  EXPECT_FALSE((*keeper)->changed_on_disk());
  EXPECT_TRUE((*keeper)->changed_on_disk());
  EXPECT_FALSE((*keeper)->changed_on_disk());
  EXPECT_TRUE(*(*keeper)->reload());
  EXPECT_FALSE(*(*keeper)->reload());
  EXPECT_NE((*keeper)->current()->config.find("b"), nullptr);
}

}  // namespace
}  // namespace sluice::server
