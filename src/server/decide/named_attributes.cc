#include "server/decide/named_attributes.h"

#include <algorithm>

namespace sluice::server {

std::optional<std::string_view> NamedAttributes::finish() {
  if (values_.size() > kFew) {
    std::ranges::sort(values_, {}, &Value::name);
    const auto twice = std::ranges::adjacent_find(values_, {}, &Value::name);
    if (twice != values_.end()) return twice->name;
    return std::nullopt;
  }
  for (std::size_t i = 1; i < values_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (values_[i].name == values_[j].name) return values_[i].name;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> NamedAttributes::find(std::string_view name) const {
  if (values_.size() > kFew) {
    const auto found = std::ranges::lower_bound(values_, name, {}, &Value::name);
    if (found == values_.end() || found->name != name) return std::nullopt;
    return found->value;
  }
  for (const Value& value : values_) {
    if (value.name == name) return value.value;
  }
  return std::nullopt;
}

}  // namespace sluice::server
