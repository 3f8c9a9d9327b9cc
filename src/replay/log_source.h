#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sluice/expected.h"

namespace sluice::replay {

// How far the file under a source has been read.
struct FileProgress {
  std::uint64_t read = 0;               // bytes of the file, as it lies there
  std::optional<std::uint64_t> size{};  // absent for pipes
};

// The bytes of a log, in order, inflated where the file is gzip (which its first bytes tell, not
// its name). Not thread-safe.
class LogSource {
 public:
  virtual ~LogSource() = default;

  // Fills the front of `into`, which is not empty; 0 bytes: the end. Errors: what is wrong with the
  // file, without its name. All that could be read before it has been handed out.
  virtual Expected<std::size_t> read(std::span<char> into) = 0;
  virtual FileProgress progress() const = 0;
};

// Opens a file, or standard input for "-". Errors: why it cannot be read, without its name.
Expected<std::unique_ptr<LogSource>> open_log(const std::string& path);

}  // namespace sluice::replay
