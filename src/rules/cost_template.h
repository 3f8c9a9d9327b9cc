#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rules/attributes.h"
#include "rules/key_template.h"
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
  bool reads_status() const noexcept { return statuses_.any(); }
  // The units of a response, if the limit's cost is `cost`. Errors: "WHAT; EXPECTED".
  Expected<std::uint64_t, std::string> units(const AttributeSource& response,
                                             std::uint64_t cost) const;

 private:
  void read_statuses(const Node& node, Diagnostics& diagnostics);
  void read_attribute(const Node& name, const Node& value, Diagnostics& diagnostics);
  std::optional<bool> counts(const AttributeSource& response) const;

  std::bitset<600> statuses_;
  std::vector<std::string> attributes_;  // whose numbers are added
};

// Parses the status of a response, 100 to 599.
std::optional<int> status_from(std::string_view text) noexcept;

// The compiled `cost` of a limit (docs/rules.md, Costs):
//
//   5                        always these units
//   request                  the number that the request gives
//   {body.max_tokens}        the number in an attribute
//   {body.max_tokens|a|500}  the first of these attributes that is present, else 500
//
// Without `cost`, it is kUnset. Thread-safety: immutable; use it from any thread.
class CostTemplate {
 public:
  enum class Kind : std::uint8_t { kUnset, kRequest, kUnits, kAttribute };

  static Expected<CostTemplate, TemplateError> compile(std::string_view text,
                                                       AttributeTable& attributes);

  Kind kind() const noexcept { return kind_; }
  // The units without attributes: the number, or the default. Absent if there is neither.
  std::optional<std::uint64_t> units() const noexcept { return units_; }

  // The attributes that it reads: a request needs one of them, unless there is a default.
  const std::vector<std::uint32_t>& attributes() const noexcept { return attributes_; }

  // Units from the attributes of a request. Absent: all attributes are missing. Error: the
  // attribute whose value is no number of units.
  Expected<std::optional<std::uint64_t>, std::uint32_t> find(AttributeValues& values) const;

 private:
  std::optional<TemplateError> add(std::size_t at, std::string_view written,
                                   AttributeTable& attributes);

  Kind kind_ = Kind::kUnset;
  std::optional<std::uint64_t> units_;
  std::vector<std::uint32_t> attributes_;
};

// Parses a number of units: a whole number from 0 to kMaxUnits without sign or leading zeros.
std::optional<std::uint64_t> units_from(std::string_view text) noexcept;

}  // namespace sluice::rules
