#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log_record.h"

namespace sluice::replay {

// Reads lines of CSV (RFC 4180). The first line has the names of the columns and says which of ','
// ';' and tab separates them. Fields may be quoted, but not contain line breaks.
//
// Not thread-safe. Borrows the map; the LogLine borrows the line and the extras. Cost: one pass
// over the line; copies what has quotes in quotes.
class CsvLineReader {
 public:
  explicit CsvLineReader(const FieldMap& map) : map_(map), record_(map) {}

  // Returns whether a line has names of columns, one of which is the time.
  static bool is_header(std::string_view line, const FieldMap& map);

  // Returns kHeader for the first line.
  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  LineFault read_header(std::string_view line);

  const FieldMap& map_;
  LogRecord record_;
  std::optional<std::vector<std::string>> columns_;
  char separator_ = ',';
};

}  // namespace sluice::replay
