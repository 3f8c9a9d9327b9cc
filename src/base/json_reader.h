#pragma once

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/quoted.h"

// Reads JSON (RFC 8259 in UTF-8) by tables of the members that its objects may have. Whatever
// includes this links Boost::json.
namespace sluice::base {

// What a value is. A row of a table allows several, as bits.
enum JsonKind : std::uint8_t {
  kJsonText = 1,
  kJsonNumber = 2,  // any number
  kJsonWhole = 4,   // in a table: a whole number from 0 to `most`
  kJsonTrue = 8,
  kJsonFalse = 16,
  kJsonNull = 32,
  kJsonObject = 64,
  kJsonArray = 128,
  kJsonAny = 255 - kJsonWhole,
};

struct JsonValue {
  JsonKind kind = kJsonNull;
  std::string_view name = {};  // of the member; empty in an array and at the top
  std::string_view text = {};  // of a text; a number, true, false or null as it is written
  std::uint64_t number = 0;    // kJsonWhole
};

// What is wrong with a document.
struct JsonProblem {
  enum class Kind : std::uint8_t {
    kOther,    // `what`
    kSyntax,   // it is not JSON at the byte `at`: `what` is the parser's text
    kTooDeep,  // over JsonReader::kMostDepth levels at the byte `at`
    kUnknown,  // no row has the member `name`
    kTwice,    // the member `name` is repeated
    kMissing,
    kValue,  // a value of a wrong kind or out of range: `what` describes it, "-1" or "text"
  };

  Kind kind = Kind::kOther;
  bool of_outer = false;  // it is the mistake of the object or array around the value
  std::string place;      // "[1].costs"; empty: the top. Below a map, the place of the map
  std::string inner;      // the place in the map
  std::string name;
  std::string what;
  std::string right;  // "expected ..."
  std::size_t at = 0;

  // For functions of a table: these return false.
  bool is(std::string_view found, std::string_view expected) {
    what = found;
    right = expected;
    return false;
  }
  bool is_outer(std::string_view found, std::string_view expected) {
    of_outer = true;
    return is(found, expected);
  }
  bool is_of(std::string_view member, std::string_view found, std::string_view expected) {
    name = member;
    return is(found, expected);
  }
  bool is_missing(std::string_view member, std::string_view expected) {
    kind = Kind::kMissing;
    return is_of(member, {}, expected);
  }
  bool is_twice(std::string_view member) {
    kind = Kind::kTwice;
    of_outer = true;
    return is_of(member, {}, "expected it once");
  }
  bool is_value(std::string_view found, std::string_view expected) {
    kind = Kind::kValue;
    return is(found, expected);
  }
  // "WHAT; EXPECTED", without the place: "found text; expected a number".
  std::string message() const;
  // The same by the whole path: "'limits.user' is text; expected ..." If the document is no object
  // at all, `otherwise`.
  std::string message_by_path(std::string_view otherwise) const;

 private:
  std::string text() const;
};

inline std::string JsonProblem::text() const {
  switch (kind) {
    case Kind::kUnknown: return "unknown member " + in_quotes(name);
    case Kind::kTwice: return "the member " + in_quotes(name) + " is given twice";
    case Kind::kMissing: return "missing";
    case Kind::kValue: return inner.empty() ? "found " + what : in_quotes(inner) + " is " + what;
    case Kind::kOther:
    case Kind::kSyntax:
    case Kind::kTooDeep: break;
  }
  return what;
}

inline std::string JsonProblem::message() const {
  return text() + (right.empty() ? "" : "; " + right);
}

inline std::string JsonProblem::message_by_path(std::string_view otherwise) const {
  std::string path = place;
  for (const std::string& part : {inner, name}) {
    if (!part.empty()) path.append(path.empty() ? "" : ".").append(part);
  }
  switch (kind) {
    case Kind::kSyntax:
    case Kind::kTooDeep: return std::string(otherwise);
    case Kind::kUnknown: return "unknown member " + in_quotes(path) + "; " + right;
    case Kind::kTwice: return "the member " + in_quotes(path) + " is given twice; " + right;
    case Kind::kOther: return message();
    case Kind::kMissing:
    case Kind::kValue: break;
  }
  if (path.empty()) return std::string(otherwise);
  return in_quotes(path) + " is " + (kind == Kind::kMissing ? "missing" : what) + "; " + right;
}

template <typename Document>
struct JsonObject;

// A row of a table: a member of an object. Also describes the elements of an array, and the top.
template <typename Document>
struct JsonMember {
  std::string_view name = {};      // empty: every name that no row before has
  unsigned kinds = 0;              // bits of JsonKind
  std::string_view expected = {};  // what a value should be, for errors
  // Takes a value, or begins an object or array. Returns false after describing a problem. Null:
  // nothing to do.
  bool (*set)(Document& document, const JsonValue& value, JsonProblem& problem) = nullptr;
  std::uint64_t most = 0;  // kJsonWhole
  bool required = false;
  const JsonObject<Document>* object = nullptr;
  const JsonMember* each = nullptr;               // of an array
  std::span<const std::string_view> one_of = {};  // the texts that it can be; empty: any
};

// What an object may contain.
template <typename Document>
struct JsonObject {
  using End = bool (*)(Document& document, JsonProblem& problem);

  constexpr explicit JsonObject(std::span<const JsonMember<Document>> rows, End check = nullptr,
                                bool map = false, std::string_view expected_members = {})
      : members(rows), end(check), is_map(map), expected(expected_members) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].required) required |= std::uint32_t{1} << i;
    }
  }

  std::span<const JsonMember<Document>> members;  // at most 32
  // Checks the object at its end. Returns false after describing a problem, of one member if it
  // sets its name.
  End end;
  // The names are of the client's choice: errors quote them behind the place of the object. The
  // row for all names must refuse repeated ones itself.
  bool is_map;
  std::string_view expected;   // which members, for errors; empty: a list of their names
  std::uint32_t required = 0;  // bits of the rows
};

// The usual function of a row. It sets a member of the document, or a member of that one, to the
// text or the number of the value. A flag becomes false only if the value is `false`. If it is a
// member function, it is called.
template <auto First, auto... Rest>
bool json_into(auto& document, const JsonValue& value, [[maybe_unused]] JsonProblem& problem) {
  if constexpr (std::is_member_function_pointer_v<decltype(First)>) {
    return (document.*First)(value, problem);
  } else {
    auto& member = ((document.*First).*....*Rest);
    if constexpr (std::is_same_v<decltype(member), bool&>) {
      member = value.kind != kJsonFalse;
    } else if constexpr (std::is_assignable_v<decltype(member), std::string_view>) {
      member = value.text;
    } else {
      member = value.number;
    }
    return true;
  }
}

// Reads documents into a `Document` that the functions of the table fill. The texts of values are
// views of the document, or of the reader until its next document.
//
// Use one for each thread. Cost: a few instructions for each byte; allocates nothing once its
// buffers have grown, unless there is a problem.
template <typename Document>
class JsonReader {
 public:
  static constexpr std::size_t kMostDepth = 32;

  // Returns false if the document has a problem. The end of an object at the top is checked last,
  // after the syntax of the whole document.
  bool read(std::string_view json, const JsonMember<Document>& top, Document& into,
            JsonProblem& problem);

 private:
  using Member = JsonMember<Document>;
  class Handler;

  // An open object or array, or the document around them.
  struct Level {
    const Member* row = nullptr;  // of the object or array itself
    bool is_array = true;
    std::uint32_t seen = 0;      // object: bits of the rows whose members were given
    std::size_t values = 0;      // how many have begun
    std::string_view name = {};  // object: of the current member
  };

  std::array<Level, kMostDepth + 1> levels_;
  std::string text_;  // names and values that differ from their bytes in the document
};

// Receives the parts of a document as they are read. basic_parser prescribes the names of the
// members; reading ends if one returns false.
template <typename Document>
class JsonReader<Document>::Handler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  using Error = boost::json::error_code;
  using Text = boost::json::string_view;

  Handler(JsonReader& reader, std::string_view json, const Member& top, Document& into,
          JsonProblem& problem)
      : outer_(reader.levels_.data()),
        level_(outer_),
        text_(reader.text_),
        json_(json),
        row_(&top),
        into_(into),
        problem_(problem) {
    *outer_ = {};
  }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error& error) {
    if (!take(kJsonObject, "an object", error)) return false;
    *++level_ = {.row = row_, .is_array = false};
    return true;
  }
  bool on_object_end(std::size_t, Error& error) {
    if (level_ == outer_ + 1) return true;  // see finish()
    return end_object(error) && close();
  }
  bool on_array_begin(Error& error) {
    if (!take(kJsonArray, "an array", error)) return false;
    *++level_ = {.row = row_};
    row_ = row_->each;
    return true;
  }
  bool on_array_end(std::size_t, Error&) { return level_ == outer_ + 1 || close(); }
  bool on_key_part(Text text, std::size_t, Error&) { return part(text); }
  bool on_key(Text text, std::size_t, Error& error);
  bool on_string_part(Text text, std::size_t, Error&) { return part(text); }
  bool on_string(Text text, std::size_t, Error& error) {
    const std::string_view all = whole(text);
    if ((row_->kinds & kJsonText) == 0) return wrong("text", error);
    const auto is_all = [all](std::string_view one) { return one == all; };
    const bool is_known = row_->one_of.empty() || std::ranges::any_of(row_->one_of, is_all);
    return is_known ? set(kJsonText, all, 0, error) : wrong(in_quotes(all), error);
  }
  bool on_number_part(Text text, Error&) { return part(text); }
  bool on_int64(std::int64_t number, Text text, Error& error) {
    return take_number(whole(text), number, error);
  }
  bool on_uint64(std::uint64_t, Text text, Error& error) {
    return take_number(whole(text), -1, error);
  }
  bool on_double(double, Text text, Error& error) { return take_number(whole(text), -1, error); }
  bool on_bool(bool value, Error& error) {
    return value ? take(kJsonTrue, "true", error) : take(kJsonFalse, "false", error);
  }
  bool on_null(Error& error) { return take(kJsonNull, "null", error); }
  bool on_comment_part(Text, Error&) { return true; }
  bool on_comment(Text, Error&) { return true; }

  bool has_failed() const noexcept { return has_failed_; }
  // Checks the end of an object at the top.
  bool finish(Error& error) { return level_ == outer_ || outer_[1].is_array || end_object(error); }

 private:
  bool part(Text text) {
    text_.append(text.data(), text.size());
    return true;
  }
  // Returns a whole string, whose beginning may have been passed to on_..._part().
  std::string_view whole(Text text) {
    const auto at = reinterpret_cast<std::uintptr_t>(text.data()) -
                    reinterpret_cast<std::uintptr_t>(json_.data());
    const bool is_as_written = at < json_.size() && text_.size() == unfinished_;
    return is_as_written ? std::string_view(text.data(), text.size()) : copied(text);
  }
  std::string_view copied(Text text);
  // Takes a value whose text is also how errors name it.
  bool take(JsonKind kind, std::string_view text, Error& error) {
    return (row_->kinds & kind) != 0 ? set(kind, text, 0, error) : wrong(text, error);
  }
  bool take_number(std::string_view text, std::int64_t number, Error& error);
  bool set(JsonKind kind, std::string_view text, std::uint64_t number, Error& error) {
    ++level_->values;
    if (row_->set == nullptr) return true;
    if (row_->set(into_, {kind, level_->name, text, number}, problem_)) return true;
    return fail(problem_.of_outer ? level_ : level_ + 1, error);
  }
  bool wrong(std::string_view found, Error& error) {
    ++level_->values;
    problem_.is_value(found, row_->expected);
    return fail(level_ + 1, error);
  }
  bool end_object(Error& error);
  bool close() {
    --level_;
    if (level_->is_array) row_ = level_->row->each;
    return true;
  }
  bool fail(const Level* end, Error& error);

  Level* const outer_;  // the document itself
  Level* level_;        // the innermost
  std::string& text_;
  const std::string_view json_;
  const Member* row_;  // of the next value
  Document& into_;
  JsonProblem& problem_;
  std::size_t unfinished_ = 0;  // the place in `text_` where the parts of a string begin
  bool has_failed_ = false;
};

// The copies never move, because `text_` has room for the whole document.
template <typename Document>
std::string_view JsonReader<Document>::Handler::copied(Text text) {
  text_.append(text.data(), text.size());
  const std::string_view all = std::string_view(text_).substr(unfinished_);
  unfinished_ = text_.size();
  return all;
}

template <typename Document>
bool JsonReader<Document>::Handler::on_key(Text text, std::size_t, Error& error) {
  const std::string_view name = whole(text);
  const JsonObject<Document>& object = *level_->row->object;
  std::uint32_t bit = 1;
  for (const Member& member : object.members) {
    if (!member.name.empty() && member.name != name) {
      bit <<= 1;
      continue;
    }
    const bool is_twice = !member.name.empty() && (level_->seen & bit) != 0;
    level_->seen |= bit;
    level_->name = name;
    row_ = &member;
    if (!is_twice) return true;
    problem_.is_twice(name);
    return fail(level_, error);
  }
  std::string expected(object.expected);
  for (const Member& member : object.members) {
    if (!object.expected.empty()) break;
    expected.append(expected.empty() ? "expected one of: " : ", ").append(member.name);
  }
  problem_.kind = JsonProblem::Kind::kUnknown;
  problem_.is_of(name, {}, expected);
  return fail(level_, error);
}

template <typename Document>
bool JsonReader<Document>::Handler::take_number(std::string_view text, std::int64_t number,
                                                Error& error) {
  if ((row_->kinds & kJsonNumber) != 0) return set(kJsonNumber, text, 0, error);
  if ((row_->kinds & kJsonWhole) == 0) return wrong("a number", error);
  const auto whole = static_cast<std::uint64_t>(number);
  return number >= 0 && whole <= row_->most ? set(kJsonWhole, text, whole, error)
                                            : wrong(text.substr(0, 40), error);
}

template <typename Document>
bool JsonReader<Document>::Handler::end_object(Error& error) {
  const JsonObject<Document>& object = *level_->row->object;
  if ((object.required & ~level_->seen) != 0) {
    std::uint32_t left = object.required & ~level_->seen;
    const Member* missing = object.members.data();
    for (; (left & 1) == 0; left >>= 1) ++missing;
    problem_.is_missing(missing->name, missing->expected);
  } else if (object.end == nullptr || object.end(into_, problem_)) {
    return true;
  }
  return fail(level_, error);
}

// Completes the problem with the names in the levels before `end`.
template <typename Document>
bool JsonReader<Document>::Handler::fail(const Level* end, Error& error) {
  bool is_in_map = false;
  const auto add = [&](std::string_view name) {
    std::string& to = is_in_map ? problem_.inner : problem_.place;
    to.append(to.empty() ? "" : ".").append(name);
  };
  for (const Level* level = outer_ + 1; level < end; ++level) {
    if (level->is_array) {
      problem_.place += "[" + std::to_string(level->values - 1) + "]";
    } else {
      is_in_map |= level->row->object->is_map;
      add(level->name);
    }
  }
  const bool is_of_member =
      problem_.kind == JsonProblem::Kind::kOther || problem_.kind == JsonProblem::Kind::kMissing;
  if (is_of_member && !problem_.name.empty()) {
    add(problem_.name);
    problem_.name.clear();
  }
  has_failed_ = true;
  error = boost::json::error::extra_data;  // ends the reading; never reported
  return false;
}

template <typename Document>
bool JsonReader<Document>::read(std::string_view json, const JsonMember<Document>& top,
                                Document& into, JsonProblem& problem) {
  text_.clear();
  text_.reserve(json.size());
  boost::json::parse_options options;
  options.max_depth = kMostDepth;
  boost::json::basic_parser<Handler> parser(options, *this, json, top, into, problem);
  boost::json::error_code error;
  const std::size_t at = parser.write_some(false, json.data(), json.size(), error);
  if (parser.handler().has_failed()) return false;
  if (!error && at < json.size()) error = boost::json::error::extra_data;
  if (!error) return parser.handler().finish(error);
  problem.kind = error == boost::json::error::too_deep ? JsonProblem::Kind::kTooDeep
                                                       : JsonProblem::Kind::kSyntax;
  problem.what = error.message();
  problem.at = at;
  return false;
}

}  // namespace sluice::base
