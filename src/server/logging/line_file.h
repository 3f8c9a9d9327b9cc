#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "limiter/replacement_file.h"

namespace sluice::server {

// A file of lines, mode 0600, to whose end this process writes. Errors are one line; empty: none.
class LineFile {
 public:
  // `use` is for errors, as in "cannot record in FILE".
  explicit LineFile(std::string path, std::string use, bool reads = false)
      : path_(std::move(path)), use_(std::move(use)), reads_(reads) {}

  const std::string& path() const noexcept { return path_; }
  int descriptor() const noexcept { return file_.get(); }
  // Its size before a write.
  std::uint64_t size() const noexcept { return size_; }
  // Whether other users may read or write it.
  bool is_shared() const noexcept { return is_shared_; }
  // "cannot USE FILE: WHY".
  std::string failure(std::string_view why) const {
    return "cannot " + use_ + " " + path_ + ": " + std::string(why);
  }

  // Opens the file at the path, or makes it.
  std::string open();
  // Whether the file was renamed or removed. Reads its size, to which another process may have
  // added.
  bool is_elsewhere();
  // Appends lines with one call, so that those of another process are whole, too. If only some
  // bytes fit, it removes them again.
  std::string append(std::array<std::string_view, 2> lines);

 private:
  const std::string path_;
  const std::string use_;
  const bool reads_;
  detail::FileDescriptor file_;
  std::uint64_t size_ = 0;
  bool is_shared_ = false;
};

}  // namespace sluice::server
