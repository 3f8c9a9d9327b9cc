#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rules/networks.h"
#include "sluice/expected.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// A set of texts, each of at most 65535 bytes.
//
// All texts are in one string, each after its length. An open hash table of 8 bytes a slot finds
// them: 32 bits of the hash and the offset.
//
// Thread-safety: contains() from any thread once build() was called. Cost: for each text its bytes,
// 2 bytes, and 11 to 22 bytes of the table; at most 4 GiB of texts.
class TextSet {
 public:
  // Returns false if the set has no room for it.
  bool add(std::string_view text);
  // Call it after the last add() and before the first contains().
  void build();
  bool contains(std::string_view text) const noexcept;
  bool empty() const noexcept { return count_ == 0; }
  std::size_t bytes() const noexcept {
    return texts_.capacity() + slots_.capacity() * sizeof(std::uint64_t);
  }

 private:
  static constexpr std::size_t kLengthBytes = 2;
  std::string_view at(std::size_t offset) const noexcept;
  void insert(std::size_t offset) noexcept;

  std::string texts_;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> slots_;  // hash << 32 | (offset + 1); 0: free
};

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
  // Returns the list of a file, to which `add` adds an entry. Lists are known by their paths.
  template <typename Set>
  using Lists = std::map<std::string, std::shared_ptr<const Set>>;
  template <typename Set>
  Expected<std::shared_ptr<const Set>> list(const std::string& path, Lists<Set>& known,
                                            std::string (*add)(Set& set, std::string_view entry));
  void add_error(const std::string& path, std::size_t line, std::size_t column,
                 std::string_view message);

  std::function<void(const std::string&)> before_;
  Lists<NetworkSet> networks_;
  Lists<TextSet> texts_;
  std::vector<RuleError> errors_;
  std::size_t errors_of_file_ = 0;
};

}  // namespace sluice::rules
