#include "rules/cost_template.h"

#include <algorithm>

#include "rules/fields.h"
#include "rules/source_text.h"
#include "sluice/limit.h"

namespace sluice::rules {
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

CostTemplate::Found CostTemplate::find(AttributeValues& values) const {
  for (const std::uint32_t attribute : attributes_) {
    const auto& value = values.get(attribute);
    if (!value || value->empty()) continue;
    const auto units = units_from(*value);
    return {units, units ? std::nullopt : std::optional(attribute)};
  }
  return {units_};
}

}  // namespace sluice::rules
