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
  enum class State { kGoing, kMemberEnded, kCorrupt };
  struct Step {
    State state = State::kGoing;
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };

  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Prepares for the first byte of a member.
  void begin_member();
  // Inflates until `in` is empty, `out` is full, or the member ends.
  Step inflate(std::span<const char> in, std::span<char> out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::replay
