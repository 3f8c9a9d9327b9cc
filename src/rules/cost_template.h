#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rules/attribute_table.h"
#include "rules/key_template.h"
#include "sluice/expected.h"

namespace sluice::rules {

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

  // Units from the attributes of a request. Absent: all attributes are missing, or the value of
  // `wrong` is no number of units.
  struct Found {
    std::optional<std::uint64_t> units;
    std::optional<std::uint32_t> wrong = {};
  };
  Found find(AttributeValues& values) const;

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
