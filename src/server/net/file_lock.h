#pragma once

#include <optional>
#include <string>
#include <utility>

#include "sluice/expected.h"

namespace sluice::server::net {

// The lock of a file that several processes may replace: an exclusive lock of the file PATH.lock next
// to it, which only this user can open (mode 0600), and which stays there. Other users who can read
// the folder cannot hold it. It ends with this object or the process.
//
// Thread-safety: one thread at a time.
class FileLock {
 public:
  // Takes the lock. Never waits. Returns nothing if another process or another FileLock has it.
  // Errors: PATH.lock cannot be opened or locked.
  static Expected<std::optional<FileLock>> try_take(const std::string& path);

  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int descriptor) noexcept : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace sluice::server::net
