#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/expected.h"

namespace sluice::server::net {

// The lock of a file that several processes may replace: an exclusive lock of the file PATH.lock
// next to it, which only this user can open (mode 0600), and which stays there. Other users who can
// read the folder cannot hold it. The lock ends with the last copy of its descriptor, so a process
// that has received a copy shares it.
//
// Thread-safety: one thread at a time.
class FileLock {
 public:
  // Takes the lock, from `inherited` if it is there. Never waits. Returns nothing if another
  // process or another FileLock has it. Errors: PATH.lock cannot be opened or locked.
  static Expected<std::optional<FileLock>> try_take(const std::string& path,
                                                    std::vector<FileLock> inherited = {});
  // Owns a descriptor that another process has sent.
  explicit FileLock(int descriptor) noexcept : descriptor_(descriptor) {}
  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock();

  int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace sluice::server::net
