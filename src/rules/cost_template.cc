#include "rules/cost_template.h"

#include <algorithm>

#include "rules/attributes.h"
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
  const std::vector<const Node*> items = texts_of(node);
  if (items.empty()) diagnostics.add(node.at, "'on' is empty", std::string(kStatuses));
  for (const Node* item : items) {
    const auto status = item->is_scalar() ? status_from(item->text) : std::nullopt;
    if (status) {
      statuses_.set(static_cast<std::size_t>(*status));
    } else if (item->is_scalar() && is_class(item->text)) {
      const auto first = static_cast<std::size_t>(item->text[0] - '0') * 100;
      for (std::size_t one = first; one < first + 100; ++one) statuses_.set(one);
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
  if (statuses_.none()) return false;
  const auto text = response.find("status");
  const auto status = text ? status_from(*text) : std::nullopt;
  if (!status) return std::nullopt;
  return statuses_.test(static_cast<std::size_t>(*status));
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

namespace {

constexpr std::string_view kRight =
    "expected one attribute and its default, such as {body.max_tokens|500}";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the text is meant as a number, right or wrong.
bool is_numeric(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return std::any_of(text.begin(), text.end(), is_digit) &&
         text.find_first_not_of("0123456789.,_eE") == text.npos && !text.starts_with('e') &&
         !text.starts_with('E');
}

}  // namespace

std::optional<std::uint64_t> units_from(std::string_view text) noexcept {
  const auto number = whole_number(text);
  return number && *number <= kMaxUnits ? number : std::nullopt;
}

Expected<CostTemplate, TemplateError> CostTemplate::compile(std::string_view text,
                                                            AttributeTable& attributes) {
  const auto fail = [](std::size_t at, const std::string& what) {
    return Unexpected{TemplateError{at, what + "; " + std::string(kRight)}};
  };
  CostTemplate cost;
  if (text == "request") {
    cost.kind_ = Kind::kRequest;
    return cost;
  }
  if (const auto units = units_from(text)) {
    cost.kind_ = Kind::kUnits;
    cost.units_ = units;
    return cost;
  }
  cost.kind_ = Kind::kAttribute;
  if (!text.starts_with('{')) return fail(0, "text outside of the braces");
  const std::size_t end = text.find_first_of("{}", 1);
  if (end == text.npos || text[end] == '{') return fail(0, "'{' without '}'");
  if (end + 1 < text.size()) return fail(end + 1, "text outside of the braces");
  for (std::size_t begin = 1; begin <= end;) {
    const std::size_t next = std::min(text.find('|', begin), end);
    if (auto error = cost.add(begin, text.substr(begin, next - begin), attributes)) {
      return Unexpected{*std::move(error)};
    }
    begin = next + 1;
  }
  return cost;
}

// Adds an attribute, or the default.
std::optional<TemplateError> CostTemplate::add(std::size_t at, std::string_view written,
                                               AttributeTable& attributes) {
  const bool numeric = is_numeric(written);
  if (units_) {
    return TemplateError{at, (numeric ? "two defaults; " : "an attribute after the default; ") +
                                 std::string(kRight)};
  }
  if (numeric) {
    if (attributes_.empty()) {
      return TemplateError{at,
                           "a number without an attribute; expected an attribute before it, or "
                           "the number without braces"};
    }
    units_ = units_from(written);
    if (units_) return std::nullopt;
    return TemplateError{at, "the default is " + in_quotes(written) +
                                 "; expected a whole number from 0 to 4294967295"};
  }
  const std::string name = normalized(written);
  if (auto wrong = find_name_error(name)) return TemplateError{at, *std::move(wrong)};
  if (const std::size_t slash = name.find('/'); slash != name.npos) {
    return TemplateError{at + slash, "a cost has no address prefix; " + std::string(kRight)};
  }
  attributes_.push_back(attributes.number(name));
  return std::nullopt;
}

Expected<std::optional<std::uint64_t>, std::uint32_t> CostTemplate::find(
    AttributeValues& values) const {
  for (const std::uint32_t attribute : attributes_) {
    const auto& value = values.get(attribute);
    if (!value || value->empty()) continue;
    const auto units = units_from(*value);
    if (!units) return Unexpected{attribute};
    return units;
  }
  return units_;
}

}  // namespace sluice::rules
