#include "rules/cost_template.h"

#include <algorithm>
#include <map>

#include "base/quoted.h"
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

// Parses the status of a response, 100 to 599.
std::optional<int> status_from(std::string_view text) noexcept {
  const auto number = text.size() == 3 ? whole_number(text) : std::nullopt;
  if (!number || *number < 100 || *number > 599) return std::nullopt;
  return static_cast<int>(*number);
}

std::string number_error(const std::string& name, std::string_view value) {
  return "the attribute " + in_quotes(name) + " of the response is " + in_quotes(value) +
         "; expected a whole number from 0 to 9007199254740991";
}

constexpr std::string_view kRight =
    "expected numbers, attributes such as {body.max_tokens|500} and price.NAME, joined by '*' and "
    "'+'";
constexpr std::string_view kPricePrefix = "price.";

// Whether the text is meant as a number, right or wrong.
bool is_numeric(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return std::ranges::any_of(text, base::is_digit) &&
         text.find_first_not_of("0123456789.,_eE") == text.npos && !text.starts_with('e') &&
         !text.starts_with('E');
}

std::optional<std::uint64_t> number_up_to(std::uint64_t most, std::string_view text) {
  const auto number = whole_number(text);
  return number && *number <= most ? number : std::nullopt;
}

// Numbers that are too large for a double become this one, which no sum of smaller ones is.
constexpr std::uint64_t kTooMuch = kMaxAmount + 1;

std::uint64_t product_of(std::uint64_t a, std::uint64_t b) noexcept {
  if (a == 0 || b == 0) return 0;
  return a > kMaxAmount / b ? kTooMuch : a * b;
}

bool is_price_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         std::ranges::all_of(name, [](char c) { return base::is_letter_or("_-", c); });
}

// Finds the names of all prices, and reports what is wrong with them.
std::vector<std::string> names_of_prices(const Node& node, const PriceTable* of_file,
                                         Diagnostics& diagnostics) {
  std::vector<std::string> names;
  if (of_file != nullptr) names = of_file->names;
  for (const auto& [model, prices] : node.pairs) {
    if (of_file != nullptr && of_file->find(model->text) == nullptr) {
      diagnostics.add(model->at, "there are no prices of " + in_quotes(model->text),
                      PriceTable::expected(of_file->models, model->text));
    } else if (model->text.empty() || model->text.size() > 128) {
      diagnostics.add(model->at, "the name of a model is " + describe(*model),
                      "expected text of 1 to 128 bytes");
    }
    if (!prices->is_map() || prices->pairs.empty()) {
      diagnostics.add(prices->at,
                      "the prices of " + in_quotes(model->text) + " are " + describe(*prices),
                      "expected a map of names and numbers, such as { input: 3, output: 15 }");
    }
    for (const auto& [name, number] : prices->pairs) {
      if (std::ranges::count(names, name->text) > 0) continue;
      if (of_file != nullptr) {
        diagnostics.add(name->at, "there is no price " + in_quotes(name->text),
                        PriceTable::expected(names, name->text));
        continue;
      }
      if (!is_price_name(name->text) || names.size() == PriceTable::kMostNames) {
        diagnostics.add(name->at, "the name of a price is " + describe(*name),
                        "expected at most 32 names of 1 to 64 letters, digits, '_' and '-'");
        return names;
      }
      names.push_back(name->text);
    }
  }
  return names;
}

}  // namespace

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
  return std::min(units, kMaxAmount);
}

std::optional<std::uint64_t> units_from(std::string_view text) noexcept {
  return number_up_to(kMaxAmount, text);
}

std::string PriceTable::expected(const std::vector<std::string>& known, std::string_view name) {
  if (known.empty()) return "expected 'prices:' in this file";
  const std::vector<std::string_view> names(known.begin(), known.end());
  return "expected one of: " + either(names) + did_you_mean(name, names);
}

PriceTable PriceTable::read(const Node& node, Diagnostics& diagnostics, const PriceTable* of_file) {
  PriceTable table;
  if (node.pairs.size() > kMostModels) {
    diagnostics.add(node.at, "'prices' has " + std::to_string(node.pairs.size()) + " models",
                    "expected at most " + std::to_string(kMostModels));
    return table;
  }
  table.names = names_of_prices(node, of_file, diagnostics);
  std::map<std::string_view, const Node*> models;
  for (const auto& [model, prices] : node.pairs) models.emplace(model->text, prices);
  for (const auto& [model, prices] : models) {
    const std::size_t first = table.numbers.size();
    table.models.emplace_back(model);
    table.numbers.resize(first + table.names.size());
    for (const auto& [name, number] : prices->pairs) {
      const auto place = std::ranges::find(table.names, name->text);
      std::uint64_t price = kMaxAmount + 1;
      if (number->is_scalar() && !number->quoted) {
        price = grouped_number(number->text).value_or(price);
      }
      if (price > kMaxAmount) {
        diagnostics.add(number->at,
                        "the price " + in_quotes(name->text) + " is " + describe(*number),
                        "expected a whole number from 0 to " + std::to_string(kMaxAmount));
      }
      if (place == table.names.end()) continue;
      table.numbers[first + static_cast<std::size_t>(place - table.names.begin())] = price;
    }
  }
  return table;
}

const std::optional<std::uint64_t>* PriceTable::find(std::string_view model) const noexcept {
  const auto found = std::ranges::lower_bound(models, model);
  if (found == models.end() || *found != model) return nullptr;
  return numbers.data() + static_cast<std::size_t>(found - models.begin()) * names.size();
}

const std::optional<std::uint64_t>* PriceChoice::find(std::optional<std::string_view> model,
                                                      std::size_t plan) const noexcept {
  const PriceTable* const own = plan < by_plan.size() ? by_plan[plan].get() : nullptr;
  const auto prices_of = [&](std::string_view name) {
    const auto* const found = own == nullptr ? nullptr : own->find(name);
    return found == nullptr ? table->find(name) : found;
  };
  const auto* const found = model ? prices_of(*model) : nullptr;
  return found == nullptr && !otherwise.empty() ? prices_of(otherwise) : found;
}

// Reads the text of a cost from left to right.
class CostTemplate::Parser {
 public:
  Parser(std::string_view text, AttributeTable& attributes, std::span<const std::string> prices)
      : text_(text), attributes_(attributes), prices_(prices) {}

  Expected<CostTemplate, TemplateError> read() {
    bool begins_product = true;
    while (true) {
      Factor& factor = cost_.factors_.emplace_back(Factor{begins_product});
      skip_spaces();
      if (auto error = read_factor(factor)) return Unexpected{*std::move(error)};
      skip_spaces();
      if (at_ == text_.size()) break;
      const char sign = text_[at_++];
      if (sign != '+' && sign != '*') return Unexpected{wrong(at_ - 1, "text after a number")};
      begins_product = sign == '+';
    }
    const bool is_constant = std::ranges::all_of(cost_.factors_, [](const Factor& factor) {
      return factor.attributes.empty() && !factor.price;
    });
    cost_.kind_ = is_constant ? Kind::kUnits : Kind::kComputed;
    return std::move(cost_);
  }

 private:
  static TemplateError wrong(std::size_t at, const std::string& what) {
    return {at, what + "; " + std::string(kRight)};
  }
  static TemplateError too_large(std::size_t at, std::string_view what, std::string_view written) {
    return {at, std::string(what) + " is " + in_quotes(written) +
                    "; expected a whole number from 0 to " + std::to_string(kMaxAmount)};
  }
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(' ', at_), text_.size()); }

  std::optional<TemplateError> read_factor(Factor& factor) {
    if (at_ == text_.size()) return wrong(at_, "nothing at the end");
    if (text_[at_] == '{') return read_attributes(factor);
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(" +*{", begin + 1), text_.size());
    const std::string_view written = text_.substr(begin, at_ - begin);
    if (written.starts_with(kPricePrefix)) return read_price(factor, begin, written);
    if (!is_numeric(written)) return wrong(begin, in_quotes(written) + " outside of braces");
    factor.number = number_up_to(kMaxAmount, written);
    if (factor.number) return std::nullopt;
    return too_large(begin, "a number", written);
  }

  std::optional<TemplateError> read_price(Factor& factor, std::size_t begin,
                                          std::string_view written) {
    const std::string_view name = written.substr(kPricePrefix.size());
    const auto found = std::ranges::find(prices_, name);
    factor.price = static_cast<std::size_t>(found - prices_.begin());
    if (found != prices_.end()) return std::nullopt;
    return TemplateError{begin, "there is no price " + in_quotes(name) + "; " +
                                    PriceTable::expected({prices_.begin(), prices_.end()}, name)};
  }

  std::optional<TemplateError> read_attributes(Factor& factor) {
    const std::size_t end = text_.find_first_of("{}", at_ + 1);
    if (end == text_.npos || text_[end] == '{') return wrong(at_, "'{' without '}'");
    for (std::size_t begin = at_ + 1; begin <= end;) {
      const std::size_t next = std::min(text_.find('|', begin), end);
      if (auto error = add(factor, begin, text_.substr(begin, next - begin))) return error;
      begin = next + 1;
    }
    at_ = end + 1;
    return std::nullopt;
  }

  // Adds an attribute, or the default.
  std::optional<TemplateError> add(Factor& factor, std::size_t at, std::string_view written) {
    const bool numeric = is_numeric(written);
    if (factor.number) {
      return wrong(at, numeric ? "two defaults" : "an attribute after the default");
    }
    if (numeric) {
      if (factor.attributes.empty()) {
        return TemplateError{at,
                             "a number without an attribute; expected an attribute before it, or "
                             "the number without braces"};
      }
      factor.number = number_up_to(kMaxAmount, written);
      if (factor.number) return std::nullopt;
      return too_large(at, "the default", written);
    }
    const std::string name = normalized(written);
    if (auto error = find_name_error(name)) return TemplateError{at, *std::move(error)};
    if (const std::size_t slash = name.find('/'); slash != name.npos) {
      return wrong(at + slash, "a cost has no address prefix");
    }
    factor.attributes.push_back(attributes_.number(name));
    return std::nullopt;
  }

  std::string_view text_;
  AttributeTable& attributes_;
  std::span<const std::string> prices_;
  std::size_t at_ = 0;
  CostTemplate cost_;
};

Expected<CostTemplate, TemplateError> CostTemplate::compile(std::string_view text,
                                                            AttributeTable& attributes,
                                                            std::span<const std::string> prices) {
  if (text != "request") return Parser(text, attributes, prices).read();
  CostTemplate cost;
  cost.kind_ = Kind::kRequest;
  return cost;
}

std::vector<std::vector<std::uint32_t>> CostTemplate::needs() const {
  std::vector<std::vector<std::uint32_t>> out;
  for (const Factor& factor : factors_) {
    if (!factor.attributes.empty() && !factor.number) out.push_back(factor.attributes);
  }
  return out;
}

std::vector<std::size_t> CostTemplate::prices() const {
  std::vector<std::size_t> out;
  for (const Factor& factor : factors_) {
    if (factor.price) out.push_back(*factor.price);
  }
  return out;
}

// Adds the products up to `most`, or returns what value_of() a factor is instead of a number.
template <typename ValueOf>
auto CostTemplate::sum_up_to(std::uint64_t most, const ValueOf& value_of) const -> Found {
  std::uint64_t sum = 0;
  std::uint64_t product = 0;
  for (const Factor& factor : factors_) {
    const Found value = value_of(factor);
    if (!value || !*value) return value;
    if (factor.begins_product) {
      sum = std::min(sum + product, kTooMuch);
      product = **value;
    } else {
      product = product_of(product, **value);
    }
  }
  sum = std::min(sum + product, kTooMuch);
  if (sum > most) return Unexpected{kTooLarge};
  return std::optional(sum);
}

std::optional<std::uint64_t> CostTemplate::units(const std::optional<std::uint64_t>* prices) const {
  if (kind_ == Kind::kUnset || kind_ == Kind::kRequest) return std::nullopt;
  const Found sum = sum_up_to(kMaxAmount, [&](const Factor& factor) -> Found {
    if (!factor.price) return factor.number;
    return prices == nullptr ? std::nullopt : prices[*factor.price];
  });
  return sum ? *sum : std::nullopt;
}

CostTemplate::Found CostTemplate::find(AttributeValues& values, const PriceChoice& price,
                                       std::size_t plan, std::uint64_t most) const {
  const std::uint64_t most_value = factors_.size() == 1 ? most : kMaxAmount;
  const std::optional<std::uint64_t>* prices = nullptr;
  return sum_up_to(most, [&](const Factor& factor) -> Found {
    if (factor.price) {
      if (prices == nullptr) {
        const auto model = price.of.one_value(values);
        prices = price.find(model, plan);
        if (prices == nullptr && model) return Unexpected{kNoPrice};
        if (prices == nullptr) return std::optional<std::uint64_t>();
      }
      return prices[*factor.price];
    }
    for (const std::uint32_t attribute : factor.attributes) {
      const auto& value = values.get(attribute);
      if (!value || value->empty()) continue;
      const auto units = number_up_to(most_value, *value);
      if (!units) return Unexpected{attribute};
      return units;
    }
    return factor.number;
  });
}

}  // namespace sluice::rules
