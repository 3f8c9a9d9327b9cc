#include "limiter/replacement_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace sluice::detail {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int create(const std::string& path) {
  ::unlink(path.c_str());  // what a process that was killed has left
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash + 1);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

ReplacementFile::ReplacementFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".tmp"), file_(create(temporary_)) {
  if (file_.get() < 0) fail("cannot create " + temporary_);
}

ReplacementFile::~ReplacementFile() {
  if (!is_done_) ::unlink(temporary_.c_str());
}

void ReplacementFile::write(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write " + temporary_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void ReplacementFile::replace() {
  if (::fsync(file_.get()) != 0) fail("cannot flush " + temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename " + temporary_);
  is_done_ = true;
  const FileDescriptor folder(::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) fail("cannot flush the folder of " + path_);
}

}  // namespace sluice::detail
