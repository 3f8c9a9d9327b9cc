#include "rules/attributes.h"

#include <algorithm>

#include "rules/diagnostics.h"
#include "sluice/attributes.h"

namespace sluice {

Attributes::Attributes(
    std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  values_.reserve(values.size());
  for (const auto& [name, value] : values) set(name, value);
}

void Attributes::set(std::string_view name, std::string_view value) {
  for (auto& [known, old] : values_) {
    if (known != name) continue;
    old = value;
    return;
  }
  values_.emplace_back(name, value);
}

std::optional<std::string_view> Attributes::find(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return std::nullopt;
}

namespace rules {

std::uint32_t AttributeTable::number(std::string_view name) {
  std::string key = normalized(name);
  const auto next = static_cast<std::uint32_t>(names_.size());
  const auto [at, is_new] = numbers_.try_emplace(key, next);
  if (is_new) names_.push_back(std::move(key));
  return at->second;
}

std::string normalized(std::string_view name) {
  std::string out(name);
  if (!name.starts_with("header.")) return out;
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::optional<std::string> find_name_error(std::string_view name) {
  if (name.empty()) return "an attribute without a name; expected one such as ip or header.host";
  for (const char c : name) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) continue;
    return "a control character in the attribute " + in_quotes(name) +
           "; expected a name such as ip";
  }
  if (name.front() == ' ' || name.back() == ' ') {
    return "a space next to the attribute " + in_quotes(name) + "; expected the name alone";
  }
  for (const std::string_view group : {"header.", "query.", "cookie.", "body."}) {
    if (name == group)
      return in_quotes(name) + " lacks its name; expected " + std::string(group) + "NAME";
  }
  return std::nullopt;
}

}  // namespace rules
}  // namespace sluice
