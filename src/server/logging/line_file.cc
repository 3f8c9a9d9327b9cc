#include "server/logging/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice::server {
namespace {

std::string reason() { return std::generic_category().message(errno); }

}  // namespace

// Opening a FIFO must not block.
std::string LineFile::open() {
  const int flags =
      (reads_ ? O_RDWR : O_WRONLY) | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  detail::FileDescriptor opened(::open(path_.c_str(), flags, S_IRUSR | S_IWUSR));
  if (opened.get() < 0) return failure(reason());
  struct stat now = {};
  if (fstat(opened.get(), &now) != 0 || !S_ISREG(now.st_mode)) {
    return failure("it is not a regular file");
  }
  is_shared_ = (now.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  file_ = std::move(opened);
  size_ = static_cast<std::uint64_t>(now.st_size);
  return {};
}

bool LineFile::is_elsewhere() {
  struct stat ours = {}, named = {};
  if (fstat(descriptor(), &ours) != 0) return true;
  size_ = static_cast<std::uint64_t>(ours.st_size);
  if (::stat(path_.c_str(), &named) != 0) return true;
  return ours.st_ino != named.st_ino || ours.st_dev != named.st_dev;
}

std::string LineFile::append(std::array<std::string_view, 2> lines) {
  std::array<iovec, 2> pieces{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i] = {const_cast<char*>(lines[i].data()), lines[i].size()};
  }
  const auto written = ::writev(descriptor(), pieces.data(), static_cast<int>(pieces.size()));
  if (written == static_cast<ssize_t>(lines[0].size() + lines[1].size())) return {};
  if (written >= 0) errno = ENOSPC;
  auto failed = "cannot write " + path_ + ": " + reason();
  if (written > 0 && ::ftruncate(descriptor(), static_cast<off_t>(size_)) != 0) {
    failed += "; a part of a line is left in it";
  }
  return failed;
}

}  // namespace sluice::server
