#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace sluice::detail {

// An open file or socket, closed by the destructor. Negative: there is none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A file that takes the place of another one when it is complete. Until then it is PATH.tmp, which
// only this user can read. Every member throws std::system_error.
class ReplacementFile {
 public:
  explicit ReplacementFile(std::string path);
  ~ReplacementFile();  // removes PATH.tmp, unless replace() has succeeded
  ReplacementFile(const ReplacementFile&) = delete;
  ReplacementFile& operator=(const ReplacementFile&) = delete;

  void write(std::span<const std::byte> bytes);
  // Flushes the file to the disk and renames it, so that after a crash the path is the old file or
  // the new one, whole.
  void replace();
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  const std::string path_;
  const std::string temporary_;
  const FileDescriptor file_;
  std::uint64_t bytes_ = 0;
  bool is_done_ = false;
};

}  // namespace sluice::detail
