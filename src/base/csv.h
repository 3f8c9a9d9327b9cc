#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Lines of CSV (RFC 4180), whose fields have no line breaks.
namespace sluice::base {

// Takes one field after the other from a line. Borrows the line.
class CsvFields {
 public:
  explicit CsvFields(std::string_view line, char separator = ',')
      : rest_(line), separator_(separator) {}

  // Sets `field`, without its quotes. Returns false after the last field and at a fault.
  bool next(std::string_view& field) {
    if (ended_) return false;
    doubled_ = false;
    is_quoted_ = rest_.starts_with('"');
    if (is_quoted_) return quoted(field);
    field = rest_.substr(0, rest_.find(separator_));
    return after(field.size());
  }
  // Whether the last field was in quotes.
  bool is_quoted() const { return is_quoted_; }
  // Whether the last field has quotes, which are written twice.
  bool doubled() const { return doubled_; }
  // What is wrong with the field after the last one, as "WHAT; EXPECTED"; empty: nothing.
  std::string_view error() const { return error_; }

 private:
  bool quoted(std::string_view& field) {
    std::size_t end = 1;
    for (; end < rest_.size(); ++end) {
      if (rest_[end] != '"') continue;
      if (end + 1 == rest_.size() || rest_[end + 1] != '"') break;
      doubled_ = true;
      ++end;
    }
    const bool has_text = end + 1 < rest_.size() && rest_[end + 1] != separator_;
    if (end >= rest_.size()) {
      error_ = "a quote is not closed; expected \" at the end of the field";
    } else if (has_text) {
      error_ = "text follows a closed quote; expected a comma, or \"\" for a quote";
    }
    ended_ = !error_.empty();
    if (ended_) return false;
    field = rest_.substr(1, end - 1);
    return after(end + 1);
  }

  bool after(std::size_t bytes) {
    ended_ = bytes >= rest_.size();
    rest_.remove_prefix(ended_ ? rest_.size() : bytes + 1);
    return true;
  }

  std::string_view rest_;
  char separator_;
  bool ended_ = false;
  bool doubled_ = false;
  bool is_quoted_ = false;
  std::string_view error_;
};

// Returns a field with each doubled quote once.
inline std::string undoubled(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

// Appends a field, in quotes if it needs them.
inline void append_csv_field(std::string& to, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == text.npos) {
    to += text;
    return;
  }
  to += '"';
  for (const char c : text) to.append(c == '"' ? 2 : 1, c);
  to += '"';
}

}  // namespace sluice::base
