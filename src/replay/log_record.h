#pragma once

#include <array>
#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "replay/field_map.h"
#include "replay/log_line.h"
#include "replay/log_time.h"
#include "sluice/request_costs.h"

namespace sluice::replay {

// An attribute of a line besides the members of LogLine.
struct LogField {
  std::string_view name;
  std::string_view value;
};

// What lines have besides the members of LogLine, which says which part is theirs. Owns text that
// is not in the lines.
struct LogExtras {
  std::vector<LogField> fields;
  std::vector<LimitCost> costs;
  std::pmr::monotonic_buffer_resource text;

  std::string_view copy(std::string_view from);
  void clear();
};

// Makes a LogLine from the named fields of a JSON or CSV line, added one after the other.
//
// Not thread-safe. Borrows the map; the line borrows the text of its fields. Allocates if the
// buffers of the extras must grow.
class LogRecord {
 public:
  explicit LogRecord(const FieldMap& map) : map_(map) {}

  void begin(LogLine& line, LogExtras& extras);
  // Adds the field if it is known: by the map; headers (request.headers.NAME, headers.NAME, and
  // nginx's http_NAME); recorded attributes and costs (attributes.NAME, costs.LIMIT). Of two fields
  // with one meaning and rank, the first counts.
  void add(std::string_view source, std::string_view value);
  // Adds a field with this meaning. An empty value and "-" are absent.
  void add(const FieldTarget& target, std::string_view value);
  // Returns what is wrong with the line. `needs_request`: a line without any attribute or cost is
  // not a request.
  LineFault finish(bool needs_request);

 private:
  static constexpr std::size_t kSingles = static_cast<std::size_t>(FieldKind::kTime) + 1;

  void add_header(std::string_view name, std::string_view value);
  void add_recorded(std::string_view name, std::string_view value);
  bool takes(FieldKind kind, std::uint8_t rank) noexcept;
  void set(FieldKind kind, std::string_view value);
  void set_cost(std::string_view limit, std::string_view value);
  void set_client(std::string_view address) noexcept;

  const FieldMap& map_;
  LogTimeReader times_;
  LogLine* line_ = nullptr;
  LogExtras* extras_ = nullptr;
  std::string_view request_;
  std::array<std::uint8_t, kSingles> ranks_{};  // of what the line has so far
  LineFault time_fault_ = LineFault::kNoTime;
  LineFault cost_fault_ = LineFault::kNone;
};

}  // namespace sluice::replay
