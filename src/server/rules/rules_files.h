#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::server {

// The text that rules were read from.
struct RulesText {
  std::string name;  // the file, or "built-in", or "PUT /v1/rules"
  std::string text;

  friend bool operator==(const RulesText&, const RulesText&) = default;
};

// What a file looked like, seen through symbolic links. Another content looks different, whether it
// was written in place, moved there, or a link on the way was turned.
struct FileLook {
  std::string path;
  int error = 0;  // errno where it cannot be seen; then the rest is zero
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t mode = 0;
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  friend bool operator==(const FileLook&, const FileLook&) = default;
};
using Picture = std::vector<FileLook>;

// Looks at files, and into directories: their *.yaml and *.yml in the order of their names, hidden
// files and folders left out (so of a Kubernetes ConfigMap the links to its files, each once).
Picture look_at(const std::vector<std::string>& paths);

// The files of one picture, read.
struct FilesRead {
  Picture picture;
  std::vector<RulesText> texts;
  std::vector<RuleError> errors;  // where any file cannot be read
};
// Each file is read once, at most a byte more than rules may have. Files that change meanwhile are
// read again, so that the texts belong together.
FilesRead read_files(const std::vector<std::string>& paths);

}  // namespace sluice::server
