#include "sluice/permit_id.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <set>
#include <thread>

#include "limiter/random_bytes.h"

namespace sluice {
namespace {

// The key stream of RFC 8439, A.1, test vectors 1 and 2: key and nonce of 0, counters of 0 and 1.
TEST(RandomBytes, AreThoseOfChaCha20) {
  RandomBytes::Piece out;
  RandomBytes::write_blocks({}, out);
  const std::uint8_t first[] = {0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90};
  const std::uint8_t second[] = {0x9f, 0x07, 0xe7, 0xbe, 0x55, 0x51, 0x38, 0x7a};
  EXPECT_TRUE(std::equal(std::begin(first), std::end(first), out.begin()));
  EXPECT_TRUE(std::equal(std::begin(second), std::end(second), out.begin() + 64));
}

TEST(RandomBytes, ContinueWithAKeyOutOfThemselves) {
  RandomBytes bytes;
  bytes.set_key({});
  RandomBytes::Piece piece;
  RandomBytes::write_blocks({}, piece);
  RandomBytes::Key next;
  std::memcpy(next.data(), piece.data(), sizeof(next));
  std::array<std::uint8_t, RandomBytes::kPiece - RandomBytes::kKeyBytes> all;
  bytes.take(all.data(), all.size());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), piece.begin() + RandomBytes::kKeyBytes));
  RandomBytes::write_blocks(next, piece);
  bytes.take(all.data(), all.size());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), piece.begin() + RandomBytes::kKeyBytes));
}

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
