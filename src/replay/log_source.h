#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sluice/expected.h"

namespace sluice::replay {

// The position in the file of a source.
struct FileProgress {
  std::uint64_t read = 0;               // bytes of the file, before inflating
  std::optional<std::uint64_t> size{};  // absent for pipes
};

// The bytes of a log, in order. A gzip file, recognized by its first bytes, is inflated. Not
// thread-safe.
class LogSource {
 public:
  virtual ~LogSource() = default;

  // Reads into the front of `into`, which must not be empty. Returns 0 at the end. Errors: what is
  // wrong with the file, without its name, after all bytes before the error were returned.
  virtual Expected<std::size_t> read(std::span<char> into) = 0;
  virtual FileProgress progress() const = 0;
};

// Opens a file, or standard input for "-". Errors: why the file cannot be read, without its name.
Expected<std::unique_ptr<LogSource>> open_log(const std::string& path);

}  // namespace sluice::replay
