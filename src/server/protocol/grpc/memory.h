#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::server::grpc {

// The memory that nghttp2 asks for, of the sessions of one event loop: small blocks are kept and
// used again, and the large ones of a session lie where its idle parts take no memory at all.
//
// A session asks at once for itself (some 3 KB), a table of its streams (4 KB) and a frame's room
// (16 KB), of which an idle one needs the first alone. They get six pages of their own: the session
// with the head of the room behind it, the rest of the room, and the table. Pages that were never
// written cost nothing. Whatever asks for other sizes gets blocks of its own: all this changes what
// a session costs, not whether it works.
//
// Thread-safety: the loop's thread only. Ownership: outlives the sessions. Small blocks are given
// back with the destruction, sessions at once. Cost: some ten instructions a block.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For nghttp2_session_server_new3(). Null, nghttp2's own, where a sanitizer is to see each block.
  nghttp2_mem* get() noexcept;

  // The session has nothing to do: gives back a table that holds nothing. Cost: a call of the
  // kernel at most.
  static void idle(nghttp2_session* session) noexcept;

  // What nghttp2 calls; null where there is no memory.
  void* allocate(std::size_t size) noexcept;
  void* allocate_zeros(std::size_t size) noexcept;
  void* reallocate(void* block, std::size_t size) noexcept;
  void release(void* block) noexcept;

 private:
  struct Head;
  struct FreeUnmapped {
    void operator()(void* at) const noexcept;
  };

  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kMostSmall = 1040;

  void* take_small(std::size_t place) noexcept;
  void* take_from_heap(std::size_t size) noexcept;
  void* take_slot(std::size_t size) noexcept;
  void* take_part(std::size_t size, bool zeros) noexcept;
  std::byte* new_slot() noexcept;
  void drop_part(std::byte* slot) noexcept;

  std::array<void*, kMostSmall / kStep + 1> free_{};  // the first of each list
  std::byte* next_ = nullptr;                         // of the chunk of small blocks
  std::size_t left_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<void, FreeUnmapped>> regions_;  // of slots
  std::vector<std::byte*> slots_;                             // that are free
  std::byte* young_ = nullptr;  // the slot whose session asks for its parts
  nghttp2_mem interface_;
};

}  // namespace sluice::server::grpc
