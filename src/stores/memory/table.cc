#include "stores/memory/table.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace sluice::memory {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kSmallPage = std::size_t{64} << 10;  // the largest that a system has
constexpr std::size_t kHugePage = Pages::kHuge;
// From here on the system clears the memory page by page as it is used, not all of it at once.
constexpr std::size_t kMapped = std::size_t{128} << 10;

constexpr std::size_t round_up(std::size_t bytes, std::size_t page) {
  return (bytes + page - 1) / page * page;
}

// Returns a multiple of huge pages if that wastes little, else a multiple of small pages.
constexpr std::size_t mapped_size(std::size_t bytes) {
  const std::size_t whole = round_up(bytes, kHugePage);
  return whole - bytes <= bytes / 8 ? whole : round_up(bytes, kSmallPage);
}

std::byte* map(std::size_t bytes) {
  void* const region =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(region);
}

// Maps `bytes` at a multiple of kHugePage.
std::byte* map_aligned(std::size_t bytes) {
  std::byte* const begin = map(bytes + kHugePage);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(begin) & (kHugePage - 1);
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + bytes, kHugePage - before);
#ifdef MADV_HUGEPAGE
  ::madvise(begin + before, bytes, MADV_HUGEPAGE);  // if it fails, the pages are small
#endif
  return begin + before;
}

}  // namespace

Pages::Pages(std::size_t bytes) {
  if (bytes >= kHugePage) {
    mapped_ = mapped_size(bytes);
    data_ = map_aligned(mapped_);
    return;
  }
  if (bytes >= kMapped) {
    mapped_ = round_up(bytes, kSmallPage);
    data_ = map(mapped_);
    return;
  }
  if (bytes >= 2 * kPage) bytes = whole_ = round_up(bytes, kPage);
  const auto align = static_cast<std::align_val_t>(whole_ > 0 ? kPage : kCacheLine);
  data_ = static_cast<std::byte*>(::operator new(bytes, align));
  std::memset(data_, 0, bytes);
}

Pages::~Pages() {
  if (mapped_ > 0) {
    ::munmap(data_, mapped_);
  } else if (data_ != nullptr) {
    ::operator delete(data_, static_cast<std::align_val_t>(whole_ > 0 ? kPage : kCacheLine));
  }
}

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      whole_(std::exchange(other.whole_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapped_, other.mapped_);
  std::swap(whole_, other.whole_);
  return *this;
}

void Pages::release(std::size_t first, std::size_t last) noexcept {
  if (mapped_ > 0) ::madvise(data_ + first, last - first, MADV_DONTNEED);
}

bool Pages::release() noexcept {
  const std::size_t bytes = mapped_ + whole_;  // one of them is 0
  return bytes > 0 && ::madvise(data_, bytes, MADV_DONTNEED) == 0;
}

}  // namespace sluice::memory
