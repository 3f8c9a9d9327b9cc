#include "sluice/permit_id.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

namespace sluice {
namespace {

TEST(PermitId, IsItsTwelveBytes) {
  const PermitId::Bytes bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_EQ(PermitId(bytes).bytes(), bytes);
  EXPECT_NE(PermitId(bytes), PermitId());
  static_assert(sizeof(PermitId) == 12);
}

TEST(PermitId, IsNewEachTimeInEveryThread) {
  std::set<PermitId::Bytes> here, there;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) there.insert(PermitId::random().bytes());
  });
  for (int i = 0; i < 1000; ++i) here.insert(PermitId::random().bytes());
  other.join();
  here.merge(there);
  EXPECT_EQ(here.size(), 2000u);
}

// Stores contain these bytes.
TEST(PermitId, FollowsFromAnIdInTheSameWayForEver) {
  const PermitId::Bytes of_a{0xa9, 0x6f, 0xaf, 0x70, 0x5a, 0xf1,
                             0x68, 0x34, 0xe6, 0xc6, 0x32, 0xb6};
  EXPECT_EQ(PermitId::named("a").bytes(), of_a);
  const PermitId::Bytes of_call{0xd4, 0xbe, 0x2c, 0x13, 0x03, 0x3b,
                                0x38, 0x7e, 0xdf, 0xfd, 0xae, 0x4b};
  EXPECT_EQ(PermitId::named("call 1").bytes(), of_call);
}

TEST(PermitId, IsNotThatOfAForkedProcess) {
  PermitId::random();  // so that both have random bytes left
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t child = ::fork();
  const PermitId::Bytes own = PermitId::random().bytes();
  if (child == 0) {
    [[maybe_unused]] const auto written = ::write(pipes[1], own.data(), own.size());
    ::_exit(0);
  }
  PermitId::Bytes others{};
  EXPECT_EQ(::read(pipes[0], others.data(), others.size()), static_cast<ssize_t>(others.size()));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_NE(own, others);
  ::close(pipes[0]);
  ::close(pipes[1]);
}

}  // namespace
}  // namespace sluice
