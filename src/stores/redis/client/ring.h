#pragma once

#include <cstddef>
#include <vector>

namespace sluice::redis {

// A queue in one block that only grows, so that a steady flow allocates nothing.
template <typename T>
class Ring {
 public:
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T& front() noexcept { return items_[first_]; }
  T& operator[](std::size_t i) noexcept { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& operator[](std::size_t i) const noexcept {
    return items_[(first_ + i) & (items_.size() - 1)];
  }

  void push_back(const T& item) {
    if (size_ == items_.size()) grow();
    ++size_;
    (*this)[size_ - 1] = item;
  }
  T pop_front() noexcept {
    const T item = front();
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
    return item;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 64 : 2 * items_.size());  // a power of two
    for (std::size_t i = 0; i < size_; ++i) larger[i] = (*this)[i];
    items_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace sluice::redis
