#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rules/cost_template.h"
#include "rules/counter_key.h"
#include "rules/key_template.h"
#include "rules/rule_set.h"
#include "sluice/attributes.h"
#include "sluice/limit.h"

namespace {

using sluice::rules::KeyTemplate;

// The input is a template, a NUL, and the value of each of its attributes.
void check_template(std::string_view text, std::string_view value) {
  sluice::rules::AttributeTable table;
  const auto key = KeyTemplate::compile(text, table);
  if (!key) {
    if (key.error().at > text.size() || key.error().message.empty()) std::abort();
    return;
  }
  sluice::Attributes attributes;
  for (const std::string& name : table.names()) attributes.set(name, value);
  sluice::rules::AttributeValues values;
  values.begin(table, attributes);
  std::string out = "d|r|l";
  std::string scratch;
  std::size_t end = 0;
  const auto label = key->fill(values, out, end, scratch);
  if (!label) {
    if (!value.empty()) std::abort();
    return;
  }
  if (end > out.size() || *label > out.size()) std::abort();
  for (const char c : std::string_view(out).substr(0, end)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '{' || c == '}') std::abort();
  }
}

// The same input as the cost of a limit: units are in range, and those of a single number come from
// the attributes.
void check_cost(std::string_view text, std::string_view value) {
  sluice::rules::AttributeTable table;
  const auto cost = sluice::rules::CostTemplate::compile(text, table);
  if (!cost) {
    if (cost.error().at > text.size() || cost.error().message.empty()) std::abort();
    return;
  }
  sluice::Attributes attributes;
  for (const std::string& name : table.names()) attributes.set(name, value);
  sluice::rules::AttributeValues values;
  values.begin(table, attributes);
  const auto found = cost->find(values, {}, 0, sluice::kMaxUnits);
  if (found && found->value_or(0) > sluice::kMaxUnits) std::abort();
  const bool is_sum = text.find_first_of("*+") != text.npos;
  if (is_sum || cost->kind() == sluice::rules::CostTemplate::Kind::kRequest) return;
  const bool reads = !table.names().empty() && !value.empty();
  const auto expected = reads ? sluice::rules::units_from(value) : cost->units();
  const bool is_valid = expected ? *expected <= sluice::kMaxUnits : !reads;
  if (found.has_value() != is_valid || (found && *found != expected)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const std::string_view text = input.substr(0, end);
  const std::string_view value = end == input.npos ? std::string_view() : input.substr(end + 1);
  check_template(text, value);
  check_cost(text, value);
  if (const auto pattern = sluice::rules::Pattern::compile(text)) (void)pattern->matches(value);
  return 0;
}
