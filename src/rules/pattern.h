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

// A pattern of `match`, compiled (docs/rules.md, Matching):
//
//   text     exactly that
//   *        any characters; in a pattern that begins with '/', any but '/', and at least one where
//            it stands for a whole segment
//   **       any characters, '/' too; a segment '/**' also stands for nothing
//   ~regex   RE2, of the whole value
//
// Thread-safety: const, so any thread. Cost: comparing text, time linear in the value unless a star
// has to be tried at several places of one segment; a regex allocates at times.
class Pattern {
 public:
  // Errors: "WHAT; EXPECTED".
  static Expected<Pattern> compile(std::string_view text);

  bool matches(std::string_view value) const;
  // Whether RE2 does the matching.
  bool is_expression() const noexcept { return kind_ == Kind::kRegex; }

 private:
  enum class Kind { kExact, kPrefix, kBelow, kStars, kSegments, kRegex };
  // The text between stars: begins with the first, ends with the last, the others in between.
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
  bool open_ended_ = false;  // kSegments: '/**' at the end
  std::string text_;         // kExact, kPrefix; kBelow: without the slash
  std::vector<Pieces> segments_;
  std::shared_ptr<const re2::RE2> regex_;
  std::shared_ptr<const re2::RE2> byte_regex_;  // the same for values that are not UTF-8
};

}  // namespace sluice::rules
