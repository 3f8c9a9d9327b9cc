#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/rule_set.h"

namespace sluice::server {

// A text that rules were read from.
struct RulesText {
  std::string name;  // the file, or "built-in", or "PUT /v1/rules"
  std::string text;

  friend bool operator==(const RulesText&, const RulesText&) = default;
};

// Returns the texts for functions of rules. Borrows them.
std::vector<RuleText> views_of(const std::vector<RulesText>& texts);

// The attributes of a file, with symbolic links followed. They differ after the file was written in
// place or replaced, and after a link on the way was changed.
struct FileLook {
  std::string path;
  int error = 0;  // errno if the file cannot be examined; the other members are then zero
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t mode = 0;
  std::int64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  friend bool operator==(const FileLook&, const FileLook&) = default;
};
using Picture = std::vector<FileLook>;

FileLook look_at_file(std::string path);

// Returns the errors, one on each line.
std::string error_lines(const std::vector<RuleError>& errors);

// Examines files, and the *.yaml and *.yml files of directories in the order of their names. Hidden
// files and folders are skipped, so each file of a Kubernetes ConfigMap appears once.
Picture look_at(const std::vector<std::string>& paths);

// Examines the files of a picture again, and no others.
Picture look_again(const Picture& files);

// Returns whether the files `now` differ from the known ones and have not changed since the latest
// look, so that no file that is half-written is read. They are the known ones then.
bool has_settled(Picture now, Picture& latest, Picture& known);

// The contents of the files of one picture.
struct FilesRead {
  Picture picture;
  std::vector<RulesText> texts;
  std::vector<RuleError> errors;  // if any file cannot be read
};
// Reads each file once, at most one byte more than rules may have. If files change meanwhile, reads
// them again, so that all texts belong together.
FilesRead read_files(const std::vector<std::string>& paths);

}  // namespace sluice::server
