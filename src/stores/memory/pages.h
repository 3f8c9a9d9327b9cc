#pragma once

#include <cstddef>

namespace sluice::memory {

// Zeroed memory for a table, aligned to a cache line; from 2 MiB on in pages of 2 MiB where the
// system has them to give, as random look-ups would else spend their time in page tables.
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

 private:
  std::byte* data_ = nullptr;
  std::size_t mapped_ = 0;  // bytes from mmap; 0: from operator new
};

}  // namespace sluice::memory
