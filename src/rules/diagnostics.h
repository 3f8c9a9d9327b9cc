#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rules/source_text.h"
#include "sluice/rules.h"

namespace sluice::rules {

// Collects what is wrong with one file. Borrows its text.
class Diagnostics {
 public:
  Diagnostics(const SourceText& source, std::string_view file) : source_(&source), file_(file) {}

  // At a byte of the text. Past kMost errors, only counts.
  void add(std::size_t at, std::string what, std::string expected = {});
  // As above, of a message "WHAT; EXPECTED".
  void add_message(std::size_t at, std::string_view message);

  bool empty() const noexcept { return found_.empty(); }
  const SourceText& source() const noexcept { return *source_; }
  const std::string& file() const noexcept { return file_; }
  // All of them in the order of the file, each once. Ends the collection.
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

// "a, b or c".
std::string either(const std::vector<std::string_view>& names);

// "; did you mean 'limit'?" where one of the names is near to a mistaken one, else empty.
std::string did_you_mean(std::string_view mistaken, const std::vector<std::string_view>& names);

}  // namespace sluice::rules
