#include "server/rules/shared_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

FolderLock::FolderLock(const std::string& path) noexcept {
  if (path.empty()) return;
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  fd_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (fd_ >= 0 && ::flock(fd_, LOCK_EX) != 0 && errno == EINTR) continue;
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace sluice::server
