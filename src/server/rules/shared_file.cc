#include "server/rules/shared_file.h"

#include <sys/stat.h>

#include <cerrno>

namespace sluice::server {

FileMark FileMark::of(const std::string& path) noexcept {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) {
    return {.size = errno == ENOENT || errno == ENOTDIR ? kNoFile : kUnknown};
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {found.st_dev, found.st_ino, found.st_size,
          found.st_ctim.tv_sec * kNanoseconds + found.st_ctim.tv_nsec};
}

}  // namespace sluice::server
