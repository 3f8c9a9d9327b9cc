#pragma once

#include <memory>
#include <string_view>

#include "replay/log_record.h"

namespace sluice::replay {

// Reads lines that are JSON objects. A field of an object in an object has the path of their names,
// "request.headers.X-User". Of an array the first value counts.
//
// Not thread-safe. Borrows the map; the LogLine borrows the line and the extras. Cost: one pass
// over the line; copies what has escapes.
class JsonLineReader {
 public:
  explicit JsonLineReader(const FieldMap& map);
  ~JsonLineReader();
  JsonLineReader(const JsonLineReader&) = delete;
  JsonLineReader& operator=(const JsonLineReader&) = delete;

  LineFault read(std::string_view line, LogLine& out, LogExtras& extras);

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace sluice::replay
