#include "server/net/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace sluice::server::net {
namespace {

Unexpected<std::string> cannot(const char* what, const std::string& name) {
  return {std::string("cannot ") + what + " " + name + ": " +
          std::generic_category().message(errno) +
          "; expected a file that this user may write, or a folder in which it may create one"};
}

}  // namespace

Expected<std::optional<FileLock>> FileLock::try_take(const std::string& path) {
  const std::string name = path + ".lock";
  FileLock lock(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (lock.descriptor_ < 0) return cannot("open", name);
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(lock));
  if (errno != EWOULDBLOCK) return cannot("lock", name);
  return std::optional<FileLock>();
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace sluice::server::net
