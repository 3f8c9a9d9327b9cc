#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class PermitId;

// The named values of a request that rules read: "method", "path", "header.x-user-id". Derive from
// it to give rules the values of your own requests. Rules ask for names of headers in lower case.
// In a key an empty value counts as absent.
//
// Thread-safety: find() may be called from several threads at once. Ownership: the text that find()
// returns is valid until the source changes or ends. Cost: one virtual call for each name.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  // The value of a name; nothing if the request has none.
  virtual std::optional<std::string_view> find(std::string_view name) const = 0;
};

// A short list of attributes.
//
// Thread-safety: any thread while nothing is set. Ownership: copies names and values. Cost: finds
// in linear time.
class Attributes final : public AttributeSource {
 public:
  Attributes() = default;
  // The attributes of these names and values.
  Attributes(std::initializer_list<std::pair<std::string_view, std::string_view>> values);
  // Adds a value, or replaces the earlier value of that name.
  void set(std::string_view name, std::string_view value);
  std::optional<std::string_view> find(std::string_view name) const override;

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

// The units that a request takes from the limit of a rule with that name. A plain value that
// borrows the name.
struct LimitCost {
  std::string_view limit;
  std::uint64_t units = 1;
};

// The costs that a request gives for the limits of the rules that match it (docs/rules.md, Costs).
// A number converts to it.
//
//   decider.decide(rules, attributes, 3);
//   const sluice::LimitCost costs[] = {{"requests", 1}, {"tokens", 700}};
//   decider.decide(rules, attributes, {1, costs});
//
// A plain value that borrows `limits`.
struct RequestCosts {
  // Costs of that many units; 0 takes nothing. `limits` has its own cost for some limits.
  RequestCosts(std::uint64_t for_all = 1, std::span<const LimitCost> by_name = {}) noexcept
      : units(for_all), limits(by_name) {}

  std::uint64_t units;  // for limits with `cost: request`, and for limits without `cost`
  // For the limits of these names, whatever their `cost` is. A name that no limit of the matching
  // rules has makes the request kInvalid.
  std::span<const LimitCost> limits;
  // `units` is only for limits with `cost: request`; limits without `cost` take one unit.
  bool only_if_wanted = false;
  // For `units`: only the limits that are named have a cost, and a settlement of others is
  // kInvalid.
  static constexpr std::uint64_t kNoUnits = ~std::uint64_t{0};
  // The id under which budgets hold or count the request, so that a repeated one counts once; null:
  // none. Other limits ignore it. Of several parts of a request, that of the first counts.
  const PermitId* id = nullptr;
  std::string_view id_text = {};  // the id itself, for a ledger; empty: it is not known
};

}  // namespace sluice
