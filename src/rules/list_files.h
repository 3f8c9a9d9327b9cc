#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rules/networks.h"
#include "rules/text_set.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Reads the list files of a set of rules, each once: one entry a line, `#` comments, blank lines.
//
// A file may have 512 MiB, and an entry 4096 bytes. Errors in the lines of a file are in errors(),
// at most 100 for each file; its list is then empty.
class ListFiles {
 public:
  // Calls `before`, if there is one, with each path before its file is read.
  explicit ListFiles(std::function<void(const std::string&)> before) : before_(std::move(before)) {}

  // Returns the entries of a file. Errors: why the file cannot be read.
  Expected<std::shared_ptr<const NetworkSet>> networks(const std::string& path);
  Expected<std::shared_ptr<const TextSet>> texts(const std::string& path);

  std::vector<RuleError> take_errors() { return std::move(errors_); }

 private:
  // Adds an entry to a list. Returns what is wrong with it as "WHAT; EXPECTED", or nothing.
  using Add = std::function<std::string(std::string_view entry)>;
  Expected<bool> read(const std::string& path, const Add& add);
  void add_error(const std::string& path, std::size_t line, std::size_t column,
                 std::string_view message);

  std::function<void(const std::string&)> before_;
  std::map<std::string, std::shared_ptr<const NetworkSet>> networks_;
  std::map<std::string, std::shared_ptr<const TextSet>> texts_;
  std::vector<RuleError> errors_;
  std::size_t errors_of_file_ = 0;
};

}  // namespace sluice::rules
