#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace sluice::server {

// Which version of a file is under a path: each new file has another mark. A plain value.
struct FileMark {
  // That of the file now; of no file if there is none.
  static FileMark of(const std::string& path) noexcept;

  static constexpr off_t kNoFile = -1, kUnknown = -2;

  dev_t device = 0;
  ino_t number = 0;
  off_t size = kNoFile;
  std::int64_t changed = 0;

  friend bool operator==(const FileMark&, const FileMark&) = default;
};

}  // namespace sluice::server
