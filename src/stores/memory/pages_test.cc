#include "stores/memory/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <utility>

namespace sluice::memory {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

bool is_aligned(const Pages& pages, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(pages.data()) % to == 0;
}
bool is_zero(const Pages& pages, std::size_t bytes) {
  return std::all_of(pages.data(), pages.data() + bytes,
                     [](std::byte byte) { return byte == std::byte{0}; });
}

// Sizes below and above the size from which memory is mapped, with and without a small last part.
constexpr std::size_t kSizes[] = {1,
                                  63,
                                  64,
                                  4097,
                                  131071,
                                  131073,
                                  kHugePage - 1,
                                  kHugePage,
                                  kHugePage + 1,
                                  8 * kHugePage - 1,
                                  8 * kHugePage + 1};

TEST(Pages, AreZeroedAndAlignedToACacheLine) {
  for (const std::size_t size : kSizes) {
    const Pages pages(size);
    EXPECT_TRUE(is_aligned(pages, 64)) << size;
    EXPECT_TRUE(is_zero(pages, size)) << size;
  }
}

TEST(Pages, OfAHugePageOrMoreAreAlignedToHugePages) {
  for (const std::size_t size : kSizes) {
    if (size < kHugePage) continue;
    EXPECT_TRUE(is_aligned(Pages(size), kHugePage)) << size;
  }
}

TEST(Pages, CanBeWrittenToTheirLastByteAndAreZeroedWhenTheyAreUsedAgain) {
  for (const std::size_t size : kSizes) {
    for (int use = 0; use < 3; ++use) {
      const Pages pages(size);
      ASSERT_TRUE(is_zero(pages, size)) << size << ", use " << use;
      std::fill_n(pages.data(), size, std::byte{0xFF});
    }
  }
}

TEST(Pages, AreEmptyByDefault) { EXPECT_EQ(Pages().data(), nullptr); }

TEST(Pages, KeepTheirContentWhenTheyMove) {
  for (const std::size_t size : {std::size_t{100}, kHugePage + 1}) {
    Pages first(size);
    std::byte* const data = first.data();
    data[size - 1] = std::byte{7};
    Pages second(std::move(first));
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move)
    Pages third;
    third = std::move(second);
    EXPECT_EQ(third.data(), data);
    EXPECT_EQ(third.data()[size - 1], std::byte{7});
  }
}

TEST(Pages, OfOneKindCanBeReplacedByThoseOfTheOther) {
  Pages small(100);
  Pages mapped(kHugePage);
  std::swap(small, mapped);
  EXPECT_TRUE(is_zero(small, kHugePage));
  EXPECT_TRUE(is_zero(mapped, 100));
  small = Pages(100);
  mapped = Pages(kHugePage);
  EXPECT_TRUE(is_zero(small, 100));
  EXPECT_TRUE(is_zero(mapped, kHugePage));
}

TEST(Pages, AreZeroedAgainWhereTheyWereReleased) {
  Pages pages(3 * kHugePage);
  std::fill_n(pages.data(), 3 * kHugePage, std::byte{0xFF});
  pages.release(kHugePage, 2 * kHugePage);
  EXPECT_EQ(pages.data()[kHugePage - 1], std::byte{0xFF});
  EXPECT_EQ(pages.data()[kHugePage], std::byte{0});
  EXPECT_EQ(pages.data()[2 * kHugePage - 1], std::byte{0});
  EXPECT_EQ(pages.data()[2 * kHugePage], std::byte{0xFF});
}

TEST(Pages, ThrowIfTheAddressSpaceIsTooSmall) {
  EXPECT_THROW(Pages(std::size_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace sluice::memory
