#pragma once

#include <boost/json/basic_parser_impl.hpp>
#include <limits>

#include "base/json_reader.h"

// The members of JsonReader. Whatever includes this links Boost::json.
namespace sluice::base {

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
    return (row_->kinds & kJsonText) != 0 ? set(kJsonText, all, 0, error) : wrong("text", error);
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
