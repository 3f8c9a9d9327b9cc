#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/expected.h"

namespace re2 {
class RE2;
}

namespace sluice::rules {

// A compiled pattern of `match` (docs/rules.md, Matching):
//
//   text     exactly this text
//   *        any characters; in a pattern that begins with '/', any characters except '/', and at
//            least one character if it is a whole segment
//   **       any characters including '/'; a segment '/**' also matches nothing
//   ~regex   an RE2 expression that must match the whole value
//
// Thread-safety: immutable; use it from any thread. Cost: a text comparison, linear in the value
// unless one segment has several stars; a regex may allocate.
class Pattern {
 public:
  // Errors: "WHAT; EXPECTED".
  static Expected<Pattern> compile(std::string_view text);

  bool matches(std::string_view value) const;
  // Returns whether RE2 does the matching.
  bool is_expression() const noexcept { return kind_ == Kind::kRegex; }
  // Returns the instructions of its programs in RE2: the steps that a byte of a value may take.
  std::size_t instructions() const noexcept;

 private:
  enum class Kind { kExact, kPrefix, kBelow, kStars, kSegments, kRegex };
  // The texts between stars. A value begins with the first, ends with the last, and contains the
  // others in between.
  using Pieces = std::vector<std::string>;

  static Pattern glob(std::string_view text);
  static Pattern segments(std::string_view text);
  static Expected<Pattern> regex(const std::string& expression, std::string_view shown);
  static Pieces pieces(std::string_view text);
  static bool match_pieces(const Pieces& pieces, std::string_view value);
  static bool match_segment(const Pieces& pieces, std::string_view value);
  bool match_segments(std::string_view value) const;
  bool match_regex(std::string_view value) const;

  Kind kind_ = Kind::kExact;
  bool open_ended_ = false;  // kSegments: the pattern ends with '/**'
  std::string text_;         // kExact, kPrefix; kBelow: without the final slash
  std::vector<Pieces> segments_;
  std::shared_ptr<const re2::RE2> regex_;
  std::shared_ptr<const re2::RE2> byte_regex_;  // the same regex for values that are not UTF-8
};

}  // namespace sluice::rules
