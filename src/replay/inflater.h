#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::replay {

// Inflates gzip members, one after the other, and checks the sum and the size at the end of each.
//
// ISA-L where it is available, else zlib; both behind this. Not thread-safe; holds about 150 KiB.
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

  // Makes ready for the first byte of a member.
  void begin_member();
  // Inflates until `in` is used up, `out` is full or the member ends.
  Step inflate(std::span<const char> in, std::span<char> out);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::replay
