#include "server/net/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice::server::net {
namespace {

Unexpected<std::string> cannot(const char* what, const std::string& name) {
  return {std::string("cannot ") + what + " " + name + ": " +
          std::generic_category().message(errno) +
          "; expected a file that this user may write, or a folder in which it may create one"};
}

bool are_same_file(int a, int b) {
  struct stat first = {}, second = {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Expected<std::optional<FileDescriptor>> try_lock(const std::string& path,
                                                 std::vector<FileDescriptor> inherited) {
  const std::string name = path + ".lock";
  FileDescriptor lock(
      ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (lock.get() < 0) return cannot("open", name);
  for (FileDescriptor& one : inherited) {
    if (are_same_file(one.get(), lock.get())) std::swap(one, lock);
  }
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return std::optional(std::move(lock));
  if (errno != EWOULDBLOCK) return cannot("lock", name);
  return std::optional<FileDescriptor>();
}

}  // namespace sluice::server::net
