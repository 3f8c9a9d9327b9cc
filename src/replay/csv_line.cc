#include "replay/csv_line.h"

#include <algorithm>

namespace sluice::replay {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Takes one field after the other from a line.
class CsvFields {
 public:
  CsvFields(std::string_view line, char separator) : rest_(line), separator_(separator) {}

  // Sets `field`, without its quotes. Returns false after the last field and after an open quote.
  bool next(std::string_view& field) {
    if (ended_) return false;
    doubled_ = false;
    if (rest_.starts_with('"')) return quoted(field);
    field = rest_.substr(0, rest_.find(separator_));
    return after(field.size());
  }
  // Whether the last field has quotes, which are written twice.
  bool doubled() const { return doubled_; }
  bool open() const { return open_; }

 private:
  bool quoted(std::string_view& field) {
    std::size_t end = 1;
    for (; end < rest_.size(); ++end) {
      if (rest_[end] != '"') continue;
      if (end + 1 == rest_.size() || rest_[end + 1] != '"') break;
      doubled_ = true;
      ++end;
    }
    open_ = end >= rest_.size() || (end + 1 < rest_.size() && rest_[end + 1] != separator_);
    ended_ = open_;
    if (open_) return false;
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
  bool open_ = false;
  bool doubled_ = false;
};

std::string undouble(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

std::string_view content_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

char separator_of(std::string_view header) {
  char best = ',';
  for (const char candidate : {';', '\t'}) {
    if (std::count(header.begin(), header.end(), candidate) >
        std::count(header.begin(), header.end(), best)) {
      best = candidate;
    }
  }
  return best;
}

std::vector<std::string> names_in(std::string_view header) {
  header = content_of(header);
  if (header.starts_with(kByteOrderMark)) header.remove_prefix(kByteOrderMark.size());
  CsvFields fields(header, separator_of(header));
  std::vector<std::string> names;
  for (std::string_view field; fields.next(field);) {
    const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
    field = field.substr(begin, field.find_last_not_of(' ') + 1 - begin);
    names.push_back(fields.doubled() ? undouble(field) : std::string(field));
  }
  if (fields.open()) names.clear();
  return names;
}

}  // namespace

bool CsvLineReader::is_header(std::string_view line, const FieldMap& map) {
  const std::vector<std::string> names = names_in(line);
  const auto is_time = [&](const std::string& name) {
    for (const FieldTarget* target = map.find(name); target != nullptr; target = target->also) {
      if (target->kind == FieldKind::kTime) return true;
    }
    return false;
  };
  return names.size() > 1 && std::any_of(names.begin(), names.end(), is_time);
}

LineFault CsvLineReader::read_header(std::string_view line) {
  separator_ = separator_of(line);
  columns_ = names_in(line);
  return is_header(line, map_) ? LineFault::kHeader : LineFault::kNoTime;
}

LineFault CsvLineReader::read(std::string_view line, LogLine& out, LogExtras& extras) {
  line = content_of(line);
  if (line.empty()) return LineFault::kEmpty;
  if (!columns_) return read_header(line);
  record_.begin(out, extras);
  CsvFields fields(line, separator_);
  std::size_t column = 0;
  for (std::string_view field; fields.next(field); ++column) {
    if (column == columns_->size()) return LineFault::kColumns;
    record_.add((*columns_)[column], fields.doubled() ? extras.copy(undouble(field)) : field);
  }
  if (fields.open()) return LineFault::kOpenField;
  if (column < columns_->size()) return LineFault::kColumns;
  return record_.finish(false);
}

}  // namespace sluice::replay
