#include "rules/rule_set.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/request_target.h"
#include "rules/diagnostics.h"

namespace sluice::rules {
namespace {

// What an expression and its automaton, which grows with the values it meets, may take.
constexpr std::int64_t kMostMemory = std::int64_t{512} << 10;
constexpr std::string_view kAnySegments = "/**";

// Converts a path pattern with '**' before its end into a regex.
std::string to_regex(std::string_view text) {
  std::string out;
  std::size_t at = 0;
  const auto rest_is = [&](std::string_view next) { return text.substr(at).starts_with(next); };
  while (at < text.size()) {
    const std::size_t after = at + kAnySegments.size();
    if (rest_is(kAnySegments) && (after == text.size() || text[after] == '/')) {
      out += "(?:/.*)?";
      at = after;
    } else if (rest_is("**")) {
      out += ".*";
      at += 2;
    } else if (rest_is("*")) {
      const bool whole = text[at - 1] == '/' && (at + 1 == text.size() || text[at + 1] == '/');
      out += whole ? "[^/]+" : "[^/]*";
      ++at;
    } else {
      const std::size_t end = std::min(text.find_first_of("*/", at + 1), text.size());
      out += re2::RE2::QuoteMeta(re2::StringPiece(text.data() + at, end - at));
      at = end;
    }
  }
  return out;
}

// Warns about an expression that matches no path, or only one text.
void warn_of_expression(bool of_path, std::string_view text, const Pattern& pattern, std::size_t at,
                        const Warn& warn) {
  std::string_view inside = text.substr(1);
  const bool begins = inside.starts_with('^');
  if (begins) inside.remove_prefix(1);
  std::string meant(inside);
  if (meant.find('|') != meant.npos) meant = "(" + meant + ")";
  meant = begins ? "~/" + meant : "~.*" + meant + ".*";
  if (of_path && pattern.matches_no_path()) {
    warn(at, "the expression " + in_quotes(text) + " matches no path: paths begin with '/'",
         "expected an expression for the whole path; did you mean " + in_quotes(meant) + "?");
  } else if (!of_path && inside.find_first_of("\\^$.|?*+()[]{}") == inside.npos) {
    warn(at, "the expression " + in_quotes(text) + " matches only " + in_quotes(inside),
         "expected an expression for the whole value; did you mean " + in_quotes(meant) + "?");
  }
}

}  // namespace

Expected<Pattern> Pattern::compile(std::string_view text) {
  if (text.starts_with('~')) return regex(std::string(text.substr(1)), text);
  if (text.find("***") != text.npos) {
    return Unexpected{"'***' in the pattern " + in_quotes(text) + "; expected '*' or '**'"};
  }
  if (text.find('*') == text.npos) {
    Pattern pattern;
    pattern.text_ = text;
    return pattern;
  }
  if (!text.starts_with('/')) return glob(text);
  const std::size_t many = text.find("**");
  const bool only_at_end = many == text.npos || many + 2 == text.size();
  const bool whole_segment = many == text.npos || text[many - 1] == '/';
  if (only_at_end && whole_segment) return segments(text);
  if (only_at_end && text.find('*') == many) return glob(text);
  return regex(to_regex(text), text);
}

Pattern Pattern::glob(std::string_view text) {
  Pattern pattern;
  const std::size_t star = text.find('*');
  if (text.find_first_not_of('*', star) == text.npos) {
    pattern.kind_ = Kind::kPrefix;
    pattern.text_ = text.substr(0, star);
    return pattern;
  }
  pattern.kind_ = Kind::kStars;
  pattern.segments_.push_back(pieces(text));
  return pattern;
}

Pattern Pattern::segments(std::string_view text) {
  Pattern pattern;
  pattern.open_ended_ = text.ends_with(kAnySegments);
  if (pattern.open_ended_) text.remove_suffix(kAnySegments.size());
  if (text.find('*') == text.npos) {
    pattern.kind_ = Kind::kBelow;
    pattern.text_ = text;
    return pattern;
  }
  pattern.kind_ = Kind::kSegments;
  text.remove_prefix(1);
  for (;;) {
    const std::size_t slash = text.find('/');
    pattern.segments_.push_back(pieces(text.substr(0, slash)));
    if (slash == text.npos) return pattern;
    text.remove_prefix(slash + 1);
  }
}

Expected<Pattern> Pattern::regex(const std::string& expression, std::string_view shown) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  options.set_never_capture(true);
  options.set_max_mem(kMostMemory);
  Pattern pattern;
  pattern.kind_ = Kind::kRegex;
  auto compiled = std::make_shared<re2::RE2>(expression, options);
  if (!compiled->ok()) {
    return Unexpected{"the regex " + in_quotes(shown) + " is not valid: " + compiled->error() +
                      "; expected an RE2 expression after '~'"};
  }
  pattern.regex_ = std::move(compiled);
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  compiled = std::make_shared<re2::RE2>(expression, options);
  if (compiled->ok()) pattern.byte_regex_ = std::move(compiled);
  return pattern;
}

std::size_t Pattern::instructions() const noexcept {
  std::size_t sum = 0;
  for (const auto& regex : {regex_, byte_regex_}) {
    if (regex != nullptr) sum += static_cast<std::size_t>(regex->ProgramSize());
  }
  return sum;
}

Pattern::Pieces Pattern::pieces(std::string_view text) {
  Pieces out;
  for (;;) {
    const std::size_t star = text.find('*');
    out.emplace_back(text.substr(0, star));
    if (star == text.npos) return out;
    text.remove_prefix(star + (text.substr(star).starts_with("**") ? 2 : 1));
  }
}

// The leftmost match of each piece suffices: it leaves the most text for the pieces after it.
bool Pattern::match_pieces(const Pieces& pieces, std::string_view value) {
  if (pieces.size() == 1) return value == pieces.front();
  if (!value.starts_with(pieces.front())) return false;
  value.remove_prefix(pieces.front().size());
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    const std::size_t at = value.find(pieces[i]);
    if (at == value.npos) return false;
    value.remove_prefix(at + pieces[i].size());
  }
  return value.ends_with(pieces.back());
}

bool Pattern::match_segment(const Pieces& pieces, std::string_view value) {
  const bool whole = pieces.size() == 2 && pieces.front().empty() && pieces.back().empty();
  return whole ? !value.empty() : match_pieces(pieces, value);
}

bool Pattern::match_segments(std::string_view value) const {
  if (!value.starts_with('/')) return false;
  value.remove_prefix(1);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::size_t slash = value.find('/');
    if (!match_segment(segments_[i], value.substr(0, slash))) return false;
    const bool last = i + 1 == segments_.size();
    if (slash == value.npos) return last;
    if (last) return open_ended_;
    value.remove_prefix(slash + 1);
  }
  return false;
}

// '.' does not match a byte of invalid UTF-8, so such a value could evade every regex. Therefore
// such values are matched as bytes.
bool Pattern::match_regex(std::string_view value) const {
  const re2::StringPiece piece(value.data(), value.size());
  if (re2::RE2::FullMatch(piece, *regex_)) return true;
  if (byte_regex_ == nullptr || find_invalid_utf8(value) == value.npos) return false;
  return re2::RE2::FullMatch(piece, *byte_regex_);
}

bool Pattern::matches(std::string_view value) const {
  switch (kind_) {
    case Kind::kExact: return value == text_;
    case Kind::kPrefix: return value.starts_with(text_);
    case Kind::kBelow:
      return value.starts_with(text_) &&
             (value.size() == text_.size() || value[text_.size()] == '/');
    case Kind::kStars: return match_pieces(segments_.front(), value);
    case Kind::kSegments: return match_segments(value);
    case Kind::kRegex: return match_regex(value);
  }
  return false;
}

// The text with which every value that it matches begins; "" if it is an expression.
std::string Pattern::literal_start() const {
  if (kind_ == Kind::kStars) return segments_.front().front();
  if (kind_ != Kind::kSegments) return kind_ == Kind::kRegex ? "" : text_;
  std::string start = "/";
  for (const Pieces& segment : segments_) {
    start += segment.front();
    if (segment.size() > 1) break;
    start += '/';
  }
  return start;
}

bool Pattern::covers(const Pattern& other) const {
  if (other.kind_ == Kind::kExact) return matches(other.text_);
  const std::string start = other.literal_start();
  if (kind_ == Kind::kPrefix) return start.starts_with(text_);
  if (kind_ == Kind::kBelow && other.kind_ == Kind::kBelow) return matches(start);
  if (kind_ == Kind::kBelow && other.kind_ != Kind::kPrefix) {
    return start.size() > text_.size() && start.starts_with(text_) && start[text_.size()] == '/';
  }
  return kind_ == other.kind_ && open_ended_ == other.open_ended_ && segments_ == other.segments_ &&
         (kind_ != Kind::kRegex || regex_->pattern() == other.regex_->pattern());
}

bool Pattern::matches_no_path() const {
  constexpr int kBytes = 4;  // of the least and the largest text that it matches
  std::string least, most;
  return is_expression() && regex_->PossibleMatchRange(&least, &most, kBytes) &&
         (most < "/" || least >= "0");  // the character after the slash
}

void warn_of_pattern(std::string_view attribute, std::string_view text, const Pattern& pattern,
                     std::size_t at, const Warn& warn) {
  const bool of_path = attribute == "path";
  // The name of a file may have others, such as full-width parentheses.
  const bool is_wide = of_path ? text.find("／") != text.npos || text.find("＊") != text.npos
                               : attribute == "method" || attribute == "host";
  if (const std::string narrow = half_width(text); is_wide && narrow != text) {
    return warn(at,
                "the " + std::string(attribute) + " " + in_quotes(text) +
                    " has full-width characters and matches no request",
                "expected ASCII characters; did you mean " + in_quotes(narrow) + "?");
  }
  if (pattern.is_expression() && text.starts_with('~')) {
    return warn_of_expression(of_path, text, pattern, at, warn);
  }
  std::string buffer;
  if (attribute == "host" && std::ranges::count(text, ':') <= 1) {
    if (const auto host = base::host_name(text, buffer); host != text) {
      warn(at, "the host " + in_quotes(text) + " matches no request of a gateway",
           "expected a host in lower case and without its port; did you mean " + in_quotes(host) +
               "?");
    }
  }
  if (!of_path) return;
  const std::size_t query = text.find('?');
  if (query != text.npos && text.find('=', query) != text.npos) {
    return warn(at, "the path " + in_quotes(text) + " seems to have a query, and paths have none",
                "expected the path alone, and a condition such as query.NAME");
  }
  if (text.starts_with('^') || text.ends_with('$')) {
    return warn(at, "the path " + in_quotes(text) + " seems to be a regular expression",
                "expected a pattern such as /users/**, or '~' before an expression; did you mean " +
                    in_quotes("~" + std::string(text) +
                              (text.ends_with('$') || text.ends_with(".*") ? "" : ".*")) +
                    "?");
  }
  if (text.starts_with('/')) {
    if (const auto path = base::normalized_path(text, buffer); path != text) {
      warn(at, "the path " + in_quotes(text) + " matches no request of a gateway",
           "expected a path without escapes such as %20, '//' and '..'; did you mean " +
               in_quotes(path) + "?");
    }
    return;
  }
  if (text.empty() || text.front() == '*') return;
  const std::size_t scheme = text.find("://");
  const std::size_t path = scheme == text.npos ? 0 : text.find('/', scheme + 3);
  warn(at, "the path " + in_quotes(text) + " matches no request: paths begin with '/'",
       "expected a pattern such as /login; did you mean " +
           in_quotes(scheme == text.npos ? "/" + std::string(text)
                     : path == text.npos ? "/"
                                         : std::string(text.substr(path))) +
           "?");
}

}  // namespace sluice::rules
