#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>

namespace sluice::replay {

// A field of a log that a person has named: `name` is an attribute of rules, `costs.LIMIT`, `cost`
// or `time`; `source` a column, or the path of a JSON field ("request.headers.X-User").
struct FieldMapping {
  std::string name;
  std::string source;
};

// What a field of a JSON or CSV log is. The kinds up to kTime occur once for a line.
enum class FieldKind : std::uint8_t {
  kClient,        // an address, also with a port
  kForwardedFor,  // addresses separated by commas; the last one is the client
  kMethod,
  kTarget,   // path and query
  kRequest,  // "GET /path HTTP/1.1"
  kPath,     // without a query
  kQuery,
  kStatus,
  kReferer,
  kUserAgent,
  kUnits,  // the cost for all limits
  kTime,
  kAttribute,
  kCost,  // for the limit of this name
};

// The meaning of a field. If several fields of a line have one meaning, the lowest rank counts.
struct FieldTarget {
  FieldKind kind = FieldKind::kAttribute;
  std::uint8_t rank = 0;
  std::string_view name = {};         // of the attribute or of the limit
  const FieldTarget* also = nullptr;  // another meaning of the same field
};

// Returns the meaning of an attribute's name, of "cost", of "costs.LIMIT" or of "time". Borrows it.
FieldTarget target_of_name(std::string_view name, std::uint8_t rank) noexcept;

// Says what the fields of a log are by their names, in any case: those that a person has named, and
// the usual names of nginx, Envoy, Caddy and others.
//
// Thread-safe after it was made. Cost: one look-up in a table.
class FieldMap {
 public:
  explicit FieldMap(std::span<const FieldMapping> mappings = {});
  FieldMap(const FieldMap&) = delete;
  FieldMap& operator=(const FieldMap&) = delete;

  // Returns the meaning of a field, or null. Valid as long as the map.
  const FieldTarget* find(std::string_view source) const noexcept;

 private:
  struct CaseHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept;
  };
  struct CaseEqual {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const noexcept;
  };

  void add(std::string_view source, FieldTarget target);

  std::deque<FieldMapping> mappings_;
  std::deque<FieldTarget> others_;  // what `also` points to
  boost::unordered_flat_map<std::string_view, FieldTarget, CaseHash, CaseEqual> targets_;
};

}  // namespace sluice::replay
