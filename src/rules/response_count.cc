#include "rules/response_count.h"

#include <algorithm>

#include "rules/attribute_table.h"
#include "rules/cost_template.h"
#include "rules/diagnostics.h"
#include "rules/fields.h"
#include "sluice/limit.h"

namespace sluice::rules {
namespace {

constexpr std::string_view kStatuses =
    "expected a status from 100 to 599, or a class of them from 1xx to 5xx";
constexpr std::string_view kKeys =
    "expected 'on' with statuses, or an attribute of the response with 'add', such as "
    "{ on: [401, 5xx], header.x-cost: add }";

bool is_class(std::string_view text) noexcept {
  return text.size() == 3 && text[0] >= '1' && text[0] <= '5' && text.substr(1) == "xx";
}

std::string number_error(const std::string& name, std::string_view value) {
  return "the attribute " + in_quotes(name) + " of the response is " + in_quotes(value) +
         "; expected a whole number from 0 to 4294967295";
}

}  // namespace

std::optional<int> status_from(std::string_view text) noexcept {
  const auto number = text.size() == 3 ? whole_number(text) : std::nullopt;
  if (!number || *number < 100 || *number > 599) return std::nullopt;
  return static_cast<int>(*number);
}

ResponseCount ResponseCount::read(const Node& node, Diagnostics& diagnostics) {
  ResponseCount count;
  for (const auto& [name, value] : node.pairs) {
    if (name->text == "on") {
      count.read_statuses(*value, diagnostics);
    } else {
      count.read_attribute(*name, *value, diagnostics);
    }
  }
  if (node.pairs.empty()) diagnostics.add(node.at, "'count' is empty", std::string(kKeys));
  return count;
}

void ResponseCount::read_statuses(const Node& node, Diagnostics& diagnostics) {
  const std::vector<const Node*> items =
      node.is_sequence() ? node.items : std::vector<const Node*>{&node};
  if (items.empty()) diagnostics.add(node.at, "'on' is empty", std::string(kStatuses));
  for (const Node* item : items) {
    const auto status = item->is_scalar() ? status_from(item->text) : std::nullopt;
    if (status) {
      statuses_.push_back({*status, *status});
    } else if (item->is_scalar() && is_class(item->text)) {
      const int first = (item->text[0] - '0') * 100;
      statuses_.push_back({first, first + 99});
    } else {
      diagnostics.add(item->at, "'on' is " + describe(*item), std::string(kStatuses));
    }
  }
}

void ResponseCount::read_attribute(const Node& name, const Node& value, Diagnostics& diagnostics) {
  if (auto wrong = find_name_error(name.text)) return diagnostics.add_message(name.at, *wrong);
  if (!value.is_plain("add")) {
    return diagnostics.add(value.at, in_quotes(name.text) + " is " + describe(value),
                           std::string(kKeys));
  }
  attributes_.push_back(normalized(name.text));
}

// Whether the status of the response counts. Absent: it has none.
std::optional<bool> ResponseCount::counts(const AttributeSource& response) const {
  if (statuses_.empty()) return false;
  const auto text = response.find("status");
  const auto status = text ? status_from(*text) : std::nullopt;
  if (!status) return std::nullopt;
  return std::any_of(statuses_.begin(), statuses_.end(), [&](const Statuses& range) {
    return *status >= range.first && *status <= range.last;
  });
}

Expected<std::uint64_t, std::string> ResponseCount::units(const AttributeSource& response,
                                                          std::uint64_t cost) const {
  const auto counted = counts(response);
  if (!counted) {
    const auto given = response.find("status");
    return Unexpected{"the status of the response is " +
                      (given ? in_quotes(*given) : std::string("missing")) +
                      "; expected a number from 100 to 599"};
  }
  std::uint64_t units = *counted ? cost : 0;
  for (const std::string& name : attributes_) {
    const auto value = response.find(name);
    if (!value || value->empty()) continue;
    const auto more = units_from(*value);
    if (!more) return Unexpected{number_error(name, *value)};
    units += *more;
  }
  return std::min(units, kMaxUnits);
}

}  // namespace sluice::rules
