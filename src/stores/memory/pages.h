#pragma once

#include <cstddef>

namespace sluice::memory {

// Zeroed memory for a table, aligned to a cache line. From 2 MiB on it is in pages of 2 MiB if the
// system provides them. With small pages, random look-ups spend most of their time in page tables.
//
// Owns the memory. Not thread-safe.
class Pages {
 public:
  Pages() = default;
  // Throws std::bad_alloc.
  explicit Pages(std::size_t bytes);
  ~Pages();
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;

  std::byte* data() const noexcept { return data_; }

  // Returns the memory from byte `first` to byte `last`, both multiples of kHuge, to the system. It
  // is zeroed memory again when it is used next. Memory of less than kHuge stays as it is.
  void release(std::size_t first, std::size_t last) noexcept;

  // Returns all of it to the system, which makes it zeroed memory again, if that is possible:
  // memory that is not small. Otherwise returns false.
  bool release() noexcept;

  static constexpr std::size_t kHuge = std::size_t{2} << 20;

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;  // bytes from mmap; 0: from operator new
  std::size_t whole_ = 0;   // bytes from operator new, if they are whole pages
};

}  // namespace sluice::memory
