#pragma once

#include <nghttp2/nghttp2.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::server::grpc {

// The memory of the nghttp2 sessions of one event loop. Small blocks are kept and used again. The
// large blocks of a session are placed so that the parts an idle session does not use take no
// memory.
//
// A session allocates itself (about 3 KB), a table of its streams (4 KB) and a frame buffer (16 KB)
// at once. An idle session needs only the first. The three blocks share a slot of six pages: the
// session with the beginning of the buffer, the rest of the buffer, and the table. Pages that were
// never written take no memory. Allocations of other sizes get blocks of their own. This layout
// changes only the memory that a session takes, not its behaviour.
//
// Thread-safety: the loop's thread only. Ownership: must outlive the sessions. Small blocks are
// returned to the system when the object is destroyed, sessions at once. Cost: about ten
// instructions for a block.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // For nghttp2_session_server_new3(). Returns null, which selects nghttp2's own allocator, in
  // builds with a sanitizer that should see each block.
  nghttp2_mem* get() noexcept;

  // Call it when the session has nothing to do. Returns an unused table to the system. Cost: at
  // most one system call.
  static void idle(nghttp2_session* session) noexcept;

  // The allocation functions of nghttp2. They return null if there is no memory.
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

  std::array<void*, kMostSmall / kStep + 1> free_{};  // the head of each list
  std::byte* next_ = nullptr;                         // in the chunk of small blocks
  std::size_t left_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<void, FreeUnmapped>> regions_;  // of slots
  std::vector<std::byte*> slots_;                             // the free slots
  std::byte* young_ = nullptr;  // the slot of the session that is being created
  nghttp2_mem interface_;
};

}  // namespace sluice::server::grpc
