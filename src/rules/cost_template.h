#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rules/attributes.h"
#include "rules/key_template.h"
#include "rules/yaml_tree.h"
#include "sluice/attributes.h"
#include "sluice/expected.h"
#include "sluice/limit.h"

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

// The `prices` of a file: whole numbers by model and name. Models are in the order of their names.
struct PriceTable {
  static constexpr std::size_t kMostNames = 32;
  static constexpr std::size_t kMostModels = 10'000;

  // Reports what is wrong with the node to the diagnostics. Prices of a plan replace some of the
  // file, and have no other models and names.
  static PriceTable read(const Node& node, Diagnostics& diagnostics,
                         const PriceTable* of_file = nullptr);
  // Says which names there are, to explain one that is not among them.
  static std::string expected(const std::vector<std::string>& known, std::string_view name);

  std::vector<std::string> models;
  std::vector<std::string> names;
  std::vector<std::optional<std::uint64_t>> numbers;  // of each model, those of all names

  // Those of a model; null: there is no such model.
  const std::optional<std::uint64_t>* find(std::string_view model) const noexcept;
};

// The compiled `price` of a limit: the model of a request, and the one of requests without one or
// with one that has no prices. Thread-safety: immutable; use it from any thread.
struct PriceChoice {
  KeyTemplate of;
  std::string otherwise = {};  // empty: there is none
  std::shared_ptr<const PriceTable> table;
  // By the index in Rule::plans, those that replace some of `table`; may be null. Empty: no plan
  // has prices.
  std::vector<std::shared_ptr<const PriceTable>> by_plan = {};

  // The prices of a request; null: there are none.
  const std::optional<std::uint64_t>* find(std::optional<std::string_view> model,
                                           std::size_t plan) const noexcept;
};

// The compiled `cost` of a limit (docs/rules.md, Costs):
//
//   5                        always these units
//   request                  the number that the request gives
//   {body.max_tokens}        the number in an attribute
//   {body.max_tokens|a|500}  the first of these attributes that is present, else 500
//   {body.in} * price.in + 5 a sum of products of numbers, attributes and prices
//
// Without `cost`, it is kUnset. Thread-safety: immutable; use it from any thread.
class CostTemplate {
 public:
  enum class Kind : std::uint8_t { kUnset, kRequest, kUnits, kComputed };
  // Why a request has no cost: the attribute whose value is no number of units, or kTooLarge.
  using Mistake = std::uint32_t;
  static constexpr Mistake kTooLarge = 0xFFFFFFFF;
  static constexpr Mistake kNoPrice = 0xFFFFFFFE;  // the model of the request has no prices

  // Borrows the arguments until it returns. `prices` are the names of prices.
  static Expected<CostTemplate, TemplateError> compile(std::string_view text,
                                                       AttributeTable& attributes,
                                                       std::span<const std::string> prices = {});

  Kind kind() const noexcept { return kind_; }
  // The units of a request without attributes, with these prices. Absent: it needs more, or there
  // is no such number.
  std::optional<std::uint64_t> units(const std::optional<std::uint64_t>* prices = nullptr) const;

  // The attributes of each part without a default: a request needs one of each.
  std::vector<std::vector<std::uint32_t>> needs() const;
  // The indices of the prices that it reads.
  std::vector<std::size_t> prices() const;

  // Units up to `most` from the attributes of a request, with the prices of its plan. Absent:
  // attributes are missing.
  using Found = Expected<std::optional<std::uint64_t>, Mistake>;
  Found find(AttributeValues& values, const PriceChoice& price, std::size_t plan,
             std::uint64_t most) const;

 private:
  // A number, a price, or attributes and their default.
  struct Factor {
    bool begins_product = false;
    std::vector<std::uint32_t> attributes = {};
    std::optional<std::uint64_t> number = {};
    std::optional<std::size_t> price = {};
  };
  class Parser;

  template <typename ValueOf>
  Found sum_up_to(std::uint64_t most, const ValueOf& value_of) const;

  Kind kind_ = Kind::kUnset;
  std::vector<Factor> factors_;
};

// Parses a number of units: a whole number from 0 to kMaxAmount without sign or leading zeros.
std::optional<std::uint64_t> units_from(std::string_view text) noexcept;

}  // namespace sluice::rules
