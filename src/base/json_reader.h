#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/quoted.h"

// Reads JSON (RFC 8259 in UTF-8) by tables of the members that its objects may have. A source that
// calls read() includes json_reader_impl.h.
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
  // The same by the whole path: "'limits.user' is wrong; expected ..." If the document is no object
  // at all, `otherwise`.
  std::string message_by_path(std::string_view otherwise) const;

 private:
  std::string text() const;
};

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
  const JsonMember* each = nullptr;  // of an array
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

// The usual function of a row: sets a member of the document to the text or the number of the
// value, or a flag to true; or calls a member function.
template <auto Member, typename Document>
bool json_into(Document& document, const JsonValue& value, JsonProblem& problem) {
  if constexpr (std::is_member_function_pointer_v<decltype(Member)>) {
    return (document.*Member)(value, problem);
  } else if constexpr (std::is_same_v<decltype(document.*Member), bool&>) {
    return document.*Member = true;
  } else if constexpr (std::is_assignable_v<decltype(document.*Member), std::string_view>) {
    document.*Member = value.text;
  } else {
    document.*Member = value.number;
  }
  return true;
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

}  // namespace sluice::base
