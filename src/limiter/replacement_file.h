#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sluice::detail {

// An open file, closed by the destructor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const noexcept { return fd_; }

 private:
  const int fd_;
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
