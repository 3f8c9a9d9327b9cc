#include "server/rules/server_overrides.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/rules/test_folder.h"

namespace sluice::server {
namespace {

using Kind = Override::Kind;

class ServerOverridesTest : public ::testing::Test {
 protected:
  std::unique_ptr<ServerOverrides> open() {
    auto opened = ServerOverrides::open(path_);
    EXPECT_TRUE(opened) << opened.error();
    return std::move(*opened);
  }
  std::string error_of(const std::string& text) {
    folder_.write("overrides.txt", text);
    const auto opened = ServerOverrides::open(path_);
    return opened ? "ok" : opened.error().substr(opened.error().find("overrides.txt"));
  }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TestFolder folder_;
  const std::string path_ = folder_.write("overrides.txt", "sluice overrides 1\nend 0\n");
};

TEST_F(ServerOverridesTest, AreThereAfterAStart) {
  {
    const auto overrides = open();
    EXPECT_FALSE(overrides->set("d|r|l|k=1", {.limit = 5}).value());
    EXPECT_EQ(overrides->set("d|r|l|k=1", {.limit = 6}).value()->limit, 5U);
    EXPECT_FALSE(overrides->set("d|r|l|k=2", {.kind = Kind::kBlocked}).value());
    EXPECT_FALSE(overrides->set("d|r|l|k=3", {.limit = 1, .until = Instant{Duration{1}}}).value());
    EXPECT_EQ(overrides->unset("d|r|l|k=2").value()->kind, Kind::kBlocked);
    EXPECT_FALSE(overrides->unset("d|r|l|k=2").value());
  }
  EXPECT_NE(text().find("limit=6\td|r|l|k=1\n"), std::string::npos) << text();
  const auto again = open();
  EXPECT_EQ(again->all().find("d|r|l|k=1")->limit, 6U);
  EXPECT_FALSE(again->all().find("d|r|l|k=2"));
  EXPECT_EQ(again->all().size(), 1U) << "one has ended";
}

TEST_F(ServerOverridesTest, ThatWereDroppedAreReadAgainIfTheClockGoesBack) {
  const auto overrides = open();
  const Instant now = SystemClock().now();
  EXPECT_TRUE(overrides->set("d|r|l|k=1", {.limit = 5, .until = now + std::chrono::hours(1)}));
  overrides->drop_ended(now + std::chrono::hours(2));
  EXPECT_FALSE(overrides->reread().value());
  EXPECT_EQ(overrides->all().size(), 0U);
  overrides->drop_ended(now);
  EXPECT_TRUE(overrides->reread().value());
  EXPECT_EQ(overrides->all().size(), 1U);
}

TEST_F(ServerOverridesTest, AreSharedByAServerAndItsSuccessor) {
  const auto old = open();
  const auto successor = open();
  EXPECT_FALSE(old->set("d|r|l|k=1", {.limit = 1}).value());
  EXPECT_FALSE(successor->set("d|r|l|k=2", {.limit = 2}).value());
  EXPECT_EQ(successor->all().find("d|r|l|k=1")->limit, 1U) << "a change begins with the file";
  EXPECT_TRUE(old->unset("d|r|l|k=2").value());
  EXPECT_TRUE(successor->all().find("d|r|l|k=2"));
  EXPECT_TRUE(successor->reread().value());
  EXPECT_FALSE(successor->all().find("d|r|l|k=2"));
  EXPECT_FALSE(successor->reread().value()) << "it is the same file";
  EXPECT_FALSE(old->reread().value()) << "this one has written it";
  EXPECT_EQ(open()->all().size(), 1U);
}

TEST_F(ServerOverridesTest, StayAsTheyAreIfTheFileIsReplacedByAWrongOne) {
  const auto overrides = open();
  EXPECT_FALSE(overrides->set("d|r|l|k=1", {.limit = 1}).value());
  folder_.write("overrides.txt", "x\n");
  const auto wrong = overrides->reread();
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error(),
            path_ + ":1: is no file of overrides; expected the line 'sluice overrides 1'");
  EXPECT_FALSE(overrides->reread().value()) << "it is reported once";
  EXPECT_EQ(overrides->all().size(), 1U);
  std::filesystem::remove(path_);
  EXPECT_FALSE(overrides->reread().value());
  EXPECT_EQ(overrides->all().size(), 1U);
}

TEST_F(ServerOverridesTest, OfAnImportAreWrittenBeforeAServerEnds) {
  const std::vector<Overrides::Page::Entry> first = {{"d|r|l|k=1", {.limit = 1}}};
  const std::vector<Overrides::Page::Entry> second = {{"d|r|l|k=2", {.limit = 2}}};
  const auto overrides = open();
  EXPECT_TRUE(overrides->set_all(first, true));
  EXPECT_EQ(open()->all().size(), 0U);
  EXPECT_TRUE(overrides->keep());
  EXPECT_EQ(open()->all().size(), 1U);
  EXPECT_TRUE(overrides->set_all(second, true));
  EXPECT_EQ(open()->all().size(), 2U) << "a server that is succeeded writes each part";
}

TEST_F(ServerOverridesTest, AreNotChangedWhileAnotherProcessHoldsTheLockOfTheFile) {
  const auto overrides = open();
  EXPECT_FALSE(overrides->set("d|r|l|k=1", {.limit = 1}).value());
  EXPECT_TRUE(
      overrides->set_all(std::vector<Overrides::Page::Entry>{{"d|r|l|k=2", {.limit = 2}}}, true));
  auto other = net::try_lock(path_);
  ASSERT_TRUE(other && *other);
  const auto set = overrides->set("d|r|l|k=1", {.limit = 5});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error(), "nothing was changed, because another process has locked " + path_ +
                             ".lock; repeat the change, or give each server a file of its own");
  EXPECT_FALSE(overrides->unset("d|r|l|k=1"));
  EXPECT_FALSE(overrides->set_through(nullptr, "d|r|l|k=1", {.limit = 5}));
  EXPECT_FALSE(overrides->unset_through(nullptr, "d|r|l|k=1"));
  EXPECT_FALSE(overrides->keep());
  EXPECT_EQ(overrides->all().find("d|r|l|k=1")->limit, 1U);
  other->reset();
  EXPECT_TRUE(overrides->keep());
  EXPECT_TRUE(overrides->set_through(nullptr, "d|r|l|k=1", {.limit = 5}));
  EXPECT_EQ(open()->all().size(), 2U);
}

TEST_F(ServerOverridesTest, HaveALockThatOtherUsersCannotHold) {
  const int folder = ::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(folder, LOCK_EX), 0) << "which every user can do";
  EXPECT_FALSE(open()->set("d|r|l", {.limit = 5}).value());
  ::close(folder);
  EXPECT_EQ(std::filesystem::status(path_ + ".lock").permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ServerOverridesTest, SayWhyTheFileCannotBeLocked) {
  const auto overrides = open();
  std::filesystem::create_directory(path_ + ".lock");
  const auto refused = overrides->set("d|r|l", {.limit = 5});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), "cannot open " + path_ +
                                 ".lock: Is a directory; expected a file that this user may write, "
                                 "or a folder in which it may create one");
}

TEST_F(ServerOverridesTest, StartWithoutAFile) {
  std::filesystem::remove(path_);
  EXPECT_EQ(open()->all().size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ServerOverridesTest, StayAsTheyAreIfTheyCannotBeWritten) {
  const auto overrides = open();
  EXPECT_TRUE(overrides->set("d|r|l", {.limit = 5}));
  std::filesystem::create_directory(path_ + ".tmp");
  const auto refused = overrides->set("d|r|l", {.limit = 6});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), "cannot create " + path_ + ".tmp: File exists");
  EXPECT_FALSE(overrides->unset("d|r|l"));
  EXPECT_FALSE(overrides->set("d|r|m", {.limit = 6}));
  EXPECT_EQ(overrides->all().find("d|r|l")->limit, 5U);
  EXPECT_EQ(overrides->all().size(), 1U);
}

TEST_F(ServerOverridesTest, SayWhereTheFileIsDamaged) {
  EXPECT_EQ(error_of("x\n"),
            "overrides.txt:1: is no file of overrides; expected the line 'sluice overrides 1'");
  EXPECT_EQ(error_of("sluice overrides 1\nlimit=1\ta|b|c\nlimt=1\ta|b|d\nend 2\n"),
            "overrides.txt:3: 'limt=1' is not a part of an override; expected limit=NUMBER, "
            "plan=NAME, blocked or unlimited, then per=, burst= and until=");
  EXPECT_EQ(error_of("sluice overrides 1\nlimit=1\ta|b|c\n"),
            "overrides.txt:3: the file is damaged; expected the line 'end 1'");
  EXPECT_EQ(error_of("sluice overrides 1\nlimit=1\ta|b|c\nend 2\n"),
            "overrides.txt:3: the file is damaged; expected the line 'end 1'");
  EXPECT_EQ(error_of("sluice overrides 1\nend 0\n"), "ok");
}

}  // namespace
}  // namespace sluice::server
