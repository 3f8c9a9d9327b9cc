#include "server/protocol/grpc/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SLUICE_SEES_EACH_BLOCK 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SLUICE_SEES_EACH_BLOCK 1
#endif

namespace sluice::server::grpc {
namespace {

#ifdef SLUICE_SEES_EACH_BLOCK
constexpr bool kOwn = false;
#else
constexpr bool kOwn = true;
#endif

constexpr std::size_t kChunk = std::size_t{64} << 10;
// The layout of a slot: five pages for the session and the buffer that follows it, one for the
// table.
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTable = 5 * kPage;
constexpr std::size_t kSlot = 6 * kPage;
constexpr std::size_t kSlots = 42;  // slots of a region
// The sizes that identify the parts of a session.
constexpr std::size_t kLeastSession = 2000;
constexpr std::size_t kMostSession = 3800;
constexpr std::size_t kLeastRoom = std::size_t{16} << 10;

Memory& memory_of(void* user) { return *static_cast<Memory*>(user); }

}  // namespace

// Precedes each block. The head of a slot's table is always zero, because nothing writes there.
struct alignas(std::max_align_t) Memory::Head {
  enum Kind : std::uint32_t { kTableOfSlot, kSession, kRoom, kSmall, kHeap };
  Kind kind;
  std::uint32_t size;   // of the block; of a small block: the index of its list
  std::uint32_t where;  // of a buffer: its place in the slot
  std::uint32_t parts;  // of a session: how many parts of its slot are in use

  static Head& of(void* block) noexcept { return *(static_cast<Head*>(block) - 1); }
  void* block() noexcept { return this + 1; }
};

void Memory::FreeUnmapped::operator()(void* at) const noexcept { ::munmap(at, kSlots * kSlot); }

Memory::Memory() : interface_{this, nullptr, nullptr, nullptr, nullptr} {
  interface_.malloc = [](std::size_t size, void* user) { return memory_of(user).allocate(size); };
  interface_.free = [](void* block, void* user) { memory_of(user).release(block); };
  interface_.calloc = [](std::size_t count, std::size_t size, void* user) -> void* {
    std::size_t all = 0;
    if (__builtin_mul_overflow(count, size, &all)) return nullptr;
    return memory_of(user).allocate_zeros(all);
  };
  interface_.realloc = [](void* block, std::size_t size, void* user) {
    return memory_of(user).reallocate(block, size);
  };
}

Memory::~Memory() = default;

nghttp2_mem* Memory::get() noexcept { return kOwn ? &interface_ : nullptr; }

void* Memory::allocate(std::size_t size) noexcept {
  size = std::max<std::size_t>(size, 1);  // a free block must have room for a pointer
  if (size <= kMostSmall - sizeof(Head)) return take_small((size + sizeof(Head) - 1) / kStep);
  if (void* const part = take_part(size, false)) return part;
  return take_from_heap(size);
}

void* Memory::allocate_zeros(std::size_t size) noexcept {
  if (void* const part = take_part(size, true)) return part;
  void* const block = allocate(size);
  if (block != nullptr) std::memset(block, 0, size);
  return block;
}

void* Memory::take_small(std::size_t place) noexcept {
  if (void* const block = free_[place]) {
    std::memcpy(&free_[place], block, sizeof(void*));
    return block;
  }
  const std::size_t size = (place + 1) * kStep;
  if (left_ < size) {
    auto* const chunk = new (std::nothrow) std::byte[kChunk];
    if (chunk == nullptr) return nullptr;
    try {
      chunks_.emplace_back(chunk);
    } catch (const std::bad_alloc&) {
      delete[] chunk;
      return nullptr;
    }
    next_ = chunk;
    left_ = kChunk;
  }
  Head* const head = new (next_) Head{Head::kSmall, static_cast<std::uint32_t>(place), 0, 0};
  next_ += size;
  left_ -= size;
  return head->block();
}

void* Memory::take_from_heap(std::size_t size) noexcept {
  if (size > UINT32_MAX - sizeof(Head)) return nullptr;
  void* const at = std::malloc(size + sizeof(Head));
  if (at == nullptr) return nullptr;
  return (new (at) Head{Head::kHeap, static_cast<std::uint32_t>(size), 0, 0})->block();
}

// Returns a block for a part of the session that is being created, or null if there is no such
// session. A slot is all zeros when it is taken.
void* Memory::take_part(std::size_t size, bool zeros) noexcept {
  if (zeros && size >= kLeastSession && size <= kMostSession) return take_slot(size);
  if (young_ == nullptr) return nullptr;
  auto& session = *reinterpret_cast<Head*>(young_);
  if (zeros && size == kPage && session.where == 0) {
    session.where = 1;
    ++session.parts;
    return young_ + kTable;
  }
  const std::size_t where =
      sizeof(Head) + (session.size + sizeof(Head) - 1) / sizeof(Head) * sizeof(Head);
  if (zeros || size < kLeastRoom || where + sizeof(Head) + size > kTable - sizeof(Head)) {
    return nullptr;
  }
  ++session.parts;
  std::byte* const at = young_ + where;
  young_ = nullptr;
  return (new (at) Head{Head::kRoom, static_cast<std::uint32_t>(size),
                        static_cast<std::uint32_t>(where), 0})
      ->block();
}

void* Memory::take_slot(std::size_t size) noexcept {
  std::byte* const slot = new_slot();
  if (slot == nullptr) return nullptr;
  young_ = slot;
  return (new (slot) Head{Head::kSession, static_cast<std::uint32_t>(size), 0, 1})->block();
}

std::byte* Memory::new_slot() noexcept {
  if (slots_.empty()) {
    void* const at = ::mmap(nullptr, kSlots * kSlot, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    ::madvise(at, kSlots * kSlot, MADV_NOHUGEPAGE);  // huge pages would occupy unused memory
    std::unique_ptr<void, FreeUnmapped> own(at);
    try {
      slots_.reserve((regions_.size() + 1) * kSlots);
      regions_.push_back(std::move(own));
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    for (std::size_t i = kSlots; i > 0; --i) {
      slots_.push_back(static_cast<std::byte*>(at) + (i - 1) * kSlot);
    }
  }
  std::byte* const slot = slots_.back();
  slots_.pop_back();
  return slot;
}

void Memory::drop_part(std::byte* slot) noexcept {
  if (--reinterpret_cast<Head*>(slot)->parts > 0) return;
  if (slot == young_) young_ = nullptr;
  if (::madvise(slot, kSlot, MADV_DONTNEED) != 0) std::memset(slot, 0, kSlot);  // it is locked
  slots_.push_back(slot);
}

void Memory::release(void* block) noexcept {
  if (block == nullptr) return;
  Head& head = Head::of(block);
  auto* const at = reinterpret_cast<std::byte*>(&head);
  switch (head.kind) {
    case Head::kSmall:
      std::memcpy(block, &free_[head.size], sizeof(void*));
      free_[head.size] = block;
      return;
    case Head::kHeap: return std::free(at);
    case Head::kSession: return drop_part(at);
    case Head::kRoom: return drop_part(at - head.where);
    case Head::kTableOfSlot: return drop_part(static_cast<std::byte*>(block) - kTable);
  }
}

void* Memory::reallocate(void* block, std::size_t size) noexcept {
  if (block == nullptr) return allocate(size);
  const Head& head = Head::of(block);
  std::size_t room = head.size;
  if (head.kind == Head::kSmall) room = (head.size + 1) * kStep - sizeof(Head);
  if (head.kind == Head::kTableOfSlot) room = kPage;
  if (size <= room) return block;
  void* const larger = allocate(size);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, block, room);
  release(block);
  return larger;
}

void Memory::idle(nghttp2_session* session) noexcept {
  if (!kOwn) return;
  Head& head = Head::of(session);
  if (head.kind != Head::kSession || head.where == 0) return;
  std::byte* const table = reinterpret_cast<std::byte*>(&head) + kTable;
  // A page of zeros reads as zeros after it has been given back, too.
  if (*table == std::byte{0} && std::memcmp(table, table + 1, kPage - 1) == 0) {
    ::madvise(table, kPage, MADV_DONTNEED);
  }
}

}  // namespace sluice::server::grpc
