#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rules/source_text.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

// Collects the errors of one file. Borrows its text.
class Diagnostics {
 public:
  Diagnostics(const SourceText& source, std::string_view file) : source_(&source), file_(file) {}

  // Adds an error at a byte of the text. After kMost errors, only counts them.
  void add(std::size_t at, std::string what, std::string expected = {});
  // The same for a message of the form "WHAT; EXPECTED".
  void add_message(std::size_t at, std::string_view message);

  bool empty() const noexcept { return found_.empty(); }
  const SourceText& source() const noexcept { return *source_; }
  const std::string& file() const noexcept { return file_; }
  // Returns all errors in file order without repetitions, and ends the collection.
  std::vector<RuleError> take();

  static constexpr std::size_t kMost = 1000;

 private:
  struct Found {
    std::size_t at;
    std::string what;
    std::string expected;
  };

  const SourceText* source_;
  std::string file_;
  std::vector<Found> found_;
  std::size_t left_out_ = 0;
};

// Joins the names: "a, b or c".
std::string either(const std::vector<std::string_view>& names);

// Returns "; did you mean 'limit'?" if one of the names is similar to `mistaken`, else "".
std::string did_you_mean(std::string_view mistaken, const std::vector<std::string_view>& names);

}  // namespace sluice::rules
