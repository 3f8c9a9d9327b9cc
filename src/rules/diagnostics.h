#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/quoted.h"
#include "sluice/rule_set.h"

namespace sluice::rules {

using base::find_invalid_utf8;
using base::in_quotes;
using base::lower_case;

// The text of a file, and its errors. Borrows the text.
class Diagnostics {
 public:
  // text() omits a UTF-8 byte order mark at the start.
  Diagnostics(std::string_view bytes, std::string_view file);

  std::string_view text() const noexcept { return text_; }
  // Returns an error at the byte with that offset of text(), or at its end.
  RuleError error(std::size_t at, std::string what = {}, std::string expected = {}) const;
  // "line 3, column 8": the position of that error.
  std::string place(std::size_t at) const;

  // Adds such an error. After kMost errors, only counts them.
  void add(std::size_t at, std::string what, std::string expected = {});
  // The same for a message of the form "WHAT; EXPECTED".
  void add_message(std::size_t at, std::string_view message);

  bool empty() const noexcept { return found_.empty(); }
  const std::string& file() const noexcept { return file_; }
  // Returns all errors in file order without repetitions, and ends the collection.
  std::vector<RuleError> take();

  static constexpr std::size_t kMost = 1000;

 private:
  std::string_view text_;
  std::vector<std::size_t> lines_;  // the offset of each line
  std::string file_;
  std::vector<RuleError> found_;
  std::size_t left_out_ = 0;
};

// A byte of a file.
struct Place {
  const Diagnostics* file;
  std::size_t at;
};

// "RULE/LIMIT", as commands name a limit. That is the name of a limit without one: "RULE/0".
std::string full_name(std::string_view rule, std::string_view limit);

// Joins the names: "a, b or c".
template <typename Names>
std::string either(const Names& names) {
  return base::joined(names, " or ");
}

// Returns "; did you mean 'limit'?" if one of the names is similar to `mistaken`, else "".
std::string did_you_mean(std::string_view mistaken, const std::vector<std::string_view>& names);

// Returns "; did you mean ':' instead of the full-width '：'?" for the first full-width punctuation
// in `text` that looks like that of YAML, else "".
std::string full_width_hint(std::string_view text);

// Whether a byte of the text is a control character.
bool has_control(std::string_view text) noexcept;

// Returns the text with full-width characters and Chinese punctuation replaced by ASCII.
std::string half_width(std::string_view text);

}  // namespace sluice::rules
