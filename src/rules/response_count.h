#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rules/yaml_tree.h"
#include "sluice/attributes.h"
#include "sluice/expected.h"

namespace sluice::rules {

// The compiled `count` of a limit (docs/rules.md, Counting by the response): the units that a
// response costs.
//
//   { on: [401, 403, 5xx] }               the cost of the limit, for these statuses
//   { on: 401, header.x-cost: add }       and the number in an attribute of the response
//
// Thread-safety: immutable; use it from any thread.
class ResponseCount {
 public:
  // Reports what is wrong with the node to the diagnostics.
  static ResponseCount read(const Node& node, Diagnostics& diagnostics);

  // Whether responses count by their status.
  bool reads_status() const noexcept { return !statuses_.empty(); }
  // The units of a response, if the limit's cost is `cost`. Errors: "WHAT; EXPECTED".
  Expected<std::uint64_t, std::string> units(const AttributeSource& response,
                                             std::uint64_t cost) const;

 private:
  struct Statuses {
    int first, last;
  };

  void read_statuses(const Node& node, Diagnostics& diagnostics);
  void read_attribute(const Node& name, const Node& value, Diagnostics& diagnostics);
  std::optional<bool> counts(const AttributeSource& response) const;

  std::vector<Statuses> statuses_;
  std::vector<std::string> attributes_;  // whose numbers are added
};

// Parses the status of a response, 100 to 599.
std::optional<int> status_from(std::string_view text) noexcept;

}  // namespace sluice::rules
