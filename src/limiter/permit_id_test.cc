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
