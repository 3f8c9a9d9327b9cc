#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::replay {

// Inflates consecutive gzip members and verifies the checksum and the size of each.
//
// Uses ISA-L if it is available, otherwise zlib. Not thread-safe. Takes about 150 KiB.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Prepares for the first byte of a member.
  void begin_member();
  // Inflates until `in` is empty, `out` is full, or the member ends. Removes from `in` what it has
  // read. Returns the number of bytes in `out`.
  std::size_t inflate(std::span<const char>& in, std::span<char> out);
  // What the last call of inflate() has found.
  bool has_ended() const noexcept { return has_ended_; }  // the member
  bool is_corrupt() const noexcept { return is_corrupt_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  bool has_ended_ = false;
  bool is_corrupt_ = false;
};

}  // namespace sluice::replay
